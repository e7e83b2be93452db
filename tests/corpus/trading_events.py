"""Trades and orders, as they come from an exchange."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Annotated

from activebroker import Zone


class Side(Enum):
    BUY = "buy"
    SELL = "sell"
    CROSS = "cross"


@dataclass(frozen=True)
class Trade:
    id: int
    symbol: str
    venue: str
    price: float
    quantity: int
    side: Side
    bid: float
    ask: float
    previous_close: float | None
    executed_at: datetime  # local time of the exchange
    note: str | None

    @property
    def notional(self) -> float:
        return self.price * self.quantity

    @property
    def mid(self) -> float:
        return (self.bid + self.ask) / 2

    @property
    def spread(self) -> float:
        return self.ask - self.bid

    def is_aggressive(self) -> bool:
        """Whether it took the other side's quote."""
        if self.side is Side.BUY:
            return self.price >= self.ask
        return self.side is Side.SELL and self.price <= self.bid


class OrderType(Enum):
    MARKET = 1
    LIMIT = 2
    STOP = 3


class Urgency(Enum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


@dataclass(frozen=True)
class Instrument:
    symbol: str
    kind: str
    country: str
    expiry: date | None
    multiplier: float


@dataclass(frozen=True)
class Order:
    id: str
    account: str
    trader: str
    instrument: Instrument
    type: OrderType
    quantity: int
    filled: int
    limit: float | None
    reference: float
    urgency: Urgency
    tags: list[str]
    algo: str | None
    placed_at: Annotated[datetime, Zone("UTC")]
    parent: str | None

    @property
    def open_quantity(self) -> int:
        return self.quantity - self.filled

    @property
    def is_child(self) -> bool:
        return self.parent is not None

    def exposure(self, price: float) -> float:
        return self.open_quantity * price * self.instrument.multiplier
