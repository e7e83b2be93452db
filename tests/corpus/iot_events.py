"""Readings of sensors and states of machines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated

from activebroker import Zone

LOW_BATTERY = 15


class Quality(Enum):
    GOOD = 0
    SUSPECT = 1
    BAD = 2


@dataclass(frozen=True)
class Location:
    site: str
    floor: int
    room: str | None


@dataclass(frozen=True)
class Reading:
    device: str
    kind: str
    value: float
    unit: str
    quality: Quality
    battery: int | None
    rssi: int
    firmware: str
    location: Location | None
    at: Annotated[datetime, Zone("UTC")]
    received_at: Annotated[datetime, Zone("UTC")]
    calibrated: bool

    @property
    def celsius(self) -> float:
        if self.unit == "F":
            return (self.value - 32) * 5 / 9
        return self.value

    @property
    def lag(self) -> timedelta:
        return self.received_at - self.at

    def needs_battery(self, level: int = LOW_BATTERY) -> bool:
        return self.battery is not None and self.battery <= level


class Mode(Enum):
    IDLE = "idle"
    RUN = "run"
    SETUP = "setup"
    FAULT = "fault"


@dataclass(frozen=True)
class Vibration:
    x: float
    y: float
    z: float

    def energy(self) -> float:
        """In the plane of the spindle."""
        return self.x * self.x + self.y * self.y

    @property
    def peak(self) -> float:
        return max(abs(self.x), abs(self.y), abs(self.z))


@dataclass(frozen=True)
class Machine:
    name: str
    kind: str
    line: int
    mode: Mode
    rpm: int
    temperature: float
    load: float
    vibration: Vibration
    alarm: str | None
    cycle: int
    parts: int
    rejects: int
    operator: str | None
    tools: list[str]
    at: datetime

    @property
    def reject_rate(self) -> float:
        if self.parts == 0:
            return 0.0
        return self.rejects / self.parts

    @property
    def running(self) -> bool:
        return self.mode == Mode.RUN
