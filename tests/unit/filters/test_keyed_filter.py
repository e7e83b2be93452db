"""Keyed filters beyond the model: kinds of keys and times, what is refused, what is lost, and what
becomes of instances in snapshots."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest
from keyed_for_tests import KEY, batch, keyed, told

from activebroker.core.errors import FilterNotPicklable, InvalidFilter, UnknownField
from activebroker.events import ANY, Event, EventType, Shape, Zone, encode
from activebroker.filters import FilterSpec, KeyedFilter, KeyedRunner, analyse, make_runner, pack
from activebroker.filters import unpack as unpacked
from predicate_extract import TRUE, Extraction

NEW_YORK = ZoneInfo("America/New_York")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Reading:
    name: str | None = "a"
    number: float = 0.0
    colour: Colour | None = Colour.RED
    at: Annotated[datetime, Zone("America/New_York")] = datetime(2024, 1, 1, tzinfo=NEW_YORK)
    seconds: float | None = 0.0


@dataclass(frozen=True)
class Listed:
    name: str
    many: list[int]
    shape: Annotated[np.ndarray, Shape(2)]


@dataclass(frozen=True)
class Count:
    key: str
    seen: int


class Counting(KeyedFilter):
    """Tells its key and how many events it has seen, at each."""

    key = "name"
    output = Count

    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        self.seen += 1
        self.forward(Count(repr(self.key), self.seen))


def counts(results: list[Any]) -> list[tuple[str, int]]:
    return [(each.key, each.seen) for each in results]


def counted(filter: Any, *contents: Any) -> list[tuple[str, int]]:
    return counts(told(keyed(filter, Reading).run([batch(contents)])))


# --- keys -------------------------------------------------------------------------------------


def by(key: Any) -> type[Counting]:
    return type("By", (Counting,), {"key": key})


def test_none_is_a_key_and_so_is_an_empty_text() -> None:
    found = counted(Counting, Reading(None), Reading(""), Reading(None))
    assert found == [("None", 1), ("''", 1), ("None", 2)]


def test_all_nans_are_one_key_and_zeros_too() -> None:
    numbers = (math.nan, -0.0, float("nan"), 0.0)
    found = counted(by("number"), *(Reading(number=number) for number in numbers))
    assert [seen for _, seen in found] == [1, 1, 2, 2]
    pairs = by(("name", "number"))
    found = counted(pairs, *(Reading(number=number) for number in numbers))
    assert found == [("('a', nan)", 1), ("('a', -0.0)", 1), ("('a', nan)", 2), ("('a', -0.0)", 2)]


class Floored(Counting):
    def key(self, content: Any) -> Any:
        return np.float64(content.number) if not content.number >= 100 else [content.number]


def test_a_method_may_make_the_key_and_what_cannot_be_one_is_lost() -> None:
    runner = keyed(Floored, Reading)
    numbers = (1.0, math.nan, 100.0, 1.0, math.nan)
    result = runner.run([batch([Reading(number=number) for number in numbers])])
    assert [each.seen for each in told(result)] == [1, 1, 2, 2]
    (failure,) = result.failures
    assert failure.seq == 2 and "The key of Floored is a list" in failure.error


class FlooredOrStopped(Floored):
    on_error = "stop"


def test_what_comes_before_such_an_event_is_filtered_before_it_stops_the_channel() -> None:
    runner = keyed(FlooredOrStopped, Reading)
    numbers = (1.0, 2.0, 100.0, 1.0, 200.0)
    result = runner.run([batch([Reading(number=number) for number in numbers])])
    assert [each.seen for each in told(result)] == [1, 1]
    assert result.stopped and [failure.seq for failure in result.failures] == [2]


@pytest.mark.parametrize("key", ["colour", ("name", "colour"), "at", ("seconds",)])
def test_keys_of_any_kind_move(key: Any) -> None:
    rows = [
        Reading("a", 0.0, colour, datetime(2024, 1, 1 + day, tzinfo=NEW_YORK), second)
        for day, (colour, second) in enumerate([(Colour.RED, 1.0), (None, math.nan)])
    ]
    first, second = keyed(by(key), Reading), keyed(by(key), Reading)
    began = counts(told(first.run([batch(rows)])))
    second.restore(first.snapshot())
    assert counts(told(second.run([batch(rows)]))) == [(key, seen + 1) for key, seen in began]


def test_on_an_untyped_channel_what_has_no_key_is_lost() -> None:
    spec = FilterSpec.of(Counting)
    envelope = pack(spec, ANY, analyse(spec, ANY), key=KEY)
    runner = make_runner(unpacked(envelope, KEY), envelope, "derived")
    result = runner.run([encode(ANY, [Reading("a"), 5, Reading("a")], "s", 0, 0)])
    assert counts(told(result)) == [("'a'", 1), ("'a'", 2)]
    assert [failure.seq for failure in result.failures] == [1]


class Few(Counting):
    max_keys = 2


def test_one_key_too_many_is_lost_with_its_events() -> None:
    runner = keyed(Few, Reading)
    result = runner.run([batch([Reading(name) for name in ("a", "b", "c", "a", "c")])])
    assert counts(told(result)) == [("'a'", 1), ("'b'", 1), ("'a'", 2)]
    assert [failure.seq for failure in result.failures] == [2, 4]
    assert "raise max_keys" in result.failures[0].error and result.keys == 2


class OfAll(Counting):
    shared = True


def test_keys_are_by_supplier_unless_the_filter_is_shared() -> None:
    batches = [batch([Reading("a")], supplier) for supplier in ("one", "two")]
    assert counts(told(keyed(Counting, Reading).run(batches))) == [("'a'", 1), ("'a'", 1)]
    assert counts(told(keyed(OfAll, Reading).run(batches))) == [("'a'", 1), ("'a'", 2)]


# --- times ------------------------------------------------------------------------------------


class Waking(Counting):
    """Tells when a timer runs that it has set for `after` later."""

    time = "at"
    after: Any = timedelta(minutes=10)

    def enqueue(self, event: Event) -> None:
        self.set_timer(self.time_of(event) + self.after)

    def time_of(self, event: Event) -> Any:
        return event.content.at.astimezone(UTC)

    def on_timer(self, time: Any) -> None:
        self.forward(Count(str(time), self.seen))


def test_an_hour_that_comes_twice_is_two() -> None:
    first, again = (datetime(2024, 11, 3, 1, 30, fold=fold, tzinfo=NEW_YORK) for fold in (0, 1))
    between = datetime(2024, 11, 3, 1, 45, tzinfo=NEW_YORK)
    runner = keyed(Waking, Reading)
    result = runner.run([batch([Reading(at=at) for at in (first, between, again)])])
    # 1:40 before `between`, and 1:55 before 1:30, which is an hour later.
    expected = ["2024-11-03 05:40:00+00:00", "2024-11-03 05:55:00+00:00"]
    assert [each.key for each in told(result)] == expected


class ByPublication(Waking):
    time = None
    after = 2_000_000
    lateness = 0.001

    def time_of(self, event: Event) -> int:
        return event.time


def test_without_a_field_it_is_the_time_of_publication() -> None:
    runner = keyed(ByPublication, Reading)
    result = runner.run([batch([Reading()] * 6)])  # one in each millisecond
    assert [(each.key, each.seen) for each in told(result)] == [
        ("2000000", 0),
        ("3000000", 0),
        ("4000000", 0),
    ]
    forwarded = result.batches[0].events()[0]
    assert (forwarded.seq, forwarded.time) == (3, 3_000_000)  # of the event that came by then


class Seconds(Waking):
    time = "seconds"
    after = 1.0

    def time_of(self, event: Event) -> Any:
        return event.content.seconds


def test_an_event_without_a_time_is_lost_and_moves_no_clock() -> None:
    runner = keyed(Seconds, Reading)
    seconds = (1.0, None, math.nan, 5.0)
    result = runner.run([batch([Reading(seconds=each) for each in seconds])])
    assert [each.key for each in told(result)] == ["2.0"]
    assert [failure.seq for failure in result.failures] == [1, 2]
    assert "no time that Seconds could go by" in result.failures[0].error


class Strict(Counting):
    time = "seconds"
    lateness = 1.0
    on_error = "stop"


class Lenient(Strict):
    def on_late(self, event: Event) -> None:
        self.forward(Count("late", event.seq))


class Silent(Strict):
    def on_late(self, event: Event) -> None:
        pass


def test_late_events_are_counted_and_stop_nothing() -> None:
    rows = [Reading(seconds=100.0), *(Reading(seconds=float(each)) for each in range(90, 103))]
    result = keyed(Strict, Reading).run([batch(rows)])
    assert (result.late, len(result.late_samples), result.failures) == (9, 9, [])
    assert not result.stopped and len(told(result)) == 5
    sample = result.late_samples[0]
    assert (sample.supplier, sample.seq) == ("JFK", 1) and "LateEvent" in sample.error
    assert "seconds=90.0" in sample.content
    many = keyed(Strict, Reading).run([batch([rows[0], *rows[1:2] * 100])])
    assert (many.late, len(many.late_samples)) == (100, 10)
    silent = keyed(Silent, Reading).run([batch(rows)])
    assert (silent.late, silent.late_samples, len(told(silent))) == (0, [], 5)
    lenient = keyed(Lenient, Reading).run([batch(rows)])
    assert [each.seen for each in told(lenient) if each.key == "late"] == list(range(1, 10))


class Setting(Waking):
    """Sets a timer for what `number` tells."""

    time = "seconds"

    def enqueue(self, event: Event) -> None:
        self.set_timer([None, "soon", math.nan, 3.0, 3.0][int(event.content.number)])

    def on_timer(self, time: float) -> None:
        self.set_timer(time)


def test_timers_are_times_as_events_have_them() -> None:
    rows = [Reading(number=float(number), seconds=1.0) for number in range(5)]
    result = keyed(Setting, Reading).run([batch([*rows, Reading(number=3.0, seconds=9.0)])])
    errors = [failure.error for failure in result.failures]
    assert all("expected a time as events have it, such as 1.0" in error for error in errors[:3])
    assert "expected a time after 3.0" in errors[3] and "expected a time after 3.0" in errors[4]
    assert [failure.seq for failure in result.failures] == [0, 1, 2, -1, -1]


class Deaf(Counting):
    time = "seconds"
    ttl = 1.0

    def enqueue(self, event: Event) -> None:
        self.set_timer(5.0)


class Early(Deaf):
    def __init__(self) -> None:
        self.set_timer(5.0)


@pytest.mark.parametrize(
    ("filter", "says"), [(Deaf, "has no on_timer"), (Early, "before it has a key")]
)
def test_timers_that_can_come_to_nothing(filter: Any, says: str) -> None:
    (failure,) = keyed(filter, Reading).run([batch([Reading()])]).failures
    assert says in failure.error


# --- what is refused --------------------------------------------------------------------------


def on_idle(self: KeyedFilter) -> None: ...


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"key": None}, "By.key is a field"),
        ({"key": ()}, "By.key is a field"),
        ({"key": ("name", 1)}, "By.key is a field"),
        ({"key": "many"}, "let a method key make one"),
        ({"key": "shape"}, "let a method key make one"),
        ({"key": lambda self: "a"}, "cannot be called with"),
        ({"time": "name"}, "expected a datetime, an int or a float"),
        ({"time": 5}, "None or the name of a field"),
        ({"ttl": 0}, "above 0"),
        ({"ttl": True}, "above 0"),
        ({"lateness": -1}, "0 or more"),
        ({"lateness": math.nan}, "0 or more"),
        ({"max_keys": 0}, "1 or more"),
        ({"idle_after": 1.0}, "a keyed filter goes by the time of events"),
        ({"on_idle": on_idle}, "a keyed filter goes by the time of events"),
        ({"parameters": ("ttl",)}, "which the class alone says"),
        ({"on_timer": lambda self: None}, "cannot be called with"),
    ],
)
def test_what_cannot_work_is_refused(members: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidFilter, match=says):
        keyed(type("By", (Counting,), members), Listed)


@pytest.mark.parametrize("members", [{"key": "nam"}, {"time": "nam"}])
def test_so_are_fields_that_are_not_there(members: dict[str, Any]) -> None:
    with pytest.raises(UnknownField, match="Did you mean 'name'"):
        keyed(type("By", (Counting,), members), Listed)


# --- what has to arrive -----------------------------------------------------------------------


class Delayed(KeyedFilter):
    key = "name"

    def __init__(self, least: float = 60.0) -> None:
        self.least = least
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        if event.content.number > self.least:
            self.seen += 1
            super().enqueue(event)


def hook(self: Any, _given: Any) -> None: ...


def analysed(members: dict[str, Any], type_: EventType | None = None) -> Extraction:
    spec = FilterSpec.of(type("Delayed", (Delayed,), members))
    return analyse(spec, type_ or EventType.of(Reading))


def test_without_a_clock_it_is_what_enqueue_wants() -> None:
    for members in ({}, {"time": "seconds"}, {"on_end": on_idle}, {"max_keys": 5}):
        found = analysed(members)
        assert str(found.predicate) == "number > 60.0"
        assert found.stateful and not found.exact


@pytest.mark.parametrize(
    "members",
    [{"ttl": 1.0}, {"lateness": 0}, {"on_timer": hook}, {"on_late": hook}, {"key": hook}],
)
def test_where_each_event_has_an_effect_each_has_to_arrive(members: dict[str, Any]) -> None:
    found = analysed(members)
    assert found.predicate == TRUE and found.stateful and not found.exact
    (reason,) = found.reasons
    assert reason.kind == "every-event" and "derive a condition first" in reason.hint
    ignored = analysed({**members, "effects": "ignore"})
    assert str(ignored.predicate) == "number > 60.0" and ignored.stateful


def test_on_an_untyped_channel_any_event_may_have_no_key() -> None:
    assert analysed({}, ANY).predicate == TRUE


# --- snapshots --------------------------------------------------------------------------------


def parts(runner: KeyedRunner) -> list[bytes]:
    found: list[bytes] = msgspec.msgpack.decode(runner.snapshot()["JFK"])[1:]
    return found


def test_a_snapshot_pickles_what_has_changed() -> None:
    runner = keyed(Counting, Reading)
    runner.run([batch([Reading(str(number)) for number in range(5000)])])
    (whole,) = parts(runner)
    assert parts(runner) == [whole]
    runner.run([batch([Reading("7")])])
    again, changed = parts(runner)
    assert again is not whole and again == whole and len(changed) < len(whole) / 100
    other = keyed(Counting, Reading)
    other.restore(runner.snapshot())
    assert parts(other) == [whole, changed]
    assert counts(told(other.run([batch([Reading("7"), Reading("8")])]))) == [
        ("'7'", 3),
        ("'8'", 2),
    ]
    for number in range(200):
        runner.run([batch([Reading(str(number % 3))])])
        assert len(parts(runner)) <= 64
    runner.run([batch([Reading(str(number)) for number in range(5000)] * 2)])
    runner.snapshot()
    runner.run([batch([Reading(str(number)) for number in range(5000)])])
    assert len(parts(runner)) == 1  # else it would hold each key three times


class Expiring(Counting):
    time = "seconds"
    ttl = 10.0


def test_a_key_that_has_gone_stays_gone() -> None:
    runner, other = keyed(Expiring, Reading), keyed(Expiring, Reading)
    runner.run([batch([Reading("a", seconds=0.0), Reading("b", seconds=8.0)])])
    runner.snapshot()
    runner.run([batch([Reading("c", seconds=12.0)])])
    other.restore(runner.snapshot())
    result = other.run([batch([Reading("a", seconds=12.0), Reading("b", seconds=12.0)])])
    assert counts(told(result)) == [("'a'", 1), ("'b'", 2)] and result.keys == 3


class Locked(Waking):
    """Has what cannot be pickled, made in on_start, where it sets a timer too."""

    time = "seconds"

    def on_start(self) -> None:
        self.lock = threading.Lock()
        self.set_timer(5.0)

    def enqueue(self, event: Event) -> None:
        with self.lock:
            self.seen += 1


def test_what_cannot_be_pickled_is_made_anew_and_nothing_else() -> None:
    runner, other = keyed(Locked, Reading), keyed(Locked, Reading)
    runner.run([batch([Reading("a"), Reading("b")])])
    runner.run([batch([Reading("c", seconds=6.0)])])  # the timers of a and b have run
    other.restore(runner.snapshot())
    result = other.run([batch([Reading("a", seconds=6.0)]), "JFK"])
    assert (told(result), result.failures) == ([], [])


class Stuck(Counting):
    def enqueue(self, event: Event) -> None:
        self.lock = threading.Lock()


def test_else_the_snapshot_says_what_to_do() -> None:
    runner = keyed(Stuck, Reading)
    runner.run([batch([Reading("a")])])
    with pytest.raises(FilterNotPicklable, match="lock"):
        runner.snapshot()


class Terse(Counting):
    def snapshot(self) -> bytes:
        return str(self.seen).encode()

    def restore(self, state: bytes) -> None:
        self.seen = int(state) + (1 // (int(state) - 2))  # of 2, nothing can be made


def test_a_class_may_have_a_snapshot_of_its_own() -> None:
    runner, other = keyed(Terse, Reading), keyed(Terse, Reading)
    runner.run([batch([Reading("a")] * 4 + [Reading("b")] * 2)])
    other.restore(runner.snapshot())
    result = other.run([batch([Reading("a"), Reading("b")])])
    assert counts(told(result)) == [("'a'", 5), ("'b'", 1)]
    (failure,) = result.failures
    assert "ZeroDivisionError" in failure.error and failure.seq == -1


# --- other parameters -------------------------------------------------------------------------


class Above(Counting):
    parameters = ("least",)

    def __init__(self, least: float) -> None:
        super().__init__()
        self.least = least

    def enqueue(self, event: Event) -> None:
        if event.content.number > self.least:
            self.seen += 1
            self.forward(Count(repr(self.key), self.seen))


def test_all_instances_get_other_parameters() -> None:
    def packed(spec: FilterSpec) -> Any:
        return pack(spec, EventType.of(Reading), analyse(spec, EventType.of(Reading)), key=KEY)

    rows = [Reading(name, number=5.0) for name in ("a", "b")]
    first, runner = keyed((Above, 0.0), Reading), keyed((Above, 0.0), Reading)
    first.run([batch(rows)])
    runner.restore(first.snapshot())
    runner.run([batch(rows[:1])])  # one of them has been needed since
    changed = packed(FilterSpec.of((Above, 0.0)).reconfigured({"least": 10.0}))
    runner.reconfigure(unpacked(changed, KEY), changed)
    third = make_runner(unpacked(changed, KEY), changed, "derived")
    third.restore(runner.snapshot())
    for each in (runner, third):
        more = [*rows, Reading("c", number=5.0), Reading("b", number=11.0)]
        assert counts(told(each.run([batch(more)]))) == [("'b'", 2)]
        assert counts(told(each.run([batch([Reading("b", number=11.0)])]))) == [("'b'", 3)]
