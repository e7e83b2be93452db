"""Fields whose values are not what their column holds, and collections made of fields' values."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import make_dataclass
from functools import singledispatch
from types import SimpleNamespace
from typing import Any

import fields_for_tests as fields
import pytest
from databases_for_tests import register
from fields_for_tests import Color, Level, Mood, Other, Perm, Tone, Way
from test_filter_fuzz import load

from activebroker.events import EventType
from activebroker.events.building import encode
from predicate_extract import Compare, Const, Field, In, Member, Predicate, extract
from predicate_extract.analysis.filters import Analysis
from predicate_extract.backends.columns import mask
from predicate_extract.backends.sql import to_sql
from predicate_extract.extraction import FAULT

ENUMS = (
    *(Color, Other, Level, Mood, Tone, fields.Weight, fields.Shifted, fields.Alike, fields.Hollow),
    *(fields.Sized, fields.Hashed, fields.Added),
)
CONDITIONS = """\
c.x == A
c.x != A
c.x is A
c.x in (A, 2)
c.x in {A, 'b'}
c.x not in [B]
c.x > A
c.x <= 1
c.x
not c.x
c.x + 1 == 2
c.x + 'b' == 'ab'
c.x == 1
c.x == 'a'
c.x == OTHER
c.x is OTHER
c.x == c.y
c.y is None or c.y == A
c.y in (None, A)
c.y and c.y != B
isinstance(c.x, int)
isinstance(c.x, str)
isinstance(c.x, CLASS)
isinstance(c.y, (CLASS, float))
c.x.value == A.value
c.x.name in ('RED', 'X', 'ONE')
c.y.name == 'RED'
max(c.x, A) == A
str(c.x) == str(A)
f'{c.x}' == '1'
len({c.x, A, B}) == 2
{A: 1, B: 2}.get(c.x) == 1
{c.x: 1} == {A: 1}
(c.x, 1) == (A, 1)
A in [c.x]
sum([c.x, 1]) == 2
B if c.x else A
A in c.all
'RED' in c.all
c.all == [A]
c.all.count(A) == 1
c.all[0] == A
len(c.all) > 1
c.inner.x == A
c.inner.x is c.x""".splitlines()
MATCH = """
def matched(c):
    match c.x:
        case CLASS.{a}:
            return True
        case int(v) | str(v) if v:
            return 1
        case CLASS.{b} | 1:
            return True
    return False
"""


@pytest.mark.parametrize("cls", ENUMS, ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_a_condition_on_members_is_what_python_makes_of_them(cls, database):
    inner = make_dataclass("Holder", [("x", cls)])
    shape = [("x", cls), ("y", cls | None), ("all", list[cls]), ("inner", inner)]
    event = EventType.of(make_dataclass(f"Of{cls.__name__}", shape))
    a, b, *_ = members = list(cls)
    contents = [
        event.cls(x, y, held, inner(z))
        for x in members
        for y in (*members, None)
        for z in members
        for held in ([], [a], [b, a])
    ]
    batch = encode(event, contents, "here", 0, 0).columns.select(event.schema.names)
    register(database, batch)
    lines = [f"def test_{n}(c): return {text}" for n, text in enumerate(CONDITIONS)]
    matched = MATCH.format(a=a._name_, b=b._name_)
    source = "\n".join(
        (
            f"from {cls.__module__} import {cls.__name__} as CLASS",
            f"from {(Color if cls is Other else Other).__module__} import Color as NAMESAKE",
            f"A, B, OTHER = CLASS.{a._name_}, CLASS.{b._name_}, NAMESAKE.RED",
            *lines,
            matched,
        )
    )
    names = load(source)
    for name in [*(f"test_{n}" for n in range(len(CONDITIONS))), "matched"]:
        function = names[name]
        found = extract(function, schema=event.schema, content=event.cls)
        wanted = [outcome(function, content) for content in contents]
        kept = mask(found.predicate, batch)
        clause, exact = to_sql(found.predicate, batch.schema)
        query = f'SELECT "row number" FROM events WHERE {clause or "TRUE"}'
        in_sql = {row for (row,) in database.execute(query).fetchall()}
        for row, (want, content) in enumerate(zip(wanted, contents, strict=True)):
            answers = (
                ("in columns", bool(kept.keep[row]), found.exact),
                ("in SQL", row in in_sql, found.exact and exact),
                ("as an object", found.predicate.evaluate(content) is not False, found.exact),
            )
            for where, answer, sharp in answers:
                wrong = f"{where}: {name} {found.predicate} {content}"
                assert answer or want is False, wrong
                assert not sharp or want is None or answer == want, wrong


def outcome(function: Callable[[Any], Any], content: object) -> bool | None:
    try:
        return bool(function(content))
    except Exception:  # noqa: BLE001 - whatever it raises
        return None


@pytest.mark.parametrize(
    ("condition", "predicate"),
    [
        (lambda c: c.level == Level.ERROR, "level = ENUM 'Level.ERROR'"),
        (lambda c: c.level > 0 and c.i > 3, "level != ENUM 'Level.LOW' AND i > 3"),
        (lambda c: c.level, "level != ENUM 'Level.LOW'"),
        (lambda c: c.level > c.i, None),
        (
            lambda c: c.tint is None or c.tint is Color.RED,
            "tint IS NULL OR tint = ENUM 'Color.RED'",
        ),
        (lambda c: c.color == Other.RED, "FALSE"),
        (lambda c: c.color in (Other.RED, Color.BLUE), "color = ENUM 'Color.BLUE'"),
        (lambda c: c.mood == "a", "mood = ENUM 'Mood.A'"),
        (lambda c: isinstance(c.level, int), "TRUE"),
        (lambda c: c.shifted == 2, "shifted = ENUM 'Shifted.ONE'"),
        (lambda c: c.shifted.value == 2, "shifted != ENUM 'Shifted.ONE'"),
        (lambda c: c.alike is fields.Alike.X, "alike = ENUM 'Alike.X'"),
        (lambda c: c.hollow == fields.Hollow.X, "hollow = ENUM 'Hollow.X'"),
        (lambda c: c.q.side is Color.RED, "q.side = ENUM 'Color.RED'"),
        (lambda c: c.loud, "level = ENUM 'Level.ERROR' OR color = ENUM 'Color.RED'"),
        (lambda c: c.colors is None, "colors IS NULL"),
    ],
)
def test_members_that_are_told_apart_surely_are_judged_where_the_events_are(condition, predicate):
    found = extract(condition, schema=EventType.of(fields.Thing).schema, content=fields.Thing)
    assert found.exact
    assert predicate in (None, str(found.predicate))


def test_an_enum_of_another_module_is_another_one_without_a_schema_too():
    found = extract(lambda c: c.color == Color.RED)
    assert str(found.predicate) == "color = ENUM 'fields_for_tests:Color.RED'"
    assert found.predicate.evaluate(SimpleNamespace(color=Color.RED)) is True
    assert found.predicate.evaluate(SimpleNamespace(color=Other.RED)) is False


@pytest.mark.parametrize(
    ("condition", "exact"),
    [
        (lambda c: c.i & Perm.R, True),
        (lambda c: c.i & Perm.W == Perm.W, True),
        (lambda c: c.i == Perm.W or c.i > Perm.W, True),
        (lambda c: c.i | Perm.R == 3, False),  # of a negative number, Python makes another flag
        (lambda c: c.i ^ Perm.R == 2, False),
        (lambda c: c.i == Way.OUT, False),
    ],
)
def test_flags_as_numbers(condition, exact):
    event = EventType.of(make_dataclass("Flagged", [("i", int)]))
    found = extract(condition, schema=event.schema, content=event.cls)
    assert found.exact == exact
    contents = [event.cls(i) for i in range(-5, 5)]
    kept = mask(found.predicate, encode(event, contents, "here", 0, 0).columns)
    for row, content in enumerate(contents):
        want = outcome(condition, content)
        assert kept.keep[row] if want is not False else not (exact and kept.true[row])


COLLECTIONS = """\
sum({c.i, 1}) == 1
sum({1, True, c.i}) == 3
{1: 5, c.i: 7}[1] == 7
{1: 5, c.i: 7}.get(1) == 5
sum({1: 5, True: 7}.values()) == 7
len({1: 5, True: 7, 1.0: 9}) == 1
list({1: 5, True: 7}) == [1]
len({c.i, 1}) == 1
sum({x for x in (1, 1.0, c.i)}) == 1
tuple({c.i: 0, 1: 0}) == (1,)
[k for k in {1: 0, c.i: 0}] == [1]
len(set([c.i, 1])) == 1
len({(1, 2), (True, 2.0), (c.i, 2)}) == 1
sum({1, c.i} | {1}) == 1
{c.i, 1} == {1}
{c.l}
{c.l: 1}
{c.l, 1} or True
len({c.l}) == 1
set([c.l])
1 in {c.l: 1}
c.l in {1}
{x for x in (c.l,)}
{c.i: c.l}[1] == c.l
max({c.i, 2}) == 2
[*{c.i, 1}] == [1]
{(c.l, 1)}""".splitlines()


@pytest.mark.parametrize("text", COLLECTIONS)
def test_sets_and_dicts_of_values_are_those_that_python_makes(text):
    event = EventType.of(make_dataclass("Listed", [("i", int), ("l", list[int])]))
    function = load(f"def condition(c):\n    return {text}\n")["condition"]
    found = extract(function, schema=event.schema, content=event.cls)
    contents = [event.cls(i, held) for i in (0, 1, 2, 3) for held in ([], [1])]
    kept = mask(found.predicate, encode(event, contents, "here", 0, 0).columns)
    for row, content in enumerate(contents):
        want = outcome(function, content)
        assert want is False or kept.keep[row], f"lost: {found.predicate} {content}"
        if found.exact and want is not None:
            assert kept.true[row] == want, f"not exact: {found.predicate} {content}"


LONE = ("\ud83d\ude00", "\ud83d", "a\ude00\ud83d\ude00", "\U0001f600\ud83d")


@pytest.mark.parametrize("text", LONE, ids=ascii)
def test_lone_surrogates_come_back_as_they_were(text):
    item = Field(("a", text), (False, True))
    for predicate in (Compare("==", item, Const(text)), In(item, (Const(text), Const("b")))):
        assert Predicate.from_json(predicate.to_json()) == predicate
        assert Predicate.parse(str(predicate)) == predicate


def test_a_member_comes_back_with_where_it_is():
    for member in (Member("Level", "LOW"), Member("Level", "LOW", "rules.f.<locals>")):
        predicate = Compare("==", Field(("a",)), Const(member))
        assert Predicate.from_json(predicate.to_json()) == predicate
        assert Predicate.parse(str(predicate)) == predicate


def mapped(c):
    match (c.i, c.s):
        case {"a": q}:
            return q
    return c.i == 1


def test_a_tuple_matches_no_pattern_of_a_mapping():
    found = extract(mapped)
    assert (str(found.predicate), found.exact) == ("DEFINED(s) AND i = 1", True)


@pytest.mark.parametrize("error", [TypeError("odd"), KeyError("x"), AssertionError()])
def test_a_fault_of_the_analysis_keeps_every_event_and_says_so(monkeypatch, error):
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Analysis, "of_function", fail)
    found = extract(lambda c: c.i == 1)
    assert (str(found.predicate), found.exact) == ("TRUE", False)
    assert [reason.kind for reason in found.reasons] == [FAULT]
    assert type(error).__name__ in found.reasons[0].message


@singledispatch
def worth(value: object) -> int:
    return 0


@worth.register
def _(value: int) -> int:
    return value


def test_a_helper_that_looks_at_classes_is_not_judged():
    found = extract(lambda c: c.i > 1 and worth(c.i) > 2)
    assert (str(found.predicate), found.exact) == ("i > 1", False)


def test_a_field_that_code_of_the_class_gives_is_not_judged_on_its_column():
    event = make_dataclass("Computed", [("i", int)])
    event.i = property(lambda self: 5, lambda self, value: None)
    found = extract(lambda c: c.i == 1, schema=EventType.of(event).schema, content=event)
    assert (str(found.predicate), found.exact) == ("TRUE", False)


def teardown_module() -> None:
    for name in [name for name in linecache.cache if name.startswith("generated-")]:
        del linecache.cache[name]
