# mypy: disable-error-code="no-any-return"
"""Readings of sensors in buildings."""

from __future__ import annotations

import logging
import math
import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar

from activebroker import Event, FIFOFilter

from .case import Case
from .drawing import NAN, contents, maybe
from .helpers import between, clamp
from .iot_events import Location, Quality, Reading

logger = logging.getLogger(__name__)

COMFORT = (18.0, 24.5)
CELSIUS = "C"
LIMITS = {"temperature": 60.0, "humidity": 95.0, "co2": 1_500.0}
OLD_FIRMWARE = re.compile(r"v?[01]\.\d+")
COMMISSIONED = datetime(2024, 1, 15, tzinfo=UTC)
SUMMER_TIME = datetime(2024, 3, 31, 2, 0, tzinfo=timezone(timedelta(hours=1)))


class OverLimit(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        reading = event.content
        if reading.kind == "temperature" and reading.value > 60.0:
            super().enqueue(event)
        elif reading.kind == "humidity" and reading.value > 95.0:
            super().enqueue(event)
        elif reading.kind == "co2":
            if reading.value > 1500.0:
                super().enqueue(event)


def over_limit(reading: Reading) -> bool:
    """The same by a table; kinds that are not in it are never over."""
    return reading.value > LIMITS.get(reading.kind, math.inf)


def uncomfortable(reading: Reading) -> bool:
    if reading.kind != "temperature" or reading.quality is Quality.BAD:
        return False
    low, high = COMFORT
    return not low <= reading.celsius <= high


def battery_low(reading: Reading) -> bool:
    return reading.needs_battery() or (reading.needs_battery(30) and reading.rssi < -90)


def weak_signal(reading: Reading) -> bool:
    return reading.rssi in range(-120, -95)


def plausible(reading: Reading) -> bool:
    return between(reading.value, -40.0, 85.0) and bool(reading.calibrated)


def no_number(reading: Reading) -> bool:
    """NaN is the one value that differs from itself."""
    return reading.value != reading.value


def broken(reading: Any) -> bool:
    return reading.battery < 5 or reading.location.floor < -2


class Smoothed(FIFOFilter):
    """Replaces values by the mean of a window, for the sensors of one device."""

    def __init__(self, device: str, size: int = 4) -> None:
        super().__init__()
        self.device = device
        self.window: deque[float] = deque(maxlen=size)

    def enqueue(self, event: Event) -> None:
        reading = event.content
        if reading.device != self.device:
            return
        if math.isnan(reading.value):
            return
        self.window.append(reading.value)
        mean = sum(self.window) / len(self.window)
        super().enqueue(event.replace(replace(reading, value=mean)))


class Deadband(FIFOFilter):
    """Forwards a value only where it is far enough from the last that was forwarded."""

    def __init__(self, width: float, kind: str) -> None:
        super().__init__()
        self.width = width
        self.kind = kind
        self.last: float | None = None

    def enqueue(self, event: Event) -> None:
        reading = event.content
        if reading.kind != self.kind or reading.quality != Quality.GOOD:
            return
        if self.last is None or abs(reading.value - self.last) >= self.width:
            self.last = reading.value
            super().enqueue(event)


class Silence(FIFOFilter):
    """The first reading of a device after a long pause: remembers the time of each."""

    PAUSE = timedelta(hours=1)

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, datetime] = {}

    def enqueue(self, event: Event) -> None:
        reading = event.content
        before = self.seen.get(reading.device)
        self.seen[reading.device] = reading.at
        if before is not None and reading.at - before > self.PAUSE:
            super().enqueue(event)


class Hysteresis(FIFOFilter):
    """An alarm that is raised at one level and taken back at another."""

    def __init__(self, on: float, off: float) -> None:
        super().__init__()
        self.on = on
        self.off = off
        self.active = False

    def enqueue(self, event: Event) -> None:
        value = event.content.value
        if value >= self.on and not self.active:
            self.active = True
            super().enqueue(event)
        elif value <= self.off and self.active:
            self.active = False
            super().enqueue(event)


class Room(FIFOFilter):
    """Readings of some rooms; those without a place are logged."""

    default_site: ClassVar[str] = "berlin"

    def __init__(self, *rooms: str) -> None:
        super().__init__()
        self.rooms = frozenset(room.upper() for room in rooms)

    def enqueue(self, event: Event) -> None:
        location = event.content.location
        if location is None:
            logger.debug("%s has no place", event.content.device)
            return
        if location.site == self.default_site and location.room in self.rooms:
            super().enqueue(event)


def outdated_firmware(reading: Reading) -> bool:
    return OLD_FIRMWARE.match(reading.firmware) is not None


def beta_firmware(reading: Reading) -> bool:
    version = reading.firmware.lstrip("v")
    return version.endswith(("-beta", "-rc")) and not version.startswith("0.")


def late_arrival(reading: Reading) -> bool:
    return reading.lag > timedelta(seconds=30) and reading.lag < timedelta(days=1)


def clock_ahead(reading: Reading) -> bool:
    return reading.received_at < reading.at or reading.at < COMMISSIONED


def after_clock_change(reading: Reading) -> bool:
    at = reading.at
    return at >= SUMMER_TIME and (at.day, at.month) == (31, 3)


def on_the_hour(reading: Reading) -> bool:
    return reading.at.minute == 0 and reading.at.second < 10


def identified(prefix: str, *, strict: bool = False) -> Callable[[Reading], bool]:
    def rule(reading: Reading) -> bool:
        if strict:
            return reading.device.startswith(prefix) and len(reading.device) == 7
        return reading.device.lower().startswith(prefix.lower())

    return rule


def comfort_index(reading: Reading) -> bool:
    bounded = clamp(reading.celsius, 0.0, 40.0)
    score = bounded - 0.55 * (1 - 0.5) * (bounded - 14.5)
    return score >= 24.0


def by_quality(reading: Reading) -> bool:
    match reading:
        case Reading(quality=Quality.BAD):
            return False
        case Reading(kind="co2", value=value) if value > 1_000:
            return True
        case Reading(kind="temperature" | "humidity", calibrated=True):
            return True
    return False


def upper_floors(reading: Reading) -> bool:
    return (place := reading.location) is not None and place.floor in {2, 3, 4}


def placed(reading: Reading) -> bool:
    site = reading.location.site if reading.location else "unknown"
    return site in ("berlin", "unknown") and reading.kind == "co2"


def room_code(reading: Reading) -> bool:
    if reading.location is None:
        return False
    code = f"{reading.location.site}-{reading.location.floor}"
    return code == "berlin-2" or code == "oslo-1"


class Console(FIFOFilter):
    """Shows every reading to whoever tries a new device."""

    def enqueue(self, event: Event) -> None:
        reading = event.content
        print(f"{reading.device} {reading.kind}: {reading.value:.2f} {reading.unit}")
        if reading.quality is not Quality.BAD:
            super().enqueue(event)


class Sampler(FIFOFilter):
    """Every other reading, whatever it is."""

    def __init__(self) -> None:
        super().__init__()
        self.odd = False

    def enqueue(self, event: Event) -> None:
        self.odd = not self.odd
        if self.odd:
            super().enqueue(event)


readings = contents(
    Reading,
    device=("SN-0001", "sn-0002", "SN-00033", "GW-0001"),
    kind=("temperature", "humidity", "co2", "noise"),
    value=(-50.0, -40.0, 17.9, 18.0, 24.5, 24.6, 60.0, 60.1, 76.1, 95.1, 1001.0, 1500.1, NAN),
    unit=("C", "F"),
    quality=tuple(Quality),
    battery=(None, 3, 5, 15, 16, 30, 31, 90),
    rssi=(-121, -120, -96, -95, -91, -90, -40),
    firmware=("v1.9", "1.10", "v2.0-beta", "v0.9-rc", "2.4", "v10.2-rc", ""),
    location=maybe(
        contents(
            Location,
            site=("berlin", "oslo"),
            floor=(-3, 1, 2, 4, 5),
            room=(None, "A1", "B2", "C3", "b2"),
        )()
    ),
    at=(
        datetime(2024, 1, 14, 23, 59, 59, tzinfo=UTC),
        datetime(2024, 1, 15, tzinfo=UTC),
        datetime(2024, 3, 31, 0, 59, 59, tzinfo=UTC),
        datetime(2024, 3, 31, 1, 0, tzinfo=UTC),
        datetime(2024, 3, 31, 14, 0, 9, tzinfo=UTC),
        datetime(2024, 3, 31, 14, 0, 10, tzinfo=UTC),
        datetime(2024, 4, 1, 8, 30, tzinfo=UTC),
    ),
    received_at=(
        datetime(2024, 3, 31, 1, 0, 30, tzinfo=UTC),
        datetime(2024, 3, 31, 1, 0, 31, tzinfo=UTC),
        datetime(2024, 4, 1, 8, 30, 31, tzinfo=UTC),
    ),
    calibrated=(True, False),
)

CASES: list[Case] = [
    Case(
        OverLimit,
        "kind = 'temperature' AND value > 60.0 OR kind = 'humidity' AND value > 95.0"
        " OR kind = 'co2' AND value > 1500.0",
        True, readings(), Reading, ("if-elif", "comparison", "local"),
    ),
    Case(
        over_limit,
        "kind = 'temperature' AND value > 60.0 OR kind = 'humidity' AND value > 95.0"
        " OR kind = 'co2' AND value > 1500.0",
        True, readings(), Reading, ("in-dict", "module-constant", "comparison"),
    ),
    Case(
        uncomfortable,
        "NOT (kind != 'temperature' OR quality = 'BAD')"
        " AND NOT (18.0 <= CASE WHEN unit = 'F' THEN (value - 32) * 5 / 9 ELSE value END"
        " AND CASE WHEN unit = 'F' THEN (value - 32) * 5 / 9 ELSE value END <= 24.5)",
        True, readings(), Reading,
        ("chain", "unpacking", "event-property", "enum", "early-return", "arithmetic"),
    ),
    Case(
        battery_low,
        "battery IS NOT NULL AND battery <= 15"
        " OR battery IS NOT NULL AND battery <= 30 AND rssi < -90",
        True, readings(), Reading, ("event-method", "default-argument", "is-none", "boolean"),
    ),
    Case(weak_signal, "rssi >= -120 AND rssi < -95", True, readings(), Reading, ("in-range",)),
    Case(
        plausible, "-40.0 <= value AND value <= 85.0 AND calibrated", True, readings(), Reading,
        ("imported-helper", "chain", "truthiness", "conversion"),
    ),
    Case(no_number, "value != value", True, readings(), Reading, ("field-with-field",)),
    Case(
        broken, "battery < 5 OR location.floor < -2", True, readings(), Reading,
        ("comparison", "nested-dataclass", "boolean"),
    ),
    Case(
        Smoothed, "device = 'SN-0001' AND value = value", False, readings(), Reading,
        ("state-average", "transform", "parameter", "early-return"), args=("SN-0001",),
    ),
    Case(
        Deadband, "NOT (kind != 'temperature' OR quality != 'GOOD')", False, readings(), Reading,
        ("state-change", "enum", "abs", "parameter", "early-return"), args=(0.5, "temperature"),
    ),
    Case(
        Silence, "TRUE", False, readings(), Reading,
        ("state-change", "class-constant", "timedelta", "datetime-aware"),
    ),
    Case(
        Hysteresis, "value >= 60.0 OR value <= 24.5", False, readings(), Reading,
        ("state-change", "if-elif", "parameter", "boolean"), args=(60.0, 24.5),
    ),
    Case(
        Room, "location IS NULL OR location.site = 'berlin' AND location.room IN ('A1', 'B2')",
        False, readings(), Reading,
        ("logging", "parameter", "class-constant", "case-change", "nested-dataclass", "in-set"),
        args=("a1", "b2"),
    ),
    Case(
        outdated_firmware, "match(firmware, 'v?[01]\\.\\d+')", True, readings(), Reading,
        ("regex-precompiled", "is-none"),
    ),
    Case(
        beta_firmware,
        "(endswith(lstrip(firmware, 'v'), '-beta') OR endswith(lstrip(firmware, 'v'), '-rc'))"
        " AND NOT startswith(lstrip(firmware, 'v'), '0.')",
        True, readings(), Reading, ("strip", "startswith-endswith", "local"),
    ),
    Case(
        late_arrival,
        "received_at - at > INTERVAL 30 AND received_at - at < INTERVAL 86400",
        True, readings(), Reading, ("timedelta", "event-property", "datetime-aware"),
    ),
    Case(
        clock_ahead, "received_at < at OR at < TIMESTAMP '2024-01-15 00:00:00+00:00'",
        True, readings(), Reading, ("datetime-aware", "field-with-field", "module-constant"),
    ),
    Case(
        after_clock_change,
        "at >= TIMESTAMP '2024-03-31 02:00:00+01:00' AND day(at) = 31 AND month(at) = 3",
        True, readings(), Reading, ("datetime-aware", "datetime-part", "local", "unpacking"),
    ),
    Case(
        on_the_hour, "minute(at) = 0 AND second(at) < 10", True, readings(), Reading,
        ("datetime-part", "boolean"),
    ),
    Case(
        identified("SN-", strict=True), "startswith(device, 'SN-') AND len(device) = 7",
        True, readings(), Reading, ("closure", "startswith-endswith", "len"),
    ),
    Case(
        comfort_index,
        "max(0.0, min(40.0, CASE WHEN unit = 'F' THEN (value - 32) * 5 / 9 ELSE value END))"
        " - 0.275 * (max(0.0, min(40.0,"
        " CASE WHEN unit = 'F' THEN (value - 32) * 5 / 9 ELSE value END)) - 14.5) >= 24.0",
        True, readings(), Reading,
        ("imported-helper", "min-max", "arithmetic", "event-property", "local"),
    ),
    Case(
        by_quality,
        "quality != 'BAD' AND (kind = 'co2' AND value > 1000"
        " OR kind IN ('temperature', 'humidity') AND calibrated = TRUE)",
        True, readings(), Reading, ("match", "enum", "boolean"),
    ),
    Case(
        upper_floors, "location IS NOT NULL AND location.floor IN (2, 3, 4)",
        True, readings(), Reading, ("walrus", "in-literal", "nested-dataclass", "is-none"),
    ),
    Case(
        placed,
        "(location IS NULL OR location.site = 'berlin') AND kind = 'co2'",
        True, readings(), Reading, ("ternary", "in-tuple", "truthiness", "nested-dataclass"),
    ),
    Case(
        room_code,
        "location IS NOT NULL AND (location.site + '-' + str(location.floor) = 'berlin-2'"
        " OR location.site + '-' + str(location.floor) = 'oslo-1')",
        True, readings(), Reading, ("f-string", "is-none", "local", "nested-dataclass"),
    ),
    Case(Console, "TRUE", False, readings(), Reading, ("io", "f-string", "enum")),
    Case(Sampler, "TRUE", False, readings(), Reading, ("state-counter",)),
    Case(
        lambda r: r.unit == CELSIUS and abs(r.value) > 50,
        "unit = 'C' AND abs(value) > 50", True, readings(), Reading,
        ("lambda", "abs", "module-constant"),
    ),
]  # fmt: skip
