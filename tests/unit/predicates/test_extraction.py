"""Filters and functions with the predicate that a reader would write for them."""

from __future__ import annotations

import builtins
import functools
import os
from datetime import date
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from filters_for_tests import Event, FIFOFilter, asserts

from predicate_extract import FieldUse, NotAFilter, extract

LIMIT = 60
CARRIERS = frozenset({"DL", "AA"})
WATCHED = {"JFK", "EWR"}
GROWING = {"JFK"}
GROWING.add("LGA")
MODE = "strict"
MODE = "lax"
NEW_YEAR = date(2013, 1, 1)


def unknown(value: Any) -> bool:
    return bool(value)


class MySubscription(FIFOFilter):
    def enqueue(self, event):
        s = event.content
        if s.name == "IBM":  # noqa: SIM114
            super().enqueue(event)
        elif s.price > 100:
            super().enqueue(event)


def test_the_example_of_the_paper():
    found = extract(MySubscription)
    assert str(found.predicate) == "name = 'IBM' OR price > 100"
    assert found.exact
    assert not found.stateful
    assert found.reasons == ()
    assert found.fields[0] == FieldUse(("name",), found.first_line + 2)
    assert found.source.startswith("    def enqueue")
    assert found.filename == __file__


FUNCTIONS = [
    (lambda f: f.dep_delay > 60, "dep_delay > 60", True),
    (lambda f: f.x > LIMIT and f.carrier in CARRIERS, "x > 60 AND carrier IN {'AA', 'DL'}", True),
    (lambda f: 0 < f.x < 10, "x > 0 AND x < 10", True),
    (lambda f: not 0 < f.x < 10, "NOT x > 0 OR NOT x < 10", True),
    (lambda f: not (f.x == 1 or f.y), "x != 1 AND NOT y", True),
    (lambda f: f.origin in WATCHED, "origin IN {'EWR', 'JFK'}", True),
    (lambda f: f.origin not in ("a", "b", None), "origin NOT IN ('a', 'b', NULL)", True),
    (lambda f: f.x is None or f.x is not None, "DEFINED(x)", True),
    (lambda f: f.day >= NEW_YEAR, "day >= DATE '2013-01-01'", True),
    (lambda c: c["a"]["b"] == 1, "content['a']['b'] = 1", True),
    (lambda f: f.route.origin == "JFK", "route.origin = 'JFK'", True),
    (lambda f: f.x > -(2 * 30) + 0.5, "x > -59.5", True),
    (lambda f: f.x > f.y, "x > y", True),
    (lambda f: f.a if f.b else f.c, "b AND a OR NOT b AND c", True),
    (lambda f, limit=5: f.x > limit, "x > 5", True),
    (lambda f: LIMIT > 3 and f.x == 1, "x = 1", True),
    (lambda f: True, "TRUE", True),
    (lambda f: None, "FALSE", True),
    (lambda x: x > 3, "content > 3", True),
    (lambda f: f.a and print(f) and f.b, "a", False),
    (lambda f: print(f) and f.a, "TRUE", False),
    (lambda f: f.a or print(f), "TRUE", False),
    (lambda f: not (f.a or print(f)), "NOT a", False),
    (lambda f: not (f.a or unknown(f)), "NOT a AND NOT content", True),
    (lambda f: f.a > 1 and f.b + f.c > 3, "a > 1 AND b + c > 3", True),
    (lambda f: f.origin in GROWING, "TRUE", False),
    (lambda f: f.mode == MODE, "TRUE", False),
    (lambda f: (x := f.a) and x, "a", True),
    (lambda f: any(f.tags), "any(tags)", True),
    (lambda f: f.name.startswith("a") and f.b, "startswith(name, 'a') AND b", True),
    (lambda f: f.x is True, "isinstance(x, 'bool') AND x = TRUE", True),
]  # fmt: skip


@pytest.mark.parametrize(("function", "text", "exact"), FUNCTIONS)
def test_functions(function, text, exact):
    found = extract(function)
    assert (str(found.predicate), found.exact) == (text, exact)
    assert found.exact == (not found.reasons)


def early_return(flight):
    if flight.delay is None:
        return False
    if flight.carrier != "DL":
        return None
    late = flight.delay > 60
    return late


def guard_clauses(flight):
    carrier, delay = flight.carrier, flight.delay
    if carrier == "DL" and delay > 60:
        return True
    elif carrier == "AA":
        return delay > 90
    return False


def raises(flight):
    if flight.carrier == "DL":
        raise ValueError(flight)
    return flight.delay > 60


def loops(flight):
    if flight.carrier != "DL":
        return False
    return any(leg > 5 for leg in flight.legs)


def unused_reading(flight):
    price = flight.price
    if flight.name == "IBM":
        return False
    return price > 100


def never_true(flight):
    if flight.price > 100:
        return False


def tells(flight):
    if flight.name == "IBM":
        flight.seen = True
    return flight.price > 100


def long_chain(flight):
    a = flight.a > 1
    b = flight.b > 2
    return a and b


@pytest.mark.parametrize(
    ("function", "text", "exact"),
    [
        (early_return, "delay IS NOT NULL AND carrier = 'DL' AND delay > 60", True),
        (
            guard_clauses,
            "carrier = 'DL' AND delay > 60 OR NOT (carrier = 'DL' AND delay > 60) AND …",
            True,
        ),
        (asserts, "NOT delay OR carrier = 'DL'", False),
        (raises, "carrier = 'DL' OR delay > 60", False),
        (loops, "carrier = 'DL'", False),
        (unused_reading, "DEFINED(price) AND name != 'IBM' AND price > 100", True),
        (never_true, "DEFINED(price > 100) AND FALSE", True),
        (tells, "name = 'IBM' OR price > 100", False),
        (long_chain, "DEFINED(b > 2) AND a > 1 AND b > 2", True),
    ],
)
def test_function_bodies(function, text, exact):
    found = extract(function)
    if not text.endswith("…"):
        assert str(found.predicate) == text
    assert found.exact == exact


@pytest.mark.parametrize("function", [guard_clauses, early_return, unused_reading, never_true])
def test_exact_functions_agree_with_their_predicate(function):
    predicate = extract(function).predicate
    for carrier in ("DL", "AA", "UA"):
        for delay in (None, 10, 61, 91, "x"):
            content = SimpleNamespace(carrier=carrier, delay=delay, name=carrier, price=delay)
            try:
                expected = bool(function(content))
            except TypeError:
                expected = None
            assert predicate.evaluate(content) is expected


def test_a_missing_field_is_an_error_that_must_arrive():
    predicate = extract(unused_reading).predicate
    assert predicate.evaluate(SimpleNamespace(name="IBM")) is None
    assert predicate.evaluate(SimpleNamespace(name="IBM", price=1)) is False


class AtLeast(FIFOFilter):
    BONUS = 5

    def __init__(self, limit, names=("IBM",)):
        super().__init__()
        self.limit = limit
        self.names = frozenset(names)

    def enqueue(self, event):
        s = event.content
        if s.price >= self.limit and s.name in self.names and s.bonus != self.BONUS:
            return super().enqueue(event)


class Counting(FIFOFilter):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def enqueue(self, event):
        if event.content.name != "IBM":
            return
        self.seen += 1
        if self.seen > 3:
            super().enqueue(event)


class CountingFirst(Counting):
    def enqueue(self, event):
        self.seen += 1
        if event.content.name == "IBM":
            super().enqueue(event)


class Narrower(MySubscription):
    def enqueue(self, event):
        if event.content.open:
            super().enqueue(event)


class Transforming(FIFOFilter):
    def enqueue(self, event):
        if event.content.open:
            super().enqueue(Event(event.content.price))


class Twice(FIFOFilter):
    def enqueue(self, event):
        if event.content.open:
            super().enqueue(event)
            super().enqueue(event)


class WithHook(MySubscription):
    def finish(self):
        pass


class Leaking(AtLeast):
    def __init__(self, limit):
        super().__init__(limit)
        unknown(self)


class Adjustable(AtLeast):
    def adjust(self, limit):
        self.limit = limit


class Timed(FIFOFilter):
    def __init__(self):
        super().__init__()
        self.limit = unknown(3)

    def enqueue(self, event):
        if event.content.price > self.limit:
            super().enqueue(event)


class Dynamic(MySubscription):
    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


class Generator(FIFOFilter):
    def enqueue(self, event):
        yield super().enqueue(event)


class Silent(FIFOFilter):
    def enqueue(self, event):
        event = Event(event.content)
        if event.content.open:
            super().enqueue(event)


class Mixin:
    def adjust(self, limit):
        self.limit = limit


class Mixed(AtLeast, Mixin):
    pass


class Defaulted(FIFOFilter):
    def __init__(self, limit=unknown(3)):  # noqa: B008
        super().__init__()
        self.limit = limit

    def enqueue(self, event):
        if event.content.price > self.limit:
            super().enqueue(event)


class Clashing(FIFOFilter):
    def __init__(self, sent):
        super().__init__()
        self.sent = sent

    def enqueue(self, event):
        if event.content.price > self.sent:
            super().enqueue(event)


FILTERS = [
    (Mixed, (3,), "TRUE", False, True),
    (Defaulted, (), "TRUE", False, False),
    (Clashing, (3,), "TRUE", False, False),
    (AtLeast, (100,), "price >= 100 AND name IN {'IBM'} AND bonus != 5", True, False),
    (AtLeast(3, "ab"), (), "price >= 3 AND name IN {'a', 'b'} AND bonus != 5", True, False),
    (AtLeast, (), "TRUE", False, False),
    (Counting, (), "name = 'IBM'", False, True),
    (CountingFirst, (), "TRUE", False, True),
    (Narrower, (), "open AND (name = 'IBM' OR price > 100)", True, False),
    (Transforming, (), "open", False, False),
    (Twice, (), "open", False, False),
    (WithHook, (), "name = 'IBM' OR price > 100", False, False),
    (Leaking, (3,), "TRUE", False, True),
    (Adjustable, (3,), "TRUE", False, True),
    (Timed, (), "TRUE", False, False),
    (Timed(), (), "price > TRUE", True, False),
    (Dynamic, (), "TRUE", False, True),
    (Generator, (), "TRUE", False, True),
    (Silent, (), "TRUE", False, False),
    (FIFOFilter, (), "TRUE", True, False),
]


@pytest.mark.parametrize(("target", "args", "text", "exact", "stateful"), FILTERS)
def test_filters(target, args, text, exact, stateful):
    found = extract(target, *args)
    assert (str(found.predicate), found.exact, found.stateful) == (text, exact, stateful)
    assert found.exact == (not found.reasons)


class Watched(FIFOFilter):
    effects = "ignore"

    def __init__(self):
        super().__init__()
        self.seen = 0
        self.last = {}

    def enqueue(self, event):
        s = event.content
        self.seen += 1
        print(s.name)
        if os.getpid() and s.price > 100:
            self.last[s.name] = s.price
            super().enqueue(event)


def test_effects_can_be_ignored():
    found = extract(Watched)
    assert (str(found.predicate), found.exact) == ("price > 100", False)
    kept = type("Kept", (Watched,), {"effects": "keep"})
    assert str(extract(kept).predicate) == "TRUE"


class Bounded(FIFOFilter):
    names = ("IBM",)

    def __init__(self, limit=100):
        super().__init__()
        self.limit = limit

    def enqueue(self, event):
        if event.content.price > self.limit and event.content.name in self.names:
            super().enqueue(event)


@pytest.mark.parametrize("target", [(Bounded,), (Bounded, 7), (Bounded(7),)])
@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"limit": 5, "names": ("A", "B")}, "price > 5 AND name IN ('A', 'B')"),
        ({"limit": 5, "names": ["A", "B"]}, "price > 5 AND name IN ('A', 'B')"),
        ({"limit": 5, "names": {"A"}}, "price > 5 AND name IN {'A'}"),
    ],
)
def test_values_that_are_set_later_take_the_place_of_the_first_ones(target, values, text):
    assert str(extract(*target, parameters=values).predicate) == text


def test_what_methods_change_is_no_constant_though_it_is_set_later():
    class Changing(FIFOFilter):
        def __init__(self):
            super().__init__()
            self.limit = 0

        def enqueue(self, event):
            if event.content.price > self.limit:
                self.limit = event.content.price
                super().enqueue(event)

    found = extract(Changing, parameters={"limit": 5})
    assert (str(found.predicate), found.exact) == ("TRUE", False)


@pytest.mark.parametrize("name", ["print", "len"])
def test_a_builtin_that_this_process_has_replaced_is_not_followed(monkeypatch, name):
    real = getattr(builtins, name)
    monkeypatch.setattr(builtins, name, lambda *args: real(*args))
    found = extract(Watched)
    assert (str(found.predicate), found.exact) == ("price > 100", False)
    assert str(extract(lambda s: s.price > 0 and len(s.name) > 3).predicate) == (
        "price > 0" if name == "len" else "price > 0 AND len(name) > 3"
    )


def test_a_reason_points_at_its_line():
    found = extract(Counting)
    (reason,) = found.reasons
    assert reason.kind == "changes-state"
    assert reason.code == "self.seen += 1"
    assert reason.line == found.first_line + 3
    assert "guard" in reason.hint


def test_guarded_reads_are_told_apart():
    def rule(flight):
        if hasattr(flight, "gate") and flight.gate == "A":
            return True
        try:
            return flight.pilot == "B" or flight.name.upper() == "C"
        except AttributeError:
            return getattr(flight, "crew", None) or flight.route.origin

    uses = {use.path: use.guarded for use in extract(rule).fields}
    assert uses == {
        ("gate",): True,
        ("pilot",): True,
        ("name",): True,
        ("crew",): True,
        ("route", "origin"): False,
    }


SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("price", pa.float64(), nullable=False),
        pa.field("maybe", pa.float64()),
    ]
)


@pytest.mark.parametrize(
    ("function", "text", "exact"),
    [
        (lambda f: f.price > 1, "price > 1", True),
        (lambda f: f.total > 1, "TRUE", False),
        (lambda f: f.name == "a" and f.name.first == 1, "name = 'a'", False),
        (lambda f: f is not None and f.price > 1, "price > 1", True),
        (lambda f: f and f.price > 1, "TRUE", False),
    ],
)
def test_with_a_schema_only_its_fields_are_plain(function, text, exact):
    found = extract(function, schema=SCHEMA)
    assert (str(found.predicate), found.exact) == (text, exact)


def test_with_a_schema_what_cannot_raise_is_not_checked():
    assert (
        extract(unused_reading, schema=SCHEMA).predicate
        == extract(lambda f: f.name != "IBM" and f.price > 100).predicate
    )


@pytest.mark.parametrize("target", [3, "text", object(), int, type("NoFilter", (), {})])
def test_what_is_no_filter_is_refused(target):
    with pytest.raises(NotAFilter):
        extract(target)


def test_only_a_class_takes_arguments():
    for target in (early_return, AtLeast(3)):
        with pytest.raises(NotAFilter, match="constructor arguments"):
            extract(target, 3)


@pytest.mark.parametrize("target", [functools.partial(len), len, AtLeast(3).enqueue])
def test_other_callables_keep_everything(target):
    found = extract(target)
    assert (str(found.predicate), found.exact, found.stateful) == ("TRUE", False, True)


def test_deep_and_long_code_weakens_and_never_fails():
    from programs_for_tests import HEADER
    from test_filter_fuzz import load

    many = "".join(f"        if s.a{n} == 1:\n            v{n} = {n}\n" for n in range(60))
    body = f"        s = event.content\n{many}        if v0 == 0: super().enqueue(event)\n"
    long = HEADER + "class Filter(FIFOFilter):\n    def enqueue(self, event):\n" + body
    assert extract(load(long)["Filter"]).reasons[-1].kind == "too-many-paths"
    chain = "s.a == 0" + "".join(f" and (s.a != {n} or (s.b == {n}" for n in range(40)) + "))" * 40
    deep = HEADER + f"def rule(s):\n    return {chain}\n"
    assert extract(load(deep)["rule"]).exact
    flat = "".join(f"    elif s.a == {n}: return True\n" for n in range(1, 100))
    elifs = HEADER + f"def rule(s):\n    if s.a == 0: return True\n{flat}"
    found = extract(load(elifs)["rule"])
    assert found.exact
    assert len(found.predicate.values) == 100
