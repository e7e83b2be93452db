"""What the demo's consumers want, as filter classes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from activebroker import Event, FIFOFilter

MILES_OF_CLIMB = 150.0
SLOW, CRUISE = 250.0, 515.0  # mph in still air: near the ground, and at height
STEPS = 128


class LateDelta(FIFOFilter):
    """Delta's departures that were over an hour late."""

    def enqueue(self, event: Event) -> None:
        flight = event.content
        if flight.carrier == "DL" and flight.dep_delay is not None and flight.dep_delay > 60:
            super().enqueue(event)


@dataclass(slots=True)
class RunningMean:
    """Mean and variance of the values so far, by Welford's method."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0  # sum of squared distances from the mean

    def add(self, value: float) -> None:
        self.count += 1
        step = value - self.mean
        self.mean += step / self.count
        self.squares += step * (value - self.mean)

    def far(self, value: float, deviations: float) -> bool:
        deviation = math.sqrt(self.squares / (self.count - 1))
        return abs(value - self.mean) > deviations * deviation


class OffTheMean(FIFOFilter):
    """Departures whose delay is far from the mean of their route's earlier ones.

    Far is more than `deviations` standard deviations; a route's first `warm_up` flights only
    count.
    """

    def __init__(self, deviations: float = 2.0, warm_up: int = 30) -> None:
        self.deviations = deviations
        self.warm_up = warm_up
        self.routes: dict[tuple[str, str], RunningMean] = {}

    def enqueue(self, event: Event) -> None:
        flight = event.content
        if flight.dep_delay is None:
            return
        route = self.routes.setdefault((flight.origin, flight.dest), RunningMean())
        if route.count >= self.warm_up and route.far(flight.dep_delay, self.deviations):
            super().enqueue(event)
        route.add(flight.dep_delay)


@dataclass(frozen=True)
class Wind:
    """The steady wind along a flight's way that explains its time in the air (mph, ahead < 0)."""

    carrier: str
    flight: int
    origin: str
    dest: str
    distance: int
    air_time: float
    wind: float


class StrongWind(FIFOFilter):
    """Long flights that met a strong wind: a numeric filter, and dear to run.

    The model: an aircraft gains speed evenly over its first 150 miles, cruises, and loses it
    over the last 150. Its time in the air is integrated along the way, and the wind is found for
    which that is the real one.
    """

    output = Wind

    def __init__(self, miles: int = 2000, strong: float = 40.0) -> None:
        self.miles = miles
        self.strong = strong

    def enqueue(self, event: Event) -> None:
        flight = event.content
        if flight.air_time is None or flight.distance < self.miles:
            return
        wind = round(steady_wind(flight.distance, flight.air_time), 1)
        if abs(wind) > self.strong:
            found = Wind(
                carrier=flight.carrier,
                flight=flight.flight,
                origin=flight.origin,
                dest=flight.dest,
                distance=flight.distance,
                air_time=flight.air_time,
                wind=wind,
            )
            super().enqueue(event.replace(found))


def steady_wind(distance: float, minutes: float) -> float:
    """Find by bisection, to about a billionth of a mph, the wind that makes the time right."""
    where = (np.arange(STEPS) + 0.5) * (distance / STEPS)
    share = np.minimum(1.0, np.minimum(where, distance - where) / MILES_OF_CLIMB)
    speed = SLOW + (CRUISE - SLOW) * share
    low, high = 1.0 - SLOW, 500.0
    for _ in range(40):
        middle = (low + high) / 2
        if float(np.mean(1.0 / (speed + middle))) * distance * 60.0 > minutes:
            low = middle
        else:
            high = middle
    return (low + high) / 2
