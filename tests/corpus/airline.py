# mypy: disable-error-code="no-any-return"
"""Flights, as operations control sees them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any, ClassVar

from activebroker import Event, FIFOFilter

from .airline_events import Aircraft, Flight, Route, Status
from .case import Case
from .drawing import NAN, contents, maybe

log = logging.getLogger("ops")

LATE = 60
HUBS = frozenset({"JFK", "ATL", "ORD"})
PARTNERS = ["DL", "AF", "KL"]
MINIMUM_TURN = timedelta(minutes=45)
HOLIDAYS = (date(2013, 7, 4), date(2013, 12, 25))
SHUTTLES = {("LGA", "BOS"), ("LGA", "DCA"), ("JFK", "BOS")}
CURFEW = {"LGA": 23, "DCA": 22}


class LateDelta(FIFOFilter):
    """Late flights of one carrier."""

    def enqueue(self, event: Event) -> None:
        flight = event.content
        if flight.carrier == "DL" and flight.dep_delay is not None and flight.dep_delay > LATE:
            super().enqueue(event)


class LateAtHub(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        flight = event.content
        origin, delay = flight.route.origin, flight.dep_delay
        if origin not in HUBS:
            return
        if delay is None:
            return
        if delay > LATE or (delay > LATE / 2 and flight.passengers >= 180):
            super().enqueue(event)


def unexplained(flight: Any) -> bool:
    # A cancelled flight has no delay: this fails, and is meant to be seen.
    return flight.dep_delay - flight.arr_delay > 30


def catches_up(flight: Flight) -> bool:
    if flight.dep_delay is None or flight.arr_delay is None:
        return False
    gained = flight.dep_delay - flight.arr_delay
    return gained >= 15 and gained / max(flight.dep_delay, 1.0) > 0.5


def disrupted(flight: Flight) -> bool:
    match flight.status:
        case Status.CANCELLED | Status.DIVERTED:
            return True
        case Status.SCHEDULED:
            return flight.delay() > 3 * LATE
        case _:
            return False


def on_holiday(flight: Flight) -> bool:
    return flight.scheduled.date() in HOLIDAYS and not flight.cancelled


def red_eye(flight: Flight) -> bool:
    leaves = flight.scheduled.hour
    arrives = flight.arrival.hour
    return (leaves >= 21 or leaves < 2) and 4 <= arrives <= 8


def after_curfew(flight: Flight) -> bool:
    curfew = CURFEW.get(flight.route.destination)
    if curfew is None:
        return False
    return flight.arrival.hour >= curfew


def shuttle(flight: Flight) -> bool:
    return (flight.route.origin, flight.route.destination) in SHUTTLES


def partner(flight: Flight) -> bool:
    return flight.carrier in PARTNERS and flight.route.is_long_haul


def large_aircraft(flight: Flight) -> bool:
    if flight.aircraft is None:
        return False
    return flight.aircraft.seats > 250 or flight.aircraft.tail.endswith("ER")


def half_empty(flight: Any) -> bool:
    return flight.passengers / flight.aircraft.seats < 0.5


class GateChange(FIFOFilter):
    """Forwards a flight whenever its gate is another one."""

    def __init__(self) -> None:
        super().__init__()
        self.gates: dict[str, str] = {}

    def enqueue(self, event: Event) -> None:
        flight = event.content
        if flight.gate is None or flight.cancelled:
            return
        before = self.gates.get(flight.designator)
        self.gates[flight.designator] = flight.gate
        if before is not None and before != flight.gate:
            super().enqueue(event)


class Touching(FIFOFilter):
    """Flights from or to one airport."""

    def __init__(self, airport: str) -> None:
        super().__init__()
        self.airport = airport.upper()

    def enqueue(self, event: Event) -> None:
        if event.content.route.touches(self.airport):
            super().enqueue(event)


class TightTurn(FIFOFilter):
    """Leaves too little time before the next leg; the operators get a line."""

    minimum: ClassVar[timedelta] = MINIMUM_TURN

    def enqueue(self, event: Event) -> None:
        flight = event.content
        if flight.departed is None:
            return
        slack = flight.arrival - flight.departed
        if slack < self.minimum:
            log.info("tight turn: %s has %s", flight.designator, slack)
            super().enqueue(event)


class MeanDelay(FIFOFilter):
    """Flights later than the exponential mean of their hub."""

    def __init__(self, hub: str, weight: float = 0.2) -> None:
        super().__init__()
        self.hub = hub
        self.weight = weight
        self.mean = 0.0

    def enqueue(self, event: Event) -> None:
        flight = event.content
        if flight.route.origin == self.hub and flight.dep_delay is not None:
            late = flight.dep_delay > self.mean
            self.mean += self.weight * (flight.dep_delay - self.mean)
            if late:
                super().enqueue(event)


class Announced(FIFOFilter):
    """Fills in the gate where it is not known yet."""

    def enqueue(self, event: Event) -> None:
        flight = event.content
        if flight.status is not Status.SCHEDULED:
            return
        if not flight.gate:
            event = event.replace(replace(flight, gate="tba"))
        super().enqueue(event)


class CountsAll(FIFOFilter):
    """Counts before it looks: nothing can be kept from it."""

    def __init__(self) -> None:
        super().__init__()
        self.flights = 0
        self.late = 0

    def enqueue(self, event: Event) -> None:
        self.flights += 1
        if event.content.delay() > LATE:
            self.late += 1
            super().enqueue(event)


class Histogram(FIFOFilter):
    """Sorts all flights by their delay; the cancelled ones go on."""

    def __init__(self) -> None:
        super().__init__()
        self.buckets = [0, 0, 0]

    def enqueue(self, event: Event) -> None:
        flight = event.content
        if flight.delay() < 15:
            self.buckets[0] += 1
        elif flight.delay() < LATE:
            self.buckets[1] += 1
        else:
            self.buckets[2] += 1
        if flight.cancelled:
            super().enqueue(event)


def carrier_rule(carrier: str, minimum: float = LATE) -> Callable[[Flight], bool]:
    def rule(flight: Flight) -> bool:
        return flight.carrier == carrier and flight.delay() >= minimum

    return rule


def number_range(flight: Flight) -> bool:
    """Extra flights have numbers of their own."""
    return flight.number in range(8000, 9000) or 5900 < flight.number < 6000


def mentions_crew(flight: Flight) -> bool:
    remark = flight.remark.casefold()
    return any(word in remark for word in ("crew", "pilot", "duty time"))


def between_neighbours(flight: Flight) -> bool:
    """Routes between the regions J and L, by the first letter of their airports."""
    key = flight.route.origin[:1] + flight.route.destination[:1]
    return key == "JL" or key == "LJ"


def remarks_length(flight: Flight) -> bool:
    remark = flight.remark.strip()
    return bool(remark) and len(remark) <= 4


def two_engines(flight: Flight) -> bool:
    if (aircraft := flight.aircraft) is not None and (age := 2013 - aircraft.built) > 20:
        return age > 25 or aircraft.seats < 100
    return False


def delay_class(flight: Flight) -> bool:
    minutes = flight.delay()
    if minutes < 15:
        level = 0
    elif minutes < LATE:
        level = 1
    else:
        level = 2
    return level + (1 if flight.passengers > 200 else 0) >= 2


class PerCarrierLimit(FIFOFilter):
    """Own limits for some carriers, as a mapping."""

    LIMITS: ClassVar[dict[str, int]] = {"DL": 60, "AA": 90}

    def enqueue(self, event: Event) -> None:
        flight = event.content
        limit = self.LIMITS.get(flight.carrier, 120)
        if flight.delay() > limit:
            super().enqueue(event)


airports = ("JFK", "LGA", "ATL", "BOS", "DCA", "ORD", "LHR")
flights = contents(
    Flight,
    carrier=("DL", "AA", "AF", "UA"),
    number=(1, 17, 5900, 5950, 6000, 7999, 8000, 8999, 9000),
    route=contents(
        Route, origin=airports, destination=airports, distance=(184, 1_999, 2_000, 2_001, 3_451)
    )(),
    aircraft=maybe(
        contents(
            Aircraft,
            tail=("N123DL", "N77ER", "N1"),
            seats=(0, 50, 99, 180, 250, 251),
            built=(1985, 1988, 1992, 1993, 2005),
        )()
    ),
    status=tuple(Status),
    scheduled=(
        datetime(2013, 7, 3, 23, 59),
        datetime(2013, 7, 4, 6, 0),
        datetime(2013, 12, 25, 21, 0),
        datetime(2013, 3, 1, 1, 30),
        datetime(2013, 3, 1, 20, 59),
    ),
    departed=(None, datetime(2013, 7, 4, 6, 0), datetime(2013, 7, 4, 6, 15, 1)),
    arrival=(
        datetime(2013, 7, 4, 6, 45),
        datetime(2013, 7, 4, 7, 0),
        datetime(2013, 7, 4, 9, 0),
        datetime(2013, 7, 4, 22, 5),
        datetime(2013, 7, 4, 23, 0),
    ),
    dep_delay=(None, -5.0, 0.0, 14.0, 15.0, 31.0, 60.0, 61.0, 91.0, 121.0, 181.0, NAN),
    arr_delay=(None, -20.0, 0.0, 5.0, 30.0, 100.0, NAN),
    passengers=(0, 10, 90, 179, 180, 200, 201),
    gate=(None, "", "A1", "B22"),
    remark=("", "  ", "ok", "Crew late", "DUTY TIME exceeded", "wx", " fog "),
)

CASES: list[Case] = [
    Case(
        LateDelta, "carrier = 'DL' AND dep_delay IS NOT NULL AND dep_delay > 60",
        True, flights(), Flight, ("comparison", "boolean", "is-none", "module-constant"),
    ),
    Case(
        LateAtHub,
        "route.origin IN ('JFK', 'ATL', 'ORD') AND dep_delay IS NOT NULL"
        " AND (dep_delay > 60 OR dep_delay > 30.0 AND passengers >= 180)",
        True, flights(), Flight,
        ("unpacking", "early-return", "not-in", "in-set", "nested-dataclass", "is-none"),
    ),
    Case(
        unexplained, "dep_delay - arr_delay > 30", True, flights(), Flight,
        ("arithmetic", "field-with-field"),
    ),
    Case(
        catches_up,
        "NOT (dep_delay IS NULL OR arr_delay IS NULL) AND dep_delay - arr_delay >= 15"
        " AND (dep_delay - arr_delay) / max(dep_delay, 1.0) > 0.5",
        True, flights(), Flight, ("is-none", "local", "arithmetic", "min-max", "early-return"),
    ),
    Case(
        disrupted,
        "status = 'CANCELLED' OR status = 'DIVERTED' OR status = 'SCHEDULED'"
        " AND CASE WHEN dep_delay THEN dep_delay ELSE 0.0 END > 180",
        True, flights(), Flight, ("match", "enum", "event-method", "truthiness"),
    ),
    Case(
        on_holiday,
        "date(scheduled) IN (DATE '2013-07-04', DATE '2013-12-25') AND NOT status = 'CANCELLED'",
        True, flights(), Flight,
        ("datetime-naive", "datetime-part", "in-tuple", "event-property", "enum"),
    ),
    Case(
        red_eye,
        "(hour(scheduled) >= 21 OR hour(scheduled) < 2) AND 4 <= hour(arrival)"
        " AND hour(arrival) <= 8",
        True, flights(), Flight, ("datetime-part", "chain", "boolean", "local"),
    ),
    Case(
        after_curfew,
        "route.destination = 'LGA' AND hour(arrival) >= 23"
        " OR route.destination = 'DCA' AND hour(arrival) >= 22",
        True, flights(), Flight, ("in-dict", "is-none", "datetime-part", "early-return"),
    ),
    Case(
        shuttle,
        "route.origin = 'LGA' AND route.destination = 'BOS'"
        " OR route.origin = 'LGA' AND route.destination = 'DCA'"
        " OR route.origin = 'JFK' AND route.destination = 'BOS'",
        True, flights(), Flight, ("in-set", "module-constant", "nested-dataclass"),
    ),
    Case(
        partner, "carrier IN ('DL', 'AF', 'KL') AND route.distance > 2000",
        True, flights(), Flight, ("in-literal", "event-property", "nested-dataclass"),
    ),
    Case(
        large_aircraft,
        "aircraft IS NOT NULL AND (aircraft.seats > 250 OR endswith(aircraft.tail, 'ER'))",
        True, flights(), Flight, ("is-none", "nested-dataclass", "startswith-endswith"),
    ),
    Case(
        half_empty, "passengers / aircraft.seats < 0.5", True, flights(), Flight,
        ("arithmetic", "field-with-field", "nested-dataclass"),
    ),
    Case(
        GateChange, "NOT (gate IS NULL OR status = 'CANCELLED')", False,
        flights(number=(1, 17), carrier=("DL",)), Flight,
        ("state-change", "event-property", "is-none", "f-string"),
    ),
    Case(
        Touching, "route.origin = 'JFK' OR route.destination = 'JFK'", True, flights(), Flight,
        ("event-method", "parameter", "in-tuple", "case-change"), args=("jfk",),
    ),
    Case(
        TightTurn, "departed IS NOT NULL AND arrival - departed < INTERVAL 2700",
        False, flights(), Flight,
        ("logging", "timedelta", "class-constant", "is-none", "field-with-field"),
    ),
    Case(
        MeanDelay, "route.origin = 'JFK' AND dep_delay IS NOT NULL", False,
        flights(dep_delay=(None, 0.0, 14.0, 61.0, 91.0)), Flight,
        ("state-average", "parameter", "is-none"), args=("JFK",),
    ),
    Case(
        Announced, "status = 'SCHEDULED'", False, flights(), Flight,
        ("transform", "enum", "truthiness", "early-return"),
    ),
    Case(CountsAll, "TRUE", False, flights(), Flight, ("state-counter", "event-method")),
    Case(
        Histogram, "TRUE", False, flights(), Flight,
        ("state-counter", "if-elif", "event-method", "event-property"),
    ),
    Case(
        carrier_rule("AA", 90),
        "carrier = 'AA' AND CASE WHEN dep_delay THEN dep_delay ELSE 0.0 END >= 90",
        True, flights(), Flight, ("closure", "event-method", "default-argument"),
    ),
    Case(
        number_range, "number >= 8000 AND number < 9000 OR 5900 < number AND number < 6000",
        True, flights(), Flight, ("in-range", "chain"),
    ),
    Case(
        mentions_crew,
        "contains(casefold(remark), 'crew') OR contains(casefold(remark), 'pilot')"
        " OR contains(casefold(remark), 'duty time')",
        True, flights(), Flight, ("any-all-gen", "case-change", "substring", "for-constants"),
    ),
    Case(
        between_neighbours,
        "startswith(route.origin, 'J') AND startswith(route.destination, 'L')"
        " OR startswith(route.origin, 'L') AND startswith(route.destination, 'J')",
        True, flights(), Flight, ("concatenation", "substring", "local", "nested-dataclass"),
    ),
    Case(
        remarks_length, "strip(remark) AND len(strip(remark)) <= 4", True, flights(), Flight,
        ("strip", "len", "truthiness", "conversion"),
    ),
    Case(
        two_engines,
        "aircraft IS NOT NULL AND 2013 - aircraft.built > 20"
        " AND (2013 - aircraft.built > 25 OR aircraft.seats < 100)",
        True, flights(), Flight, ("walrus", "is-none", "arithmetic", "nested-dataclass"),
    ),
    Case(
        delay_class,
        "CASE WHEN CASE WHEN dep_delay THEN dep_delay ELSE 0.0 END < 15 THEN 0 ELSE"
        " CASE WHEN CASE WHEN dep_delay THEN dep_delay ELSE 0.0 END < 60 THEN 1 ELSE 2 END END"
        " + CASE WHEN passengers > 200 THEN 1 ELSE 0 END >= 2",
        True, flights(), Flight, ("if-elif", "ternary", "arithmetic", "event-method", "local"),
    ),
    Case(
        PerCarrierLimit,
        "CASE WHEN dep_delay THEN dep_delay ELSE 0.0 END"
        " > CASE WHEN carrier = 'DL' THEN 60"
        " ELSE CASE WHEN carrier = 'AA' THEN 90 ELSE 120 END END",
        True, flights(), Flight, ("class-constant", "in-dict", "event-method", "local"),
    ),
    Case(
        lambda flight: flight.route.origin == "JFK" and flight.aircraft.tail != "N1",
        "route.origin = 'JFK' AND aircraft.tail != 'N1'", True, flights(), Flight,
        ("lambda", "nested-dataclass", "boolean"),
    ),
]  # fmt: skip
