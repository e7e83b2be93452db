"""A base class of filters, as the runtime has one, and a way to see what a filter does."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Event:
    content: Any
    seq: int = 1


class FIFOFilter:
    """Forwards what it gets; `sent` keeps it."""

    def __init__(self) -> None:
        self.sent: list[object] = []

    def enqueue(self, event: object) -> None:
        self.__dict__.setdefault("sent", []).append(event)

    enqueue.__forwards__ = enqueue  # type: ignore[attr-defined]

    def finish(self) -> None:
        """Called at the end of the stream."""


@dataclass
class Behaviour:
    """What a filter did with one event: `changed` itself, `spoiled` the content."""

    sent: list[object] = field(default_factory=list)
    raised: Exception | None = None
    changed: bool = False
    spoiled: bool = False


def run(instance: FIFOFilter, content: object) -> Behaviour:
    """Let the filter have one event, and compare it with itself afterwards."""
    event = Event(content)
    instance.__dict__["sent"] = []
    before, before_content = snapshot(instance), copy.deepcopy(content)
    behaviour = Behaviour()
    try:
        instance.enqueue(event)
    except Exception as error:  # noqa: BLE001 - whatever the filter raises
        behaviour.raised = error
    behaviour.sent = list(instance.__dict__["sent"])
    behaviour.changed = snapshot(instance) != before
    behaviour.spoiled = repr(content) != repr(before_content)
    return behaviour


def snapshot(instance: FIFOFilter) -> str:
    return repr({key: value for key, value in vars(instance).items() if key != "sent"})


def asserts(flight: Any) -> bool:
    """Stands here, because pytest rewrites the assertions of test modules."""
    assert flight.delay
    return flight.carrier == "DL"  # type: ignore[no-any-return]
