"""Bookings, bags and boarding passes."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any

from activebroker import Event, FIFOFilter

from .airline_events import Booking, Channel, Fare, Passenger
from .case import Case
from .drawing import NAN, contents, lists, maybe
from .helpers import documented, matches_any, normalized, severity

logger = logging.getLogger(__name__)

PNR = re.compile(r"^[A-Z2-9]{6}$")
FREQUENT_FLYER = r"(?i)^(dl|af)\s?\d{6,}$"
PREMIUM_CABINS = ("first", "business")
MEALS = {"VGML": "vegetarian", "KSML": "kosher", "CHML": "child"}
TIER_BONUS = {"gold": 2, "platinum": 3}
HOUSE_DOMAIN = "airline.example"
EARLY = timedelta(days=180)
fare_floor = 50.0


class Desk(FIFOFilter):
    """What a service desk has to see."""

    channels: tuple[Channel, ...] = (Channel.DESK, Channel.AGENT)

    def wants(self, booking: Booking) -> bool:
        return booking.channel in self.channels

    def enqueue(self, event: Event) -> None:
        if self.wants(event.content):
            super().enqueue(event)


class GroupDesk(Desk):
    """Takes other bookings, by the same machinery."""

    def wants(self, booking: Booking) -> bool:
        return booking.is_group() and not booking.overbooked


class RefundDesk(Desk):
    def enqueue(self, event: Event) -> None:
        if event.content.fare.refundable and event.content.fare.total > 200:
            super().enqueue(event)


def bad_locator(booking: Booking) -> bool:
    return not PNR.match(booking.locator)


def frequent_flyer(booking: Booking) -> bool:
    number = booking.passenger.frequent_flyer
    return number is not None and bool(re.match(FREQUENT_FLYER, number))


def last_minute(booking: Booking) -> bool:
    if booking.lead_time < timedelta(0):
        return False
    return booking.lead_time <= timedelta(hours=24) and booking.fare.cabin == "economy"


def booked_early(booking: Booking) -> bool:
    earliest = booking.booked_at + EARLY
    return booking.departs_at > earliest


def new_schedule(booking: Booking) -> bool:
    return booking.departs_at >= datetime(2024, 10, 27, 1, 0, tzinfo=UTC)


def weekend(booking: Booking) -> bool:
    day = booking.departs_at.weekday()
    if day == 4:
        return booking.departs_at.hour >= 16
    return day > 4


def upgrade_candidate(booking: Booking) -> bool:
    """Who gets the seat that is left over."""
    if booking.fare.cabin in PREMIUM_CABINS:
        return False
    if booking.passenger.tier not in TIER_BONUS:
        return False
    if not booking.overbooked and booking.party != 1:
        return False
    points = TIER_BONUS[booking.passenger.tier] * 10 + (5 if booking.fare.refundable else 0)
    return points >= 25


def special_meal(booking: Booking) -> bool:
    for code in MEALS:
        if code in booking.requests:
            return True
    return False


def unaccompanied(booking: Booking) -> bool:
    age = booking.passenger.age
    return age is not None and 5 <= age < 14 and booking.party == 1


def excess_baggage(booking: Booking, allowance: float = 23.0) -> bool:
    pieces = max(booking.bags, 1)
    return booking.bag_weight / pieces > allowance or booking.bags > 2


def employee(booking: Booking) -> bool:
    email = normalized(booking.passenger.email)
    return email.endswith("@" + HOUSE_DOMAIN)


@severity("low")
def complaint(booking: Booking) -> bool:
    return booking.note is not None and matches_any(booking.note, ("refund", "lawyer", "never"))


@documented
def staff_fare(booking: Booking) -> bool:
    """Cheap, but not free."""
    return 0 < booking.fare.total < fare_floor


@lru_cache
def rounded_to(currency: str) -> int:
    return 0 if currency == "JPY" else 2


def odd_amount(booking: Booking) -> bool:
    digits = rounded_to(booking.fare.currency)
    return round(booking.fare.amount, digits) != booking.fare.amount


def ticket_class(booking: Any, key: str, wanted: tuple[str, ...]) -> bool:
    return getattr(booking.fare, "cabin") + "/" + key in wanted  # noqa: B009


def age_from_note(booking: Any) -> bool:
    """The note of an old agency system is an age."""
    with suppress(ValueError):
        return int(booking.note) < 2 and booking.party > 1
    return False


class DuplicateBookings(FIFOFilter):
    """Second bookings of one passenger; robots are not remembered."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: set[tuple[str, datetime]] = set()

    def enqueue(self, event: Event) -> None:
        booking = event.content
        if booking.passenger.name.upper() in ("TEST", "DUMMY"):
            return
        key = (booking.passenger.name, booking.departs_at)
        if key in self._keys:
            super().enqueue(event)
        else:
            self._keys.add(key)


class BusyChannel(FIFOFilter):
    """Counts bookings by channel, and forwards those of the busy ones."""

    def __init__(self, busy: int = 20) -> None:
        super().__init__()
        self.busy = busy
        self.counts: Counter[str] = Counter()

    def enqueue(self, event: Event) -> None:
        channel = event.content.channel
        self.counts[channel.name] += 1
        if self.counts[channel.name] > self.busy:
            super().enqueue(event)


class Throttled(FIFOFilter):
    """At most one booking in some seconds of the wall clock, of those that cost much."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.last = float("-inf")

    def enqueue(self, event: Event) -> None:
        if not event.content.fare.total >= 1_000.0:
            return
        now = time.monotonic()
        if now - self.last >= self.seconds:
            self.last = now
            super().enqueue(event)


class Screened(FIFOFilter):
    """Asks a watch list first, so that nothing can be said about its events."""

    def __init__(self, is_listed: Callable[[str], bool]) -> None:
        super().__init__()
        self.is_listed = is_listed

    def enqueue(self, event: Event) -> None:
        booking = event.content
        if self.is_listed(booking.passenger.name) and booking.party > 1:
            super().enqueue(event)


class PerLeg(FIFOFilter):
    """Forwards a booking once for each meal; complains about unknown wishes."""

    def enqueue(self, event: Event) -> None:
        booking = event.content
        if booking.fare.cabin == "economy" or not booking.requests:
            return
        for request in booking.requests:
            if request in MEALS:
                super().enqueue(event)
            else:
                logger.info("unknown request %s", request)


class Boarding(FIFOFilter):
    """Where the passengers of a tier board: a limit for all, a smaller one for some."""

    def __init__(self, tier: str, limit: int = 4) -> None:
        super().__init__()
        self.tier = tier.lower()
        self.limit = limit
        self.strict = limit // 2

    def enqueue(self, event: Event) -> None:
        booking = event.content
        match (booking.passenger.tier, booking.channel):
            case ("gold" | "platinum", _):
                super().enqueue(event)
            case (self.tier, Channel.APP):
                if booking.party <= self.limit:
                    super().enqueue(event)
            case (self.tier, _) if booking.party <= self.strict:
                super().enqueue(event)


def loyal(booking: Booking) -> bool:
    return any(
        [
            booking.passenger.tier == "platinum",
            booking.passenger.tier == "gold" and booking.fare.total > 500,
            booking.passenger.frequent_flyer is not None and booking.party == 1,
        ]
    )


noon = datetime(2024, 9, 6, 12, 0, tzinfo=UTC)
bookings = contents(
    Booking,
    locator=("ABC234", "ABC23", "abc234", "ABC1O0", ""),
    passenger=contents(
        Passenger,
        name=("Ann", "Bob", "Test", "DUMMY", "Eve"),
        email=(None, "", "ann@airline.example", " BOB@Airline.Example ", "eve@mail.example"),
        tier=("none", "basic", "gold", "platinum"),
        age=(None, 1, 4, 5, 13, 14, 40),
        frequent_flyer=(None, "DL 123456", "af1234567", "DL12345", "KL123456", ""),
    )(),
    fare=contents(
        Fare,
        amount=(0.0, 19.9, 45.0, 99.995, 180.5, 450.0, 980.0, NAN),
        taxes=(0.0, 4.9, 30.0, 60.0),
        currency=("EUR", "JPY"),
        cabin=("economy", "premium", "business", "first"),
        refundable=(True, False),
    )(),
    channel=tuple(Channel),
    party=(1, 1, 2, 3, 4, 9, 10, 12),
    bags=(0, 1, 2, 3),
    bag_weight=(0.0, 22.9, 23.0, 23.1, 46.0, 50.0),
    requests=lists(("VGML", "CHML", "WCHR", "KSML")),
    booked_at=(
        noon - timedelta(days=181),
        noon - timedelta(days=180),
        noon - timedelta(days=179),
        noon - timedelta(hours=24),
        noon - timedelta(hours=2),
    ),
    departs_at=(
        noon,
        noon + timedelta(hours=4),
        noon + timedelta(days=1),
        noon - timedelta(days=1),
        datetime(2024, 10, 27, 0, 59, 59, tzinfo=UTC),
        datetime(2024, 10, 27, 1, 0, tzinfo=UTC),
    ),
    note=maybe(lambda rng: rng.choice(("", "1", "3", "Refund!", "NEVER again", "thanks"))),
    overbooked=(True, False),
)

CASES: list[Case] = [
    Case(
        Desk, "channel IN ('DESK', 'AGENT')", True, bookings(), Booking,
        ("enum", "class-constant", "helper-method", "in-tuple"),
    ),
    Case(
        GroupDesk, "party >= 10 AND NOT overbooked", True, bookings(), Booking,
        ("super-chain", "helper-method", "event-method", "truthiness", "global"),
    ),
    Case(
        RefundDesk,
        "fare.refundable AND fare.amount + fare.taxes > 200 AND channel IN ('DESK', 'AGENT')",
        True, bookings(), Booking, ("super-chain", "event-property", "nested-dataclass", "enum"),
    ),
    Case(
        bad_locator, "NOT match(locator, '^[A-Z2-9]{6}$')", True, bookings(), Booking,
        ("regex-precompiled", "boolean"),
    ),
    Case(
        frequent_flyer,
        "passenger.frequent_flyer IS NOT NULL"
        " AND match(passenger.frequent_flyer, '(?i)^(dl|af)\\s?\\d{6,}$')",
        True, bookings(), Booking, ("regex", "is-none", "module-constant", "conversion"),
    ),
    Case(
        last_minute,
        "NOT departs_at - booked_at < INTERVAL 0 AND departs_at - booked_at <= INTERVAL 86400"
        " AND fare.cabin = 'economy'",
        True, bookings(), Booking,
        ("timedelta", "event-property", "datetime-aware", "early-return"),
    ),
    Case(
        booked_early, "departs_at > booked_at + INTERVAL 15552000", True, bookings(), Booking,
        ("timedelta", "datetime-aware", "local", "field-with-field", "module-constant"),
    ),
    Case(
        new_schedule, "departs_at >= TIMESTAMP '2024-10-27 01:00:00+00:00'",
        True, bookings(), Booking, ("datetime-aware", "comparison"),
    ),
    Case(
        weekend,
        "weekday(departs_at) = 4 AND hour(departs_at) >= 16 OR weekday(departs_at) > 4",
        True, bookings(), Booking, ("datetime-part", "early-return", "local"),
    ),
    Case(
        upgrade_candidate,
        "fare.cabin NOT IN ('first', 'business') AND passenger.tier IN ('gold', 'platinum')"
        " AND NOT (NOT overbooked AND party != 1)"
        " AND (passenger.tier = 'platinum' OR fare.refundable)",
        True, bookings(), Booking,
        ("early-return", "in-tuple", "in-dict", "ternary", "arithmetic", "truthiness"),
    ),
    Case(
        special_meal,
        "contains(requests, 'VGML') OR contains(requests, 'KSML') OR contains(requests, 'CHML')",
        True, bookings(), Booking, ("for-constants", "early-return", "module-constant"),
    ),
    Case(
        unaccompanied,
        "passenger.age IS NOT NULL AND 5 <= passenger.age AND passenger.age < 14 AND party = 1",
        True, bookings(), Booking, ("chain", "is-none", "nested-dataclass"),
    ),
    Case(
        excess_baggage, "bag_weight / max(bags, 1) > 23.0 OR bags > 2", True, bookings(), Booking,
        ("min-max", "arithmetic", "default-argument", "local"),
    ),
    Case(
        employee,
        "endswith(lower(strip(CASE WHEN passenger.email THEN passenger.email ELSE '' END)),"
        " '@airline.example')",
        True, bookings(), Booking,
        ("imported-helper", "concatenation", "strip", "case-change", "startswith-endswith"),
    ),
    Case(
        complaint,
        "note IS NOT NULL AND (contains(lower(note), 'refund') OR contains(lower(note), 'lawyer')"
        " OR contains(lower(note), 'never'))",
        True, bookings(), Booking, ("decorator", "imported-helper", "any-all-gen", "is-none"),
    ),
    Case(
        staff_fare, "0 < fare.amount + fare.taxes AND fare.amount + fare.taxes < 50.0",
        True, bookings(), Booking, ("decorator", "chain", "global", "event-property"),
    ),
    Case(
        odd_amount,
        "round(fare.amount, CASE WHEN fare.currency = 'JPY' THEN 0 ELSE 2 END) != fare.amount",
        True, bookings(), Booking, ("lru-cache", "round", "helper-function", "ternary"),
    ),
    Case(
        partial(ticket_class, key="any", wanted=("first/any", "premium/any")),
        "fare.cabin + '/' + 'any' IN ('first/any', 'premium/any')", True, bookings(), Booking,
        ("partial", "getattr", "concatenation", "in-tuple"),
    ),
    Case(
        age_from_note, "int(note) < 2 AND party > 1", False, bookings(), Booking,
        ("with", "conversion", "boolean"),
    ),
    Case(
        DuplicateBookings, "upper(passenger.name) NOT IN ('TEST', 'DUMMY')",
        False, bookings(), Booking,
        ("state-dedupe", "case-change", "in-literal", "early-return", "unpacking"),
    ),
    Case(
        BusyChannel, "TRUE", False, bookings(), Booking,
        ("state-counter", "enum", "default-argument"),
    ),
    Case(
        Throttled, "fare.amount + fare.taxes >= 1000.0", False, bookings(), Booking,
        ("state-rate", "unknown-call", "parameter", "early-return"), args=(0.000_01,),
    ),
    Case(
        Screened, "TRUE", False, bookings(), Booking, ("unknown-call", "parameter"),
        args=({"Bob", "Eve"}.__contains__,),
    ),
    Case(
        PerLeg, "NOT (fare.cabin = 'economy' OR NOT requests)", False, bookings(), Booking,
        ("logging", "in-dict", "truthiness", "early-return"),
    ),
    Case(
        Boarding,
        "passenger.tier = 'gold' OR passenger.tier = 'platinum'"
        " OR passenger.tier = 'basic' AND channel = 'APP' AND party <= 4"
        " OR passenger.tier = 'basic' AND channel != 'APP' AND party <= 2",
        True, bookings(), Booking, ("match", "enum", "parameter", "unpacking", "arithmetic"),
        args=("Basic",),
    ),
    Case(
        loyal,
        "passenger.tier = 'platinum' OR passenger.tier = 'gold' AND fare.amount + fare.taxes > 500"
        " OR passenger.frequent_flyer IS NOT NULL AND party = 1",
        True, bookings(), Booking, ("any-all-list", "event-property", "is-none"),
    ),
]  # fmt: skip
