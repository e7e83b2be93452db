"""Faults planted into logs, and into how they are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planting_for_tests import Original, Plants

from activebroker.directory.parts import Flow, Made
from activebroker.directory.recovery import Recovery
from activebroker.matching import Chunk
from activebroker.node.dataplane.logged import LogOutlet
from activebroker.node.dataplane.stage import Stage
from activebroker.node.effects import LogRead, LogState, ReadLog
from activebroker.node.logwriter import LogWriter
from activebroker.protocol.flows import StreamEnded
from activebroker.protocol.specs import FlowSpec
from activebroker.simulation.logs import MemoryLog

PLANTS = Plants()


@PLANTS.add("a log acknowledges what is not on disk", MemoryLog, "commit")
def _(original: Original) -> Original:
    return lambda self: None


@PLANTS.add("a log takes again what came after its checkpoint", Stage, "begin_log")
def _(original: Original) -> Original:
    def begin(self: Stage, log: LogState) -> None:
        assert isinstance(self.outlet, LogOutlet)
        self.outlet.begin(log)

    return begin


@PLANTS.add("a log that is opened again begins at the front", LogOutlet, "begin")
def _(original: Original) -> Original:
    return lambda self, log: self.offsets.update(log.offsets)


@PLANTS.add("a log goes on at another broker", Recovery, "candidates")
def _(original: Original) -> Original:
    def candidates(self: Recovery, made: Made, *more: Any) -> list[str]:
        home, made.home = made.home, ""  # type: ignore[misc]
        found: list[str] = original(self, made, *more)
        made.home = home  # type: ignore[misc]
        return found

    return candidates


@PLANTS.add("a late subscriber begins with the second event", LogWriter, "_begin")
def _(original: Original) -> Original:
    return lambda self, start, since: original(self, start, since) + 1


@PLANTS.add("what comes while the log is read is taken for read", LogOutlet, "read")
def _(original: Original) -> Original:
    def read(self: LogOutlet, answer: LogRead) -> None:
        original(self, answer)
        if (name := self.served_by(answer.flow)) is not None:
            self.cursors[name].position = self.position

    return read


@PLANTS.add("what comes overtakes what is read", LogOutlet, "_emit")
def _(original: Original) -> Original:
    def emit(self: LogOutlet, item: Chunk | StreamEnded) -> None:
        for cursor in self.cursors.values():
            if cursor.reading:
                cursor.position, cursor.reading = self.position, False
        original(self, item)

    return emit


@PLANTS.add("a slow subscriber of a log misses what it has no credit for", LogOutlet, "_emit")
def _(original: Original) -> Original:
    def emit(self: LogOutlet, item: Chunk | StreamEnded) -> None:
        live = [each for each in self.cursors.values() if each.position == self.position]
        original(self, item)
        for cursor in live:
            cursor.position = self.position

    return emit


@PLANTS.add("one that resumes gets again what it has", LogOutlet, "open")
def _(original: Original) -> Original:
    def open(self: LogOutlet, spec: FlowSpec, *more: Any) -> None:
        original(self, spec, *more)
        if (subscriber := self.subscribers.get(spec.subscriber)) is not None:
            subscriber.since.clear()

    return open


@PLANTS.add("one that has nothing yet resumes at the end of the log", Flow, "spec")
def _(original: Original) -> Original:
    return lambda self, *given, log=None, **more: original(self, *given, **more)


@PLANTS.add("the end of a stream is not read", LogWriter, "read")
def _(original: Original) -> Original:
    def read(self: LogWriter, asked: ReadLog) -> LogRead:
        answer: LogRead = original(self, asked)
        events = tuple(item for item in answer.items if isinstance(item, Chunk))
        return replace(answer, items=events)

    return read
