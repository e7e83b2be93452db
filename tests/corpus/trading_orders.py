"""Orders on their way to a market: checks before the trade."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, partial, wraps
from typing import Any

from activebroker import Event, FIFOFilter

from .case import Case
from .drawing import NAN, contents, lists, maybe
from .helpers import clamp
from .trading_events import Instrument, Order, OrderType, Urgency

CUTOFF = datetime(2024, 6, 21, 20, 0, tzinfo=UTC)
EXPIRY_WARNING = timedelta(days=2)
ALGO_TAGS = ("twap", "vwap", "pov")
ACCOUNT = re.compile(r"[A-Z]{2}\d{4}")
HOUSE_PREFIX = "HS"
RESTRICTED = {"RU": "sanctions", "KP": "sanctions", "BY": "review"}
asked: list[str] = []
FAT_FINGER = {"future": 500, "option": 2_000, "equity": 100_000}


def is_derivative(instrument: Instrument) -> bool:
    return instrument.kind in ("future", "option")


def is_house(account: str) -> bool:
    return account[:2] == HOUSE_PREFIX


class LivingOrders(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        forward = super().enqueue
        if event.content.open_quantity > 0:
            forward(event)


class LivingParents(LivingOrders):
    """Of the living orders those that no other order is the parent of."""

    def enqueue(self, event: Event) -> None:
        if not event.content.is_child:
            super().enqueue(event)


class UrgentParents(LivingParents):
    def enqueue(self, event: Event) -> None:
        order = event.content
        if order.urgency is Urgency.HIGH or order.quantity >= 10_000:
            super().enqueue(event)


class OffMarketLimits(FIFOFilter):
    """Limits that are far from the reference price."""

    def __init__(self, tolerance: float = 0.1) -> None:
        super().__init__()
        self.tolerance = tolerance

    def _distance(self, order: Order) -> float:
        if order.limit is None:
            return 0.0
        return abs(order.limit / order.reference - 1.0)

    def enqueue(self, event: Event) -> None:
        if self._distance(event.content) > self.tolerance:
            FIFOFilter.enqueue(self, event)


def expires_soon(order: Order) -> bool:
    expiry = order.instrument.expiry
    if expiry is None or not is_derivative(order.instrument):
        return False
    return expiry <= date(2024, 6, 21) and order.placed_at + EXPIRY_WARNING >= CUTOFF


def fat_finger(order: Order) -> bool:
    for kind, limit in FAT_FINGER.items():
        if order.instrument.kind == kind and order.quantity > limit:
            return True
    return False


def algorithmic(order: Order) -> bool:
    return any(tag in order.tags for tag in ALGO_TAGS) or bool(order.algo)


def needs_compliance(order: Order) -> bool:
    if reason := RESTRICTED.get(order.instrument.country):
        return reason == "sanctions" or order.quantity > 100
    return False


def malformed_account(order: Order) -> bool:
    return ACCOUNT.fullmatch(order.account) is None and not is_house(order.account)


def over_limit(order: Order, limit: float, kinds: tuple[str, ...] = ("equity",)) -> bool:
    return order.instrument.kind in kinds and order.exposure(order.reference) > limit


class InternalOrders(FIFOFilter):
    """Orders of the house's own systems."""

    @staticmethod
    def _is_internal(identity: str) -> bool:
        return identity.startswith("INT-") and len(identity) == 8

    def enqueue(self, event: Event) -> None:
        if self._is_internal(event.content.id) or event.content.trader == "robot":
            super().enqueue(event)


@lru_cache(maxsize=128)
def desk_limit(kind: str, urgent: bool) -> int:
    if kind == "option":
        return 200 if urgent else 100
    return 1_000


def over_desk_limit(order: Order) -> bool:
    urgent = order.urgency == Urgency.HIGH
    return order.open_quantity > desk_limit(order.instrument.kind, urgent)


class RateLimit(FIFOFilter):
    """At most so many orders of a trader in a second, as a token bucket."""

    def __init__(self, trader: str, rate: float) -> None:
        super().__init__()
        self.trader = trader
        self.rate = rate
        self.tokens = rate
        self.last: datetime | None = None

    def enqueue(self, event: Event) -> None:
        order = event.content
        if order.trader != self.trader:
            return
        if self.last is not None:
            gap = (order.placed_at - self.last) / timedelta(seconds=1)
            self.tokens = clamp(self.tokens + gap * self.rate, 0.0, self.rate)
        self.last = order.placed_at
        if self.tokens >= 1:
            self.tokens -= 1
            super().enqueue(event)


class LockedBook(FIFOFilter):
    """Keeps the newest order of each account; another thread reads the book."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._newest: dict[str, str] = {}

    def enqueue(self, event: Event) -> None:
        order = event.content
        if order.account.startswith(HOUSE_PREFIX):
            with self._lock:
                self._newest[order.account] = order.id
            super().enqueue(event)


def above_reference(order: Any) -> bool:
    """Orders whose limit is above the reference; market orders have none."""
    try:
        return bool(order.limit > order.reference)
    except TypeError:
        return False


def refuses_negative(order: Order) -> bool:
    if order.quantity < 0:
        raise ValueError(f"order {order.id} has a negative quantity")
    return order.type is OrderType.MARKET and order.quantity > 1_000


class Audit(FIFOFilter):
    """Writes a line for every order of the house, whatever becomes of it."""

    def enqueue(self, event: Event) -> None:
        order = event.content
        if is_house(order.account):
            print(f"{order.id}: {order.quantity} of {order.instrument.symbol}")
        if order.type == OrderType.STOP:
            super().enqueue(event)


class Attempts(FIFOFilter):
    """Counts what it sees in any case."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = 0

    def enqueue(self, event: Event) -> None:
        try:
            if event.content.limit > 100:
                super().enqueue(event)
        finally:
            self.attempts += 1


class AgainstRiskService(FIFOFilter):
    """Asks a service, but only about orders that are worth it."""

    def __init__(self, approve: Callable[[str], bool]) -> None:
        super().__init__()
        self.approve = approve

    def enqueue(self, event: Event) -> None:
        order = event.content
        if order.quantity * order.reference < 10_000:
            return
        if self.approve(order.account):
            super().enqueue(event)


def permitted(account: str) -> bool:
    """Asks the register, which keeps a list of who was asked for."""
    asked.append(account)
    return len(asked) % 4 != 0


def permitted_sale(order: Order) -> bool:
    return (permitted(order.account) and order.quantity > 500) or order.type == OrderType.STOP


def slices_in_sequence(order: Order) -> bool:
    """Whether the child number is one that the slicer gives: 8, 16, 32 and so on."""
    size = 8
    while size < 64:
        if order.quantity == size:
            return True
        size *= 2
    return False


def of_parent(prefix: str) -> Callable[[Order], bool]:
    key = prefix + "-"
    return lambda order: order.parent is not None and order.parent.startswith(key)


def only_limits(rule: Callable[[Order], bool]) -> Callable[[Order], bool]:
    """Restricts a rule to limit orders."""

    @wraps(rule)
    def restricted(order: Order) -> bool:
        return order.type is OrderType.LIMIT and rule(order)

    return restricted


@only_limits
def passive(order: Order) -> bool:
    return order.limit is not None and order.limit < order.reference


def by_attribute(order: Order) -> bool:
    field = "trader"
    return getattr(order, field) == "robot" and getattr(order.instrument, "kind", None) == "future"


def _approve(account: str) -> bool:
    return sum(map(ord, account)) % 3 != 0


orders = contents(
    Order,
    id=("INT-0001", "INT-12345", "X-000001", ""),
    account=("HS0001", "DE1234", "de1234", "HSX", "US99999"),
    trader=("ann", "robot", "bob"),
    instrument=contents(
        Instrument,
        symbol=("ESZ4", "AAPL"),
        kind=("future", "option", "equity"),
        country=("US", "RU", "BY", "DE"),
        expiry=(None, date(2024, 6, 20), date(2024, 6, 21), date(2024, 6, 22)),
        multiplier=(1.0, 50.0),
    )(),
    type=tuple(OrderType),
    quantity=(-5, 0, 8, 12, 16, 32, 100, 101, 501, 1_001, 2_001, 10_000, 100_001),
    filled=(0, 1, 8, 100, 1_000),
    limit=(None, 0.0, 89.0, 95.0, 100.0, 101.0, 120.0, NAN),
    reference=(0.0, 95.0, 100.0, 110.0),
    urgency=tuple(Urgency),
    tags=lists(("vwap", "pov", "manual", "basket")),
    algo=(None, None, "", "sniper"),
    placed_at=(
        CUTOFF - timedelta(days=2, seconds=1),
        CUTOFF - timedelta(days=2),
        CUTOFF - timedelta(hours=1),
        CUTOFF,
        CUTOFF + timedelta(milliseconds=200),
    ),
    parent=maybe(lambda rng: rng.choice(("ALGO-1", "ALGO2", "ALGO-", "x")), 0.4),
)

CASES: list[Case] = [
    Case(LivingOrders, "quantity - filled > 0", True, orders(), Order, ("alias", "event-property")),
    Case(
        LivingParents, "parent IS NULL AND quantity - filled > 0", True, orders(), Order,
        ("super-chain", "event-property", "alias", "is-none"),
    ),
    Case(
        UrgentParents,
        "(urgency = 'HIGH' OR quantity >= 10000) AND parent IS NULL AND quantity - filled > 0",
        True, orders(), Order, ("super-chain", "enum", "boolean"),
    ),
    Case(
        OffMarketLimits, "limit IS NOT NULL AND abs(limit / reference - 1.0) > 0.1",
        True, orders(), Order,
        ("helper-method", "base-call", "abs", "is-none", "early-return", "default-argument"),
    ),
    Case(
        expires_soon,
        "NOT (instrument.expiry IS NULL OR NOT instrument.kind IN ('future', 'option'))"
        " AND instrument.expiry <= DATE '2024-06-21'"
        " AND placed_at + INTERVAL 172800 >= TIMESTAMP '2024-06-21 20:00:00+00:00'",
        True, orders(), Order,
        ("datetime-aware", "timedelta", "helper-function", "nested-dataclass", "is-none"),
    ),
    Case(
        fat_finger,
        "instrument.kind = 'future' AND quantity > 500"
        " OR instrument.kind = 'option' AND quantity > 2000"
        " OR instrument.kind = 'equity' AND quantity > 100000",
        True, orders(), Order, ("for-constants", "early-return", "nested-dataclass"),
    ),
    Case(
        algorithmic,
        "contains(tags, 'twap') OR contains(tags, 'vwap') OR contains(tags, 'pov') OR algo",
        True, orders(), Order, ("any-all-gen", "truthiness", "conversion", "for-constants"),
    ),
    Case(
        needs_compliance,
        "instrument.country IN ('RU', 'KP', 'BY')"
        " AND (instrument.country IN ('RU', 'KP') OR quantity > 100)",
        True, orders(), Order, ("walrus", "in-dict", "nested-dataclass", "module-constant"),
    ),
    Case(
        malformed_account,
        "NOT fullmatch(account, '[A-Z]{2}\\d{4}') AND NOT startswith(account, 'HS')",
        True, orders(), Order, ("regex-precompiled", "is-none", "helper-function", "substring"),
    ),
    Case(
        partial(over_limit, limit=100_000.0),
        "instrument.kind IN ('equity')"
        " AND (quantity - filled) * reference * instrument.multiplier > 100000.0",
        True, orders(), Order,
        ("partial", "default-argument", "event-method", "arithmetic", "nested-dataclass"),
    ),
    Case(
        InternalOrders,
        "startswith(id, 'INT-') AND len(id) = 8 OR trader = 'robot'", True, orders(), Order,
        ("staticmethod", "startswith-endswith", "len", "helper-method"),
    ),
    Case(
        over_desk_limit,
        "quantity - filled > CASE WHEN instrument.kind = 'option' THEN"
        " CASE WHEN urgency = 'HIGH' THEN 200 ELSE 100 END ELSE 1000 END",
        True, orders(), Order, ("lru-cache", "helper-function", "ternary", "local", "enum"),
    ),
    Case(
        RateLimit, "trader = 'robot'", False, orders(), Order,
        ("state-rate", "timedelta", "early-return", "parameter", "imported-helper"),
        args=("robot", 2.0),
    ),
    Case(
        LockedBook, "startswith(account, 'HS')", False, orders(), Order,
        ("with", "startswith-endswith", "state-change", "module-constant"),
    ),
    Case(
        above_reference, "limit IS NOT NULL AND limit > reference", True, orders(), Order,
        ("try", "field-with-field", "conversion"),
    ),
    Case(
        refuses_negative, "quantity < 0 OR type = 'MARKET' AND quantity > 1000",
        False, orders(), Order, ("raise", "enum", "f-string", "early-return"),
    ),
    Case(
        Audit, "startswith(account, 'HS') OR type = 'STOP'", False, orders(), Order,
        ("io", "f-string", "enum", "helper-function", "substring"),
    ),
    Case(Attempts, "TRUE", False, orders(), Order, ("finally", "try", "state-counter")),
    Case(
        AgainstRiskService, "NOT quantity * reference < 10000", False, orders(), Order,
        ("unknown-call", "parameter", "early-return", "arithmetic"), args=(_approve,),
    ),
    Case(
        permitted_sale, "TRUE", False, orders(), Order,
        ("unknown-call", "helper-function", "state-counter", "global", "enum"),
    ),
    Case(
        slices_in_sequence, "quantity = 8 OR quantity = 16 OR quantity = 32",
        True, orders(), Order, ("while", "local", "early-return"),
    ),
    Case(
        of_parent("ALGO"), "parent IS NOT NULL AND startswith(parent, 'ALGO-')",
        True, orders(), Order, ("closure", "lambda", "concatenation", "is-none"),
    ),
    Case(
        passive, "type = 'LIMIT' AND limit IS NOT NULL AND limit < reference",
        True, orders(), Order, ("decorator", "enum", "is-none", "field-with-field"),
    ),
    Case(
        by_attribute, "trader = 'robot' AND instrument.kind = 'future'", True, orders(), Order,
        ("getattr", "local", "nested-dataclass"),
    ),
    Case(
        lambda order: "basket" in order.tags and len(order.tags) >= 2,
        "contains(tags, 'basket') AND len(tags) >= 2", True, orders(), Order,
        ("lambda", "len", "substring"),
    ),
]  # fmt: skip
