"""One stream of a keyed filter: its instances, its clock, and its timers.

Where the stream is divided by key, as on Spark, each part has a stream of its own with the clock of
the whole: what becomes of a key depends on its own events and on the clock at each of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from activebroker.core.errors import InvalidFilter, TooManyKeys
from activebroker.events import Event
from activebroker.filters.asleep import Asleep, Each
from activebroker.filters.filter import refuse_unrun
from activebroker.filters.keyed import KeyedFilter
from activebroker.filters.keyed_saving import Saves
from activebroker.filters.keys import Keys, in_utc

# What is due of an instance; at the same time, timers run before it expires.
TIMER, EXPIRY = 0, 1
STALE = 1000  # timers taken back, from which on it pays to clear them out

# Takes an error, and the event it is about: None in a hook.
Fail = Callable[[BaseException, Event | None], None]


class KeyedStream:
    """The instances of `cls` in one stream; `make` makes one.

    Whoever runs the stream sets `fail`, which takes what an instance raises, and `late`, which
    takes a late event that no instance takes. All instances put what they forward into one list.
    """

    fail: Fail
    late: Callable[[Event], None]

    def __init__(self, cls: type[KeyedFilter], make: Callable[[], KeyedFilter], keys: Keys) -> None:
        self.instances: dict[Hashable, Each] = {}
        self.forwarded: list[Event] = []
        self.stopped = False  # by `fail`: nothing more is run
        self.event: Event | None = None
        self.newest: Any = None
        self._clock: Any = None
        self._cls = cls
        self._make = make
        self._due: list[tuple[Any, int, int, Hashable]] = []  # time, what, number, key
        self._stale = 0  # of these
        self._numbers = 0  # of instances and timers, in the order in which they came
        self._lateness: Any = 0
        self._ttl: Any = None
        self._running: Any = None  # the time of the timer that runs
        self._again = False
        self._saves = Saves(cls, make, keys)

    def take(self) -> list[Event]:
        """What was forwarded since the last call."""
        forwarded = self.forwarded.copy()
        self.forwarded.clear()
        return forwarded

    @property
    def at_hand(self) -> Event:
        """The event that is filtered, or that has moved the clock on."""
        assert self.event is not None
        return self.event

    # -- events --------------------------------------------------------------------------------

    def run(self, events: Sequence[Event], keys: Sequence[Hashable]) -> None:
        """Filter events, where nothing depends on a clock."""
        forwarded, get = self.forwarded, self.instances.get
        kept = len(forwarded)
        for event, key in zip(events, keys, strict=True):
            self.event = event
            try:
                if (each := get(key)) is None:
                    each = self._first(key, None)
                each._keyed_changed = True
                if (returned := each.enqueue(event)) is not None:
                    refuse_unrun(returned)
            except BaseException as error:  # noqa: BLE001 - even SystemExit must not end a broker
                # The event is lost whole: what it forwarded before it raised goes with it.
                del forwarded[kept:]
                self.fail(error, event)
                if self.stopped:
                    break
            kept = len(forwarded)

    def run_timed(
        self,
        events: Sequence[Event],
        keys: Sequence[Hashable],
        times: Sequence[Any],
        newest: Sequence[Any],
    ) -> None:
        """Filter events with their times. `newest` is for each the newest time of the stream, or of
        what the whole stream has had since the last call."""
        forwarded, get, due = self.forwarded, self.instances.get, self._due
        judged, expires = self._cls.lateness is not None, self._cls.ttl is not None
        heard = self._cls.on_late is not KeyedFilter.on_late
        if self.newest is None and events:
            self._measure(newest[0])
        kept, so_far, clock, lateness = len(forwarded), self.newest, self._clock, self._lateness
        for event, key, time, at in zip(events, keys, times, newest, strict=True):
            self.event = event
            if at > so_far:
                self.newest = so_far = at
                self._clock = clock = at - lateness
                if due and due[0][0] <= clock:
                    self._run_due()
                    kept = len(forwarded)
                    if self.stopped:
                        break
            is_late = judged and time < clock
            if is_late and not heard:
                self.late(event)
                continue
            try:
                if (each := get(key)) is None:
                    each = self._first(key, time)
                each._keyed_changed = True
                if expires and each._keyed_last < time:
                    each._keyed_last = time
                if is_late:
                    hear: Callable[[Event], object] = self.awake(each).on_late
                    returned = hear(event)
                else:
                    returned = each.enqueue(event)
                if returned is not None:
                    refuse_unrun(returned)
            except BaseException as error:  # noqa: BLE001 - as above
                del forwarded[kept:]
                self.fail(error, event)
                if self.stopped:
                    break
            if due and due[0][0] <= clock:  # it was past when it was set
                self._run_due()
                if self.stopped:
                    break
            kept = len(forwarded)

    def advance(self, newest: Any) -> None:
        """Move the clock on without an event."""
        if self.newest is None:
            self._measure(newest)
        elif newest > self.newest:
            self.newest, self._clock = newest, newest - self._lateness
            self._run_due()

    def end(self) -> None:
        """The stream is over: run the timers that are still set, then `on_end` of each key."""
        due, self._due = sorted(self._due, key=lambda each: each[:3]), []
        for at, what, number, key in due:
            if what == TIMER and not self.stopped:
                self._run_timer(at, number, key)
        if self._cls.on_end is not KeyedFilter.on_end:
            for each in sorted(self.instances.values(), key=lambda each: each._keyed_number):
                if not self.stopped:
                    self._call("on_end", each)

    # -- instances -----------------------------------------------------------------------------

    def awake(self, each: Each) -> KeyedFilter:
        """The instance of a key; made of its state, if it was not needed before."""
        if not isinstance(each, Asleep):
            return each
        instance = self._place(self._make(), each)
        try:
            if isinstance(each.state, bytes):
                with self.again():
                    instance.restore(each.state)  # which may run on_start
            elif each.state is not None:
                vars(instance).update(each.state)
        except BaseException as error:  # noqa: BLE001 - user code
            self.fail(error, None)
            instance = self._place(self._make(), each)  # the key begins anew
        # Only now, since what on_start forwards again is not for the list of all.
        instance._forwarded = self.forwarded
        self.instances[each.key] = instance
        return instance

    def all_awake(self) -> list[KeyedFilter]:
        """All instances, which the caller may change."""
        found = [self.awake(each) for each in list(self.instances.values())]
        for each in found:
            each._keyed_changed = True
        return found

    def _first(self, key: Hashable, time: Any) -> KeyedFilter:
        """The instance of a key that has come for the first time."""
        if len(self.instances) >= self._cls.max_keys:
            raise TooManyKeys(
                f"{self._cls.__qualname__} has {len(self.instances):,} keys in this stream, and "
                f"{key!r} would be one more. Set ttl, so that keys expire, or raise max_keys."
            )
        instance = self._place(self._make(), Asleep(self, key, self._next(), time))
        instance._forwarded = self.forwarded
        self.instances[key] = instance
        if self._ttl is not None:
            heapq.heappush(self._due, (time + self._ttl, EXPIRY, instance._keyed_number, key))
        if self._cls.on_start is not KeyedFilter.on_start:
            self._call("on_start", instance)
        return instance

    def _place(self, instance: KeyedFilter, of: Asleep) -> KeyedFilter:
        instance.key = of.key
        instance._keyed_stream = self
        instance._keyed_number = of._keyed_number
        instance._keyed_last = of._keyed_last
        instance._keyed_timers = of._keyed_timers
        instance._keyed_changed = of._keyed_changed
        return instance

    # -- time ----------------------------------------------------------------------------------

    @contextmanager
    def again(self) -> Iterator[None]:
        """While on_start runs once more, for what cannot be pickled: its timers have been set."""
        self._again = True
        try:
            yield
        finally:
            self._again = False

    def set_timer(self, instance: KeyedFilter, at: Any) -> None:
        """Have a timer of an instance run at a time."""
        if self._again:
            return
        if self._cls.on_timer is KeyedFilter.on_timer:
            raise InvalidFilter(
                f"{self._cls.__qualname__} sets a timer and has no on_timer(self, time): define it."
            )
        at = in_utc(at)
        try:
            fits = at <= self._clock or at > self._clock  # neither, if it is a NaN
        except TypeError:
            fits = False
        if not fits:
            raise InvalidFilter(
                f"set_timer: expected a time as events have it, such as {self.newest!r}; "
                f"got {at!r}."
            )
        if self._running is not None and at <= self._running:
            raise InvalidFilter(
                f"set_timer: expected a time after {self._running!r}, that of the timer that runs, "
                f"got {at!r}."
            )
        if (timers := instance._keyed_timers) is None:
            timers = instance._keyed_timers = {}
        if at not in timers:
            number = timers[at] = self._next()
            heapq.heappush(self._due, (at, TIMER, number, instance.key))

    def cancel_timer(self, instance: KeyedFilter, at: Any) -> None:
        """Take a timer back, if there is one."""
        timers = instance._keyed_timers
        if timers is not None and not self._again and timers.pop(in_utc(at), None) is not None:
            self._drop_due(1)

    def _measure(self, time: Any) -> None:
        """Begin with a time, and find out how long the filter's spans are in such times."""
        lateness, ttl = self._cls.lateness, self._cls.ttl

        def span(length: float) -> Any:
            if isinstance(time, datetime):
                return timedelta(seconds=length)
            return int(length * 1e9) if self._cls.time is None else length

        self._lateness = span(0 if lateness is None else lateness)
        self._ttl = None if ttl is None else span(ttl)
        self.newest, self._clock = time, time - self._lateness

    def _run_due(self) -> None:
        due = self._due
        while due and due[0][0] <= self._clock and not self.stopped:
            at, what, number, key = heapq.heappop(due)
            if what == TIMER:
                self._run_timer(at, number, key)
                continue
            each = self.instances.get(key)
            if each is None or each._keyed_number != number:
                continue
            if (until := each._keyed_last + self._ttl) > at:  # there were events since
                heapq.heappush(due, (until, EXPIRY, number, key))
            else:
                self._expire(each)

    def _run_timer(self, at: Any, number: int, key: Hashable) -> None:
        each = self.instances.get(key)
        timers = None if each is None else each._keyed_timers
        if each is None or timers is None or timers.get(at) != number:
            self._stale -= 1  # taken back
            return
        del timers[at]
        each._keyed_changed = True
        self._running = at
        self._call("on_timer", each, at)
        self._running = None

    def _expire(self, each: Each) -> None:
        if self._cls.on_expire is not KeyedFilter.on_expire:
            self._call("on_expire", each)
        each = self.instances.pop(each.key)
        self._saves.forget(each.key)
        self._drop_due(len(each._keyed_timers or ()))

    def _drop_due(self, count: int) -> None:
        """So many of those that are due have become stale; they are cleared out once in a while."""
        self._stale += count
        if self._stale > STALE and self._stale > len(self._due) // 2:
            self._due[:] = [each for each in self._due if self._is_live(*each)]
            heapq.heapify(self._due)
            self._stale = 0

    def _is_live(self, at: Any, what: int, number: int, key: Hashable) -> bool:
        if (each := self.instances.get(key)) is None:
            return False
        if what == EXPIRY:
            return each._keyed_number == number
        return (each._keyed_timers or {}).get(at) == number

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    def _call(self, hook: str, each: Each, *args: Any) -> None:
        kept = len(self.forwarded)
        try:
            if (returned := getattr(self.awake(each), hook)(*args)) is not None:
                refuse_unrun(returned)
        except BaseException as error:  # noqa: BLE001 - user code
            del self.forwarded[kept:]
            self.fail(error, None)

    # -- moves and checkpoints -----------------------------------------------------------------

    def snapshot(self) -> bytes:
        """All that the stream needs to go on elsewhere. Raises FilterNotPicklable."""
        event = self.event.replace(None) if self.event is not None else None
        return self._saves.save((self.newest, self._numbers, event), self.instances)

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; each instance is made when it is needed."""
        (newest, self._numbers, self.event), rows = self._saves.load(snapshot)
        if newest is not None:
            self._measure(newest)
        for key, (_, number, last, timers, state) in rows:
            each = self.instances[key] = Asleep(self, key, number, last)
            each._keyed_timers, each.state = timers, state
            self._due += [(at, TIMER, set_as, key) for at, set_as in (timers or {}).items()]
            if self._ttl is not None:
                self._due.append((last + self._ttl, EXPIRY, number, key))
        heapq.heapify(self._due)
