# mypy: disable-error-code="no-any-return"
"""Machines of a plant, and the messages of its gateways."""

from __future__ import annotations

import json
import logging
import re
import threading
from datetime import datetime, time
from functools import cache, partial
from math import hypot
from typing import Any

from activebroker import Event, FIFOFilter

from .case import Case
from .drawing import NAN, contents, documents, lists
from .helpers import between, documented, normalized
from .iot_events import Machine, Mode, Vibration

logger = logging.getLogger("plant")

NOMINAL_RPM = {"press": 900, "lathe": 3_000, "mill": 6_000}
ALARM_CODE = re.compile(r"^(?P<group>[EW])(?P<number>\d{3})$")
NIGHT_SHIFT = (time(22, 0), time(6, 0))
GATEWAYS = frozenset({"gw-1", "gw-2"})
SHUTDOWN_TOPICS = ("plant/stop", "plant/emergency")
maximum_age = 3 * 365


class Base(FIFOFilter):
    """Filters of one line; the others are not looked at."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line

    def enqueue(self, event: Event) -> None:
        if self.accepts(event.content):
            super().enqueue(event)

    def accepts(self, machine: Machine) -> bool:
        return machine.line == self.line


class HotOnLine(Base):
    def __init__(self, line: int, limit: float = 80.0) -> None:
        super().__init__(line)
        self.limit = limit

    def accepts(self, machine: Machine) -> bool:
        return super().accepts(machine) and machine.temperature >= self.limit


class Scrap(Base):
    """Too many rejects, once there are enough parts."""

    def accepts(self, machine: Machine) -> bool:
        if not super().accepts(machine):
            return False
        return machine.parts >= 20 and machine.reject_rate > 0.05


class Shaking(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        machine = event.content
        forward = super().enqueue
        if machine.mode is Mode.RUN:
            if machine.vibration.peak > 4.0:
                forward(event)
        elif machine.mode is Mode.SETUP and machine.vibration.peak > 8.0:
            forward(event)


class FaultBegins(FIFOFilter):
    """The moment at which a machine of a line gets a fault."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self._line = line
        self._mode: Mode | None = None

    def enqueue(self, event: Event) -> None:
        machine = event.content
        if machine.line != self._line:
            return
        before, self._mode = self._mode, machine.mode
        if machine.mode is Mode.FAULT and before is not Mode.FAULT:
            super().enqueue(event)


class AlarmBurst(FIFOFilter):
    """Alarms that come more than three times in a row."""

    def __init__(self, threshold: int = 3) -> None:
        super().__init__()
        self.threshold = threshold
        self.streak = 0

    def enqueue(self, event: Event) -> None:
        if not event.content.alarm:
            self.streak = 0
            return
        self.streak += 1
        if self.streak > self.threshold:
            super().enqueue(event)


class StopOnce(FIFOFilter):
    """The first machine that overheats, and none after it."""

    def __init__(self) -> None:
        super().__init__()
        self._done = threading.Event()

    def enqueue(self, event: Event) -> None:
        machine = event.content
        if machine.temperature > 95 and machine.load > 0.5 and not self._done.is_set():
            self._done.set()
            super().enqueue(event)


class Shift(FIFOFilter):
    """Adds up the parts of a shift; the machine at which it ends is forwarded."""

    def __init__(self, goal: int) -> None:
        super().__init__()
        self.goal = goal
        self.done = 0

    def enqueue(self, event: Event) -> None:
        self.done += max(event.content.parts - event.content.rejects, 1)
        if self.done >= self.goal:
            self.done = 0
            super().enqueue(event)


@cache
def nominal(kind: str) -> int:
    return NOMINAL_RPM.get(kind, 1_000)


def too_fast(machine: Machine) -> bool:
    return machine.running and machine.rpm > nominal(machine.kind) * 1.1


def unbalanced(machine: Machine) -> bool:
    return machine.vibration.energy() > 25.0


def tilted(machine: Machine) -> bool:
    return machine.running and hypot(machine.vibration.x, machine.vibration.z) > 3.0


@documented
def real_alarm(machine: Machine) -> bool:
    """Errors are alarms, warnings are not."""
    if machine.alarm is None:
        return False
    found = ALARM_CODE.match(machine.alarm)
    return found is not None and machine.alarm.startswith("E")


def unattended(machine: Machine) -> bool:
    return machine.running and normalized(machine.operator) in {"", "none", "-"}


def at_night(machine: Machine) -> bool:
    begin, end = NIGHT_SHIFT
    return machine.at.hour >= begin.hour or machine.at.hour < end.hour


def worn_tool(machine: Machine) -> bool:
    return len(machine.tools) > 0 and all(code not in machine.tools for code in ("T1", "T2"))


def drifting(machine: Machine, reference: float, tolerance: float) -> bool:
    return not between(machine.temperature, reference - tolerance, reference + tolerance)


def every_hundredth(machine: Machine) -> bool:
    return (machine.cycle > 0 and machine.cycle % 100 == 0) or machine.cycle // 1_000 == 7


class Emergency(FIFOFilter):
    """Messages that stop the plant, of our own gateways."""

    def enqueue(self, event: Event) -> None:
        message = event.content
        if message["gateway"] not in GATEWAYS:
            return
        if message["topic"].startswith(SHUTDOWN_TOPICS):
            super().enqueue(event)


class Decoded(FIFOFilter):
    """Unpacks the body of a message; a body that is no JSON raises."""

    def enqueue(self, event: Event) -> None:
        message = event.content
        if message.get("encoding", "json") == "json" and message.get("raw"):
            super().enqueue(event.replace(json.loads(message["raw"])))


class Health(FIFOFilter):
    """Beats of a gateway that is ill; what is no beat is an error."""

    def enqueue(self, event: Event) -> None:
        message = event.content
        try:
            status = message["payload"]["status"]
        except KeyError:
            logger.error("no beat: %s", message)
            return
        if status != "ok":
            super().enqueue(event)


def over_temperature(message: dict[str, Any]) -> bool:
    return message["payload"]["temperature"] > 75 and message["retained"] is not True


def strange_payload(message: dict[str, Any]) -> bool:
    payload = message.get("payload")
    if not isinstance(payload, dict):
        return True
    value = payload.get("temperature")
    return not isinstance(value, int | float) or isinstance(value, bool)


def old_gateway(message: dict[str, Any]) -> bool:
    return message.get("age", 0) > maximum_age and message.get("gateway") != "gw-test"


def command(message: dict[str, Any]) -> bool:
    if "payload" not in message or message["payload"] is None:
        return False
    return "command" in message["payload"] and message.get("qos") in (1, 2)


def wildcard(message: dict[str, Any], root: str = "plant") -> bool:
    topic = str(message.get("topic", ""))
    return re.search(rf"^{root}/line\d+/(stop|start)$", topic) is not None


def status_code(message: dict[str, Any]) -> bool:
    match message.get("qos"):
        case 0:
            return bool(message.get("retained"))
        case 1 | 2:
            return True
        case None:
            return False
        case other:
            return other == "2"


shakes = (-9.0, -4.1, 0.0, 2.0, 3.0, 4.0, 4.1, 5.0, 8.1)
machines = contents(
    Machine,
    name=("press-1", "lathe-2", "mill-3"),
    kind=("press", "lathe", "mill", "saw"),
    line=(1, 1, 2, 3),
    mode=tuple(Mode),
    rpm=(0, 900, 991, 1_101, 3_301, 6_601),
    temperature=(20.0, 59.9, 60.0, 79.9, 80.0, 95.1, 110.0, NAN),
    load=(0.0, 0.5, 0.51, 1.0),
    vibration=contents(Vibration, x=shakes, y=shakes, z=shakes)(),
    alarm=(None, "", "E001", "W123", "E12", "e001"),
    cycle=(0, 99, 100, 200, 7_000, 7_999, 8_000),
    parts=(0, 10, 19, 20, 100),
    rejects=(0, 1, 2, 6),
    operator=(None, "", " ", "-", "None", "ann"),
    tools=lists(("T1", "T2", "T3", "T4")),
    at=(
        datetime(2024, 5, 6, 21, 59),
        datetime(2024, 5, 6, 22, 0),
        datetime(2024, 5, 7, 5, 59),
        datetime(2024, 5, 7, 6, 0),
    ),
)
messages = documents(
    {
        "gateway": ("gw-1", "gw-2", "gw-test", None),
        "topic": (
            "plant/stop", "plant/emergency/3", "plant/line1/stop", "plant/line22/start", "home", 7,
        ),
        "payload": {
            "status": ("ok", "warn", None),
            "temperature": (20, 74.9, 75, 75.1, 90, True, "hot", None),
            "command": ("reset",),
        },
        "encoding": ("json", "cbor"),
        "raw": ('{"a": 1}', "[]", "", None, "{"),
        "retained": (True, False, None),
        "qos": (0, 1, 2, 3, "2", None),
        "age": (0, 1_095, 1_096, 4_000, None),
    }
)  # fmt: skip

CASES: list[Case] = [
    Case(
        HotOnLine, "line = 1 AND temperature >= 80.0", True, machines(), Machine,
        ("super-chain", "helper-method", "parameter", "default-argument"), args=(1,),
    ),
    Case(
        Scrap,
        "line = 1 AND parts >= 20 AND CASE WHEN parts = 0 THEN 0.0 ELSE rejects / parts END > 0.05",
        True, machines(), Machine,
        ("super-chain", "helper-method", "event-property", "parameter", "early-return"), args=(1,),
    ),
    Case(
        Shaking,
        "mode = 'RUN' AND max(abs(vibration.x), abs(vibration.y), abs(vibration.z)) > 4.0"
        " OR mode != 'RUN' AND mode = 'SETUP'"
        " AND max(abs(vibration.x), abs(vibration.y), abs(vibration.z)) > 8.0",
        True, machines(), Machine,
        ("alias", "if-elif", "enum", "min-max", "abs", "event-property", "nested-dataclass"),
    ),
    Case(
        FaultBegins, "line = 1", False, machines(), Machine,
        ("state-change", "unpacking", "enum", "parameter", "early-return"), args=(1,),
    ),
    Case(
        AlarmBurst, "TRUE", False, machines(alarm=("E001", "W123", "E001", "E12", None)), Machine,
        ("state-counter", "truthiness", "early-return", "default-argument"),
    ),
    Case(
        StopOnce, "temperature > 95 AND load > 0.5", False, machines(), Machine,
        ("state-change", "boolean", "unknown-call"),
    ),
    Case(
        Shift, "TRUE", False, machines(), Machine,
        ("state-counter", "min-max", "parameter", "arithmetic"), args=(500,),
    ),
    Case(
        too_fast,
        "mode = 'RUN' AND rpm > CASE WHEN kind = 'press' THEN 900 ELSE CASE WHEN kind = 'lathe'"
        " THEN 3000 ELSE CASE WHEN kind = 'mill' THEN 6000 ELSE 1000 END END END * 1.1",
        True, machines(), Machine,
        ("lru-cache", "helper-function", "in-dict", "event-property", "arithmetic"),
    ),
    Case(
        unbalanced, "vibration.x * vibration.x + vibration.y * vibration.y > 25.0", True,
        machines(), Machine, ("event-method", "arithmetic", "nested-dataclass"),
    ),
    Case(
        tilted, "mode = 'RUN'", False, machines(), Machine,
        ("unknown-call", "event-property", "enum"),
    ),
    Case(
        real_alarm,
        "alarm IS NOT NULL AND match(alarm, '^(?P<group>[EW])(?P<number>\\d{3})$')"
        " AND startswith(alarm, 'E')",
        True, machines(), Machine,
        ("decorator", "regex-precompiled", "is-none", "local", "startswith-endswith"),
    ),
    Case(
        unattended,
        "mode = 'RUN' AND lower(strip(CASE WHEN operator THEN operator ELSE '' END))"
        " IN ('', 'none', '-')",
        True, machines(), Machine,
        ("imported-helper", "in-literal", "case-change", "strip", "event-property"),
    ),
    Case(
        at_night, "hour(at) >= 22 OR hour(at) < 6", True, machines(), Machine,
        ("datetime-naive", "datetime-part", "unpacking", "module-constant"),
    ),
    Case(
        worn_tool, "len(tools) > 0 AND NOT contains(tools, 'T1') AND NOT contains(tools, 'T2')",
        True, machines(), Machine, ("any-all-gen", "len", "not-in", "for-constants"),
    ),
    Case(
        partial(drifting, reference=70.0, tolerance=10.0),
        "NOT (60.0 <= temperature AND temperature <= 80.0)", True, machines(), Machine,
        ("partial", "imported-helper", "arithmetic", "chain"),
    ),
    Case(
        every_hundredth, "cycle > 0 AND cycle % 100 = 0 OR cycle // 1000 = 7",
        True, machines(), Machine, ("arithmetic", "boolean"),
    ),
    Case(
        Emergency,
        "content['gateway'] IN ('gw-1', 'gw-2') AND (startswith(content['topic'], 'plant/stop')"
        " OR startswith(content['topic'], 'plant/emergency'))",
        True, messages, None, ("dict-item", "in-set", "startswith-endswith", "early-return"),
    ),
    Case(
        Decoded, "get(content, 'encoding', 'json') = 'json' AND get(content, 'raw', NULL)",
        False, messages, None, ("dict-get", "truthiness", "transform", "dict-item"),
    ),
    Case(Health, "content['payload']['status'] != 'ok'", False, messages, None,
         ("try", "dict-item", "logging")),
    Case(
        over_temperature,
        "content['payload']['temperature'] > 75"
        " AND NOT (isinstance(content['retained'], 'bool') AND content['retained'])",
        True, messages, None, ("dict-item", "comparison"),
    ),
    Case(
        strange_payload,
        "NOT isinstance(get(content, 'payload', NULL), 'dict')"
        " OR NOT isinstance(get(get(content, 'payload', NULL), 'temperature', NULL),"
        " 'int', 'float')"
        " OR isinstance(get(get(content, 'payload', NULL), 'temperature', NULL), 'bool')",
        True, messages, None, ("isinstance", "dict-get", "early-return", "local"),
    ),
    Case(
        old_gateway, "get(content, 'age', 0) > 1095 AND get(content, 'gateway', NULL) != 'gw-test'",
        True, messages, None, ("dict-get", "global", "arithmetic"),
    ),
    Case(
        command,
        "NOT (NOT contains(content, 'payload') OR content['payload'] IS NULL)"
        " AND contains(content['payload'], 'command') AND get(content, 'qos', NULL) IN (1, 2)",
        True, messages, None, ("in-tuple", "not-in", "dict-item", "dict-get", "is-none"),
    ),
    Case(
        wildcard, "search(str(get(content, 'topic', '')), '^plant/line\\d+/(stop|start)$')",
        True, messages, None, ("regex", "f-string", "default-argument", "dict-get", "conversion"),
    ),
    Case(
        status_code,
        "get(content, 'qos', NULL) = 0 AND get(content, 'retained', NULL)"
        " OR get(content, 'qos', NULL) IN (1, 2) OR get(content, 'qos', NULL) = '2'",
        True, messages, None, ("match", "dict-get", "truthiness", "conversion"),
    ),
    Case(
        lambda machine: machine.parts - machine.rejects >= 15 and machine.mode != Mode.IDLE,
        "parts - rejects >= 15 AND mode != 'IDLE'", True, machines(), Machine,
        ("lambda", "arithmetic", "enum", "field-with-field"),
    ),
]  # fmt: skip
