"""Where in a log something is: found by halves, over the headers of segments and of frames."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from activebroker.core.errors import LogUnavailable, NotInLog
from activebroker.events import TypeRegistry
from activebroker.log.committed import Committed, read_committed
from activebroker.log.frames import TYPE
from activebroker.log.records import NOWHERE, Offset
from activebroker.log.segments import Gone, Header, Segment, damage, numbers, path_of, read_header

_TRIES = 100  # while segments are dropped
T = TypeVar("T")


class Span(NamedTuple):
    """The segments of a log that are there at a moment, and how far they are committed."""

    directory: Path
    first: int  # the number of the oldest segment
    committed: Committed

    def header(self, number: int) -> Header:
        return read_header(self.directory, number)

    def end_of(self, segment: Segment) -> int:
        """The byte of a segment up to which it may be read."""
        if segment.header.number == self.committed.segment:
            return self.committed.bytes
        return sealed_end(self.directory, segment.header)


def sealed_end(directory: Path, header: Header) -> int:
    """The size of a segment that was left for another one; raises Gone where that was dropped."""
    return read_header(directory, header.number + 1).bytes_before - header.bytes_before


def committed_of(directory: Path) -> Committed:
    """How far a log is committed."""
    try:
        return read_committed(directory)
    except FileNotFoundError as error:
        raise LogUnavailable(f"There is no log in {directory}: {error}.") from error


def _span(directory: Path) -> Span:
    committed = committed_of(directory)
    present = numbers(directory)
    if committed.segment not in present:
        raise Gone(committed.segment)
    return Span(directory, present[0], committed)


def searched(directory: Path, find: Callable[[Span], T]) -> T:
    """What `find` returns, which is called again where a segment was dropped meanwhile."""
    for _ in range(_TRIES):
        try:
            return find(_span(directory))
        except Gone as gone:
            missing = gone.number
    raise damage(path_of(directory, missing), 0, "the segment is missing")


def place_of(span: Span, position: int | None) -> tuple[Segment, int, int]:
    """The segment with a position, or the first one; the byte of the frame there, or of the records
    without events that come right before; and the position. Raises NotInLog."""
    first = span.header(span.first).position
    if position is None:
        position = first
    if not first <= position <= span.committed.position:
        raise NotInLog(
            f"The log in {span.directory} has the events from position {first} to "
            f"{span.committed.position}, not {position}. Read from one of those.",
            first,
        )
    later = range(span.first + 1, span.committed.segment + 1)
    index = bisect_left(later, position, key=lambda number: span.header(number).position)
    segment = Segment(span.directory, span.first + index)
    try:
        end = span.end_of(segment)
        at = segment.last_before(end, lambda frame: frame.position < position)
        for frame, _ in segment.walk(at, end):
            if position < frame.position + frame.events or position == frame.position:
                return segment, frame.at, position
        return segment, end, position
    except BaseException:
        segment.close()
        raise


def position_since(span: Span, time: int, types: TypeRegistry) -> int:
    """The position of the first event that was published at a time or later."""
    for number in range(span.first, span.committed.segment + 1):
        if number < span.committed.segment and span.header(number + 1).latest < time:
            continue
        with closing(Segment(span.directory, number)) as segment:
            end = span.end_of(segment)
            at = segment.last_before(end, lambda frame: frame.latest < time)
            for frame, payload in segment.walk(at, end):
                if frame.latest >= time:  # for the first time: it is this record that has the event
                    times = segment.batch(frame, payload, types).times
                    return frame.position + int(np.argmax(times >= time))
    return span.committed.position


def position_after(span: Span, offsets: Mapping[str, Offset]) -> int:
    """The position of the first record beyond the offsets of its supplier."""
    dropped = span.header(span.first).offsets

    def goes_beyond(number: int) -> bool:
        """Whether the segments before this one have such a record."""
        for supplier, upto in span.header(number).offsets.items():
            known = max(offsets.get(supplier, NOWHERE), dropped.get(supplier, NOWHERE))
            if upto > known:
                return True
        return False

    later = range(span.first + 1, span.committed.segment + 1)
    index = bisect_left(later, True, key=goes_beyond)
    with closing(Segment(span.directory, span.first + index)) as segment:
        for frame, _ in segment.walk(segment.begin, span.end_of(segment)):
            if frame.kind != TYPE and frame.upto > offsets.get(frame.supplier, NOWHERE):
                return frame.position
    return span.committed.position
