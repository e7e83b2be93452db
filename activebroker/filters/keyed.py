"""What a consumer writes whose state is by key: a filter class with an instance for each key.

A stream has a *clock*: the newest time of its events so far, less the filter's `lateness`. Nothing
else moves it, and so what a filter does is a function of its stream, wherever it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

from activebroker.core.errors import InvalidFilter
from activebroker.events import Event
from activebroker.filters.filter import FIFOFilter


class Stream(Protocol):
    """What an instance needs of the stream that it is part of; see `keyed_stream`."""

    late: Callable[[Event], None]

    @property
    def at_hand(self) -> Event: ...
    def set_timer(self, instance: KeyedFilter, at: Any) -> None: ...
    def cancel_timer(self, instance: KeyedFilter, at: Any) -> None: ...
    def awake(self, each: Any) -> KeyedFilter: ...
    def again(self) -> AbstractContextManager[None]: ...


class KeyedFilter(FIFOFilter):
    """A filter with an instance for each key of a supplier's stream, made when the key first comes.

    `enqueue`, `on_start` and `on_end` are those of any filter, for the events of one key. Class
    attributes beside those of `FIFOFilter`; all but `key` are optional:

    `key`
        What tells instances apart: a field of the content, a tuple of fields, or a method
        `key(self, content)`. In an instance, `self.key` is its own key.
    `time`
        The field that holds an event's time: a datetime or a number. None: `event.time`, the time
        of publication in nanoseconds.
    `lateness`
        How far behind the newest time of its stream an event may be. One that is further behind is
        late: `on_late` gets it, and not `enqueue`. None: no event is late.
    `ttl`
        An instance is dropped, with its timers, when the clock has gone on by this much since the
        last event of its key. None: never.
    `max_keys`
        How many instances one stream may have. An event of one more key is lost, and reported.

    `lateness` and `ttl` are seconds; where `time` is a field of numbers, they have its unit.
    """

    key: Any = None
    time: ClassVar[str | None] = None
    lateness: ClassVar[float | None] = None
    ttl: ClassVar[float | None] = None
    max_keys: ClassVar[int] = 1_000_000

    # What its stream keeps of it.
    _keyed_stream: Stream | None = None
    _keyed_number: int  # in the order in which keys came
    _keyed_last: Any  # the newest time of its events
    _keyed_timers: dict[Any, int] | None  # time → number, in the order in which they were set
    _keyed_changed: bool  # since it was last saved
    _not_state = FIFOFilter._not_state | {
        *("key", "_keyed_stream", "_keyed_number", "_keyed_last", "_keyed_timers"),
        "_keyed_changed",
    }

    def enqueue(self, event: Event) -> None:
        """Forward `event` to the derived channel."""
        self._forwarded.append(event)

    enqueue.__forwards__ = enqueue  # type: ignore[attr-defined]

    def forward(self, content: Any) -> None:
        """Forward a new event with this content. Its header is that of the event at hand: the one
        that is filtered, or that has moved the clock on."""
        self._forwarded.append(self._stream_for("forward").at_hand.replace(content))

    def set_timer(self, at: Any) -> None:
        """Have `on_timer(at)` called when the clock has come to `at`, a time as events have them.

        Timers run before the event that moves the clock on to them, in the order of their times,
        then of their setting. One that is past when it is set runs right after the event at hand. A
        key has one timer for a time, however often that is set.
        """
        self._stream_for("set_timer").set_timer(self, at)

    def cancel_timer(self, at: Any) -> None:
        """Take back a timer, if there is one."""
        self._stream_for("cancel_timer").cancel_timer(self, at)

    def on_timer(self, time: Any) -> None:
        """Run when the clock has come to a time that was set; may forward.

        At the end of a stream the timers that are still set run, in the order of their times; those
        that are set meanwhile do not.
        """

    def on_late(self, event: Event) -> None:
        """Run for an event that is late; may forward. As it stands, the event is lost and reported:
        counted in the status, and shown on `channel.errors`."""
        self._stream_for("on_late").late(event)

    def on_expire(self) -> None:
        """Run before the instance is dropped, since its time to live is over; may forward."""

    @classmethod
    def every_event(cls, typed: bool) -> str:
        """Why every event has an effect, whatever `enqueue` does with it; "" if it has none. The
        static analysis asks: where there is a reason, all events have to arrive."""
        if cls.moves_clock():
            return "each event moves its clock on, by which timers run and keys expire"
        if callable(cls.key):
            return "its method key runs on each event"
        return "" if typed else "each event needs a key, and some may have none"

    @classmethod
    def moves_clock(cls) -> bool:
        """Whether anything depends on the clock."""
        hooks = ("on_timer", "on_late")
        return (
            cls.ttl is not None
            or cls.lateness is not None
            or any(getattr(cls, hook) is not getattr(KeyedFilter, hook) for hook in hooks)
        )

    def _stream_for(self, method: str) -> Stream:
        if self._keyed_stream is None:
            raise InvalidFilter(
                f"{type(self).__qualname__} calls {method} before it has a key: call it in "
                "enqueue or in a hook."
            )
        return self._keyed_stream
