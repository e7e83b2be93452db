"""Trades of an exchange, as a desk watches them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, time, timedelta
from statistics import fmean

from activebroker import Event, FIFOFilter

from .case import Case
from .drawing import NAN, contents
from .helpers import between, documented, percent_change
from .trading_events import Side, Trade

logger = logging.getLogger(__name__)

MAX_SPREAD = 0.005
INDICES = {"SPX", "NDX", "DAX"}
DARK_VENUES = ("UBSA", "SGMX", "LQNA")
LOT_SIZES = {"IBM": 100, "MSFT": 100, "BRK": 1}
WATCHED_LISTINGS = frozenset({"IBM.XNYS", "MSFT.XNAS"})
OPENING = datetime(2024, 3, 15, 9, 30)


class IbmOrDear(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        s = event.content
        if s.symbol == "IBM":
            super().enqueue(event)
        elif s.price > 100:
            super().enqueue(event)


def in_session(trade: Trade) -> bool:
    return 9 <= trade.executed_at.hour < 16 and trade.executed_at.weekday() < 5


def wide_spread(trade: Trade) -> bool:
    if trade.bid <= 0:
        return False
    return trade.spread / trade.mid > MAX_SPREAD


class BlockTrades(FIFOFilter):
    """Large prints that are no crosses."""

    def __init__(self, minimum: int = 10_000, symbols: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.minimum = minimum
        self.symbols = frozenset(symbols)

    def enqueue(self, event: Event) -> None:
        trade = event.content
        if trade.quantity >= self.minimum and trade.symbol in self.symbols:
            if trade.side != Side.CROSS:
                super().enqueue(event)


class DarkPrints(FIFOFilter):
    EXCLUDED = frozenset({"TEST", "ZVZZT"})

    def enqueue(self, event: Event) -> None:
        trade = event.content
        if trade.symbol in self.EXCLUDED:
            return
        if trade.venue in DARK_VENUES and trade.notional > 50_000:
            super().enqueue(event)


class PriceJump(FIFOFilter):
    """Reports a jump from yesterday's close, and tells the operators."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self._threshold = threshold

    def enqueue(self, event: Event) -> None:
        trade = event.content
        if trade.previous_close is None:
            return
        change = abs(percent_change(trade.previous_close, trade.price))
        if change >= self._threshold:
            logger.warning("%s jumped by %.1f %%", trade.symbol, change)
            super().enqueue(event)


class AboveAverage(FIFOFilter):
    """Trades of one symbol that are dearer than the mean of the last ones."""

    WINDOW = 5

    def __init__(self, symbol: str) -> None:
        super().__init__()
        self.symbol = symbol
        self.prices: deque[float] = deque(maxlen=self.WINDOW)

    def enqueue(self, event: Event) -> None:
        trade = event.content
        if trade.symbol != self.symbol or trade.quantity <= 0:
            return
        if self.prices and trade.price > fmean(self.prices):
            super().enqueue(event)
        self.prices.append(trade.price)


class OncePerTrade(FIFOFilter):
    """Drops the repetitions of a print; what comes late is not even remembered."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[int] = set()

    def enqueue(self, event: Event) -> None:
        trade = event.content
        if trade.note == "late":
            return
        if trade.id not in self._seen:
            self._seen.add(trade.id)
            super().enqueue(event)


class ThroughTheQuote(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        trade = event.content
        match trade.side:
            case Side.BUY if trade.price > trade.ask:
                super().enqueue(event)
            case Side.SELL if trade.price < trade.bid:
                super().enqueue(event)
            case Side.CROSS:
                super().enqueue(event)


class Ticks(FIFOFilter):
    """Forwards only changes of a symbol's price."""

    def __init__(self, symbol: str = "EURUSD") -> None:
        super().__init__()
        self.symbol = symbol
        self.last = 0.0

    def enqueue(self, event: Event) -> None:
        price = event.content.price
        if event.content.symbol != self.symbol:
            return
        if price != self.last:
            self.last = price
            super().enqueue(event)


class FrankfurtInEuro(FIFOFilter):
    """Brings prices in cents, as one venue sends them, to euros."""

    def enqueue(self, event: Event) -> None:
        trade = event.content
        if trade.venue == "XETR" and trade.price >= 1000:
            trade = replace(trade, price=trade.price / 100)
            super().enqueue(event.replace(trade))
        elif trade.venue == "XETR":
            super().enqueue(event)


def odd_lot(trade: Trade) -> bool:
    lot = 1 if trade.symbol == "BRK" else 100
    return trade.quantity % lot != 0


def known_lot(trade: Trade) -> bool:
    return trade.symbol in LOT_SIZES and trade.quantity >= 100


def dearer_than(limit: float) -> Callable[[Trade], bool]:
    """A rule for one price."""

    def rule(trade: Trade) -> bool:
        return trade.price > limit and trade.symbol not in INDICES

    return rule


def listed(trade: Trade) -> bool:
    return f"{trade.symbol}.{trade.venue}" in WATCHED_LISTINGS


def inside_collar(trade: Trade) -> bool:
    best = max(trade.bid, trade.price)
    worst = min(trade.ask, trade.price)
    return between(trade.price, 95.0, 105.0) and best - worst <= 0.5


def first_minutes(trade: Trade) -> bool:
    since_open = trade.executed_at - OPENING
    return timedelta(0) <= since_open <= timedelta(minutes=15)


def after_hours(trade: Trade) -> bool:
    at = trade.executed_at
    if at.hour >= 16:
        return True
    if at.hour < 9:
        return True
    return at.hour == 9 and at.minute < 30


@documented
def aggressive(trade: Trade) -> bool:
    return trade.is_aggressive() and trade.quantity > 500


def annotated(trade: Trade) -> bool:
    if not trade.note:
        return False
    note = trade.note.strip().lower()
    return note.startswith("cancel") or note == "busted"


class EveryTenth(FIFOFilter):
    """A sample; counts all trades."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def enqueue(self, event: Event) -> None:
        self.count += 1
        if self.count % 10 == 0 and event.content.quantity > 0:
            super().enqueue(event)


class VolumeLimit(FIFOFilter):
    """Lets a symbol's volume through until it is used up."""

    def __init__(self, symbol: str, budget: int) -> None:
        super().__init__()
        self.symbol, self.budget = symbol, budget
        self.used = 0

    def enqueue(self, event: Event) -> None:
        trade = event.content
        if trade.symbol != self.symbol or trade.side is not Side.BUY:
            return None
        self.used += trade.quantity
        if self.used <= self.budget:
            return super().enqueue(event)
        return None


class Gaps(FIFOFilter):
    """The trade after a gap in the numbers of a venue."""

    def __init__(self) -> None:
        super().__init__()
        self.expected: dict[str, int] = {}

    def enqueue(self, event: Event) -> None:
        trade = event.content
        missed = trade.id > self.expected.get(trade.venue, trade.id)
        self.expected[trade.venue] = trade.id + 1
        if missed and trade.price > 0:
            super().enqueue(event)


def round_price(trade: Trade) -> bool:
    """Prices a human would choose."""
    return round(trade.price, 0) == trade.price and int(trade.price) % 5 == 0


def in_auction(trade: Trade) -> bool:
    return trade.executed_at.time() >= time(17, 30) and trade.venue == "XETR"


def clean_quote(trade: Trade) -> bool:
    return all([trade.bid > 0, trade.ask > trade.bid, trade.quantity in range(1, 1001)])


trades = contents(
    Trade,
    id=range(60),
    symbol=("IBM", "MSFT", "BRK", "SPX", "EURUSD", "TEST"),
    venue=("XNYS", "XNAS", "XETR", "UBSA", "LQNA"),
    price=(0.0, 4.99, 95.0, 99.99, 100.0, 100.01, 105.0, 250.0, 1000.0, 2500.0, NAN),
    quantity=(-100, 0, 1, 50, 99, 100, 101, 500, 501, 1000, 10_000, 25_000),
    side=tuple(Side),
    bid=(-1.0, 0.0, 94.9, 99.8, 100.0, 104.9, 249.0),
    ask=(0.0, 95.0, 100.0, 100.2, 105.0, 250.0, NAN),
    previous_close=(None, 0.0, 95.0, 100.0, 250.0),
    executed_at=(
        datetime(2024, 3, 15, 8, 59),
        datetime(2024, 3, 15, 9, 15),
        datetime(2024, 3, 15, 9, 30),
        datetime(2024, 3, 15, 9, 45),
        datetime(2024, 3, 15, 9, 45, 1),
        datetime(2024, 3, 15, 15, 59, 59),
        datetime(2024, 3, 15, 16, 0),
        datetime(2024, 3, 16, 10, 0),
        datetime(2024, 3, 18, 17, 35),
    ),
    note=(None, "", "late", "Cancelled", " busted ", "ok"),
)

CASES: list[Case] = [
    Case(
        IbmOrDear, "symbol = 'IBM' OR price > 100", True, trades(), Trade,
        ("comparison", "if-elif", "local"),
    ),
    Case(
        in_session,
        "9 <= hour(executed_at) AND hour(executed_at) < 16 AND weekday(executed_at) < 5",
        True, trades(), Trade, ("chain", "datetime-naive", "datetime-part", "boolean"),
    ),
    Case(
        wide_spread, "NOT bid <= 0 AND (ask - bid) / ((bid + ask) / 2) > 0.005",
        True, trades(), Trade,
        ("early-return", "event-property", "arithmetic", "module-constant", "field-with-field"),
    ),
    Case(
        BlockTrades, "quantity >= 10000 AND symbol IN ('IBM', 'MSFT') AND side != 'CROSS'",
        True, trades(), Trade,
        ("parameter", "default-argument", "in-set", "enum", "boolean"),
        args=(10_000, ("IBM", "MSFT")),
    ),
    Case(
        DarkPrints,
        "symbol NOT IN ('TEST', 'ZVZZT') AND venue IN ('UBSA', 'SGMX', 'LQNA')"
        " AND price * quantity > 50000",
        True, trades(), Trade,
        ("class-constant", "in-set", "in-tuple", "early-return", "event-property", "arithmetic"),
    ),
    Case(
        PriceJump,
        "previous_close IS NOT NULL"
        " AND abs((price - previous_close) / previous_close * 100.0) >= 5.0",
        False, trades(), Trade,
        ("is-none", "early-return", "abs", "imported-helper", "logging", "parameter"),
        args=(5.0,),
    ),
    Case(
        AboveAverage, "NOT (symbol != 'IBM' OR quantity <= 0)", False,
        trades(symbol=("IBM", "IBM", "MSFT")), Trade,
        ("state-average", "early-return", "parameter", "boolean"), args=("IBM",),
    ),
    Case(
        OncePerTrade, "note != 'late'", False, trades(), Trade,
        ("state-dedupe", "early-return", "comparison"),
    ),
    Case(
        ThroughTheQuote,
        "side = 'BUY' AND price > ask OR side = 'SELL' AND price < bid OR side = 'CROSS'",
        True, trades(), Trade, ("match", "enum", "field-with-field"),
    ),
    Case(
        Ticks, "symbol = 'EURUSD'", False, trades(), Trade,
        ("state-change", "local", "default-argument", "parameter"),
    ),
    Case(
        FrankfurtInEuro, "venue = 'XETR'", False, trades(), Trade,
        ("transform", "if-elif", "boolean"),
    ),
    Case(
        odd_lot, "quantity % CASE WHEN symbol = 'BRK' THEN 1 ELSE 100 END != 0",
        True, trades(), Trade, ("ternary", "arithmetic", "local"),
    ),
    Case(
        known_lot, "symbol IN ('IBM', 'MSFT', 'BRK') AND quantity >= 100",
        True, trades(), Trade, ("in-dict", "module-constant"),
    ),
    Case(
        dearer_than(250.0), "price > 250.0 AND symbol NOT IN ('SPX', 'NDX', 'DAX')",
        True, trades(price=(249.99, 250.0, 250.01, 400.0, NAN)), Trade,
        ("closure", "not-in", "in-set"),
    ),
    Case(
        listed, "symbol + '.' + venue IN ('IBM.XNYS', 'MSFT.XNAS')", True,
        trades(symbol=("IBM", "MSFT"), venue=("XNYS", "XNAS", "XETR")), Trade,
        ("f-string", "in-set", "global"),
    ),
    Case(
        inside_collar,
        "95.0 <= price AND price <= 105.0 AND max(bid, price) - min(ask, price) <= 0.5",
        True, trades(), Trade, ("min-max", "imported-helper", "local", "chain"),
    ),
    Case(
        first_minutes,
        "INTERVAL 0 <= executed_at - TIMESTAMP '2024-03-15 09:30:00'"
        " AND executed_at - TIMESTAMP '2024-03-15 09:30:00' <= INTERVAL 900",
        True, trades(), Trade, ("timedelta", "datetime-naive", "chain", "local"),
    ),
    Case(
        after_hours,
        "hour(executed_at) >= 16 OR hour(executed_at) < 9"
        " OR hour(executed_at) = 9 AND minute(executed_at) < 30",
        True, trades(), Trade, ("early-return", "datetime-part", "local"),
    ),
    Case(
        aggressive,
        "(side = 'BUY' AND price >= ask OR side != 'BUY' AND side = 'SELL' AND price <= bid)"
        " AND quantity > 500",
        True, trades(), Trade, ("decorator", "event-method", "enum", "field-with-field"),
    ),
    Case(
        annotated,
        "note AND (startswith(lower(strip(note)), 'cancel') OR lower(strip(note)) = 'busted')",
        True, trades(), Trade,
        ("truthiness", "strip", "case-change", "startswith-endswith", "early-return"),
    ),
    Case(EveryTenth, "TRUE", False, trades(), Trade, ("state-counter",)),
    Case(
        VolumeLimit, "NOT (symbol != 'MSFT' OR side != 'BUY')", False, trades(), Trade,
        ("state-counter", "parameter", "enum", "unpacking"), args=("MSFT", 40_000),
    ),
    Case(Gaps, "TRUE", False, trades(), Trade, ("state-change", "local")),
    Case(
        round_price, "round(price, 0) = price AND int(price) % 5 = 0", True, trades(), Trade,
        ("round", "conversion", "arithmetic"),
    ),
    Case(
        in_auction,
        "(hour(executed_at) > 17 OR hour(executed_at) = 17 AND minute(executed_at) >= 30)"
        " AND venue = 'XETR'",
        True, trades(), Trade, ("datetime-part", "boolean"),
    ),
    Case(
        clean_quote, "bid > 0 AND ask > bid AND quantity >= 1 AND quantity <= 1000",
        True, trades(), Trade, ("any-all-list", "in-range", "field-with-field"),
    ),
    Case(
        lambda trade: trade.quantity * trade.price >= 1_000_000 or trade.quantity > 20_000,
        "quantity * price >= 1000000 OR quantity > 20000", True, trades(), Trade,
        ("lambda", "arithmetic", "boolean"),
    ),
    Case(
        lambda trade: trade.previous_close > trade.price, "previous_close > price",
        True, trades(), Trade, ("lambda", "field-with-field"),
    ),
]  # fmt: skip
