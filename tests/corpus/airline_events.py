"""Flights and bookings, as an airline publishes them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated

from activebroker import Zone

GROUP_SIZE = 10


class Status(Enum):
    SCHEDULED = "S"
    DEPARTED = "D"
    LANDED = "L"
    CANCELLED = "X"
    DIVERTED = "V"


@dataclass(frozen=True)
class Route:
    origin: str
    destination: str
    distance: int

    @property
    def is_long_haul(self) -> bool:
        return self.distance > 2_000

    def touches(self, airport: str) -> bool:
        return airport in (self.origin, self.destination)


@dataclass(frozen=True)
class Aircraft:
    tail: str
    seats: int
    built: int


@dataclass(frozen=True)
class Flight:
    carrier: str
    number: int
    route: Route
    aircraft: Aircraft | None
    status: Status
    scheduled: datetime
    departed: datetime | None
    arrival: datetime
    dep_delay: float | None
    arr_delay: float | None
    passengers: int
    gate: str | None
    remark: str

    @property
    def designator(self) -> str:
        return f"{self.carrier}{self.number}"

    @property
    def cancelled(self) -> bool:
        return self.status is Status.CANCELLED

    def delay(self) -> float:
        """Minutes late at departure; none as long as it is not known."""
        return self.dep_delay or 0.0


class Channel(Enum):
    WEB = 1
    APP = 2
    AGENT = 3
    DESK = 4


@dataclass(frozen=True)
class Passenger:
    name: str
    email: str | None
    tier: str
    age: int | None
    frequent_flyer: str | None


@dataclass(frozen=True)
class Fare:
    amount: float
    taxes: float
    currency: str
    cabin: str
    refundable: bool

    @property
    def total(self) -> float:
        return self.amount + self.taxes


@dataclass(frozen=True)
class Booking:
    locator: str
    passenger: Passenger
    fare: Fare
    channel: Channel
    party: int
    bags: int
    bag_weight: float
    requests: list[str]
    booked_at: Annotated[datetime, Zone("UTC")]
    departs_at: Annotated[datetime, Zone("UTC")]
    note: str | None
    overbooked: bool

    @property
    def lead_time(self) -> timedelta:
        return self.departs_at - self.booked_at

    def is_group(self) -> bool:
        return self.party >= GROUP_SIZE
