"""The proof that the fuzzing can fail: an analysis with a fault in it is found out."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from programs_for_tests import HEADER
from test_corpus import CASES, wrong
from test_filter_fuzz import typed_violations_of, violations, violations_of

from predicate_extract import FALSE, TRUE, And, Compare, Not, Or
from predicate_extract.algebra import simplify
from predicate_extract.algebra.simplify import conjunction, disjunction
from predicate_extract.analysis import (
    arguments,
    filters,
    following,
    methods,
    operations,
    scope,
    statements,
    tree,
    unpacking,
)
from predicate_extract.analysis.calls import Calls
from predicate_extract.analysis.content import Content
from predicate_extract.analysis.expressions import Expressions
from predicate_extract.analysis.filters import Analysis
from predicate_extract.analysis.following import Following
from predicate_extract.analysis.instance import FilterInstance
from predicate_extract.analysis.statements import Point, Statements
from predicate_extract.analysis.tree import Leaf, bind
from predicate_extract.analysis.values import Maybe
from predicate_extract.backends import columns
from predicate_extract.backends.truth import Backend, Outcome


def flip_ordering(part):
    opposite = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}
    if isinstance(part, Compare):
        return Compare(opposite[part.op], part.left, part.right)
    return NEGATION(part)


def without_final(self, body, handlers, orelse, final, frame, state):
    return TRY(self, body, handlers, orelse, [], frame, state)


def final_on_the_way_through(self, body, handlers, orelse, final, frame, state):
    return self.block([*body, *orelse, *final], frame, state)


def loop_runs_once(self, target, source, body, orelse, frame, state):
    def go(got):
        items = unpacking.iterated(got.value)
        if not items:
            return self.block(orelse, frame, got.state)
        named = unpacking.assigned(got.state, target, items[0])
        return self._looped(self.block(body, frame, named), lambda at: Leaf(Point(at)))

    return self._after(source, frame, state, go)


def forwards_as_often_as_it_likes(self, args, state):
    return FORWARD(self, args, filters.replace(state, forwarded=False))


def as_it_is_now(self, name):
    return scope.wrap(getattr(self._instance, name))


def parent_forwards(self, owner):
    return filters.Forward()


def ends_at_the_first_forward(self, body, frame, state):
    tree = BLOCK(self, body, frame, state)
    return bind(
        tree,
        lambda at: Leaf(Point(at.state)) if isinstance(at, Point) else Leaf(at),
    )


def settle_to_false(predicate):
    match predicate:
        case Maybe() | Not(Maybe()):
            return FALSE
        case And(parts):
            return conjunction(*map(settle_to_false, parts))
        case Or(parts):
            return disjunction(*map(settle_to_false, parts))
    return predicate


NEGATION, TRY, FORWARD = simplify.negation, Statements._try, Analysis.forward
BLOCK, DEFAULTS, NAME = Statements.block, arguments.default_values, Expressions._name
PLANTED = {
    "not > is <=": [(place, "negation", flip_ordering) for place in (simplify, tree, operations)],
    "not is forgotten": [(place, "negation", lambda part: part) for place in (tree, operations)],
    "or is and": [(tree, "disjunction", conjunction)],
    "a disjunct is dropped": [(tree, "choice", lambda test, then, other: conjunction(test, then))],
    "a test that decides nothing is dropped": [(tree, "checked", lambda of: TRUE)],
    "computing a value raises nothing": [(Following, "checks", lambda self, value: [])],
    "what is not understood does nothing": [
        (Analysis, "stop", lambda self, *_: Leaf(Point(following.State())))
    ],
    "setting an attribute changes nothing": [(Analysis, "stores", lambda self, *_: None)],
    "state is taken for a constant": [(FilterInstance, "_state", as_it_is_now)],
    "collections never change": [(FilterInstance, "_only_read", lambda self, *_: True)],
    "names are bound once": [(scope, "_only_binding", lambda *_: ast.Set([]))],
    "forwarding twice is forwarding": [(Analysis, "forward", forwards_as_often_as_it_likes)],
    "a parent forwards everything": [(Analysis, "next_enqueue", parent_forwards)],
    "a return ends all functions": [(Statements, "block", ends_at_the_first_forward)],
    "finally is forgotten": [(Statements, "_try", without_final)],
    "finally runs only on the way through": [(Statements, "_try", final_on_the_way_through)],
    "a loop runs once": [(Statements, "_for", loop_runs_once)],
    "what is unknown is false": [(filters, "settle", settle_to_false)],
    "a default value is None": [
        (place, "default_values", lambda code: dict.fromkeys(DEFAULTS(code), statements.NONE))
        for place in (arguments, filters)
    ],
    "what a decorator wraps is not looked into": [
        (methods, "_with_wrapped", lambda function: iter([function]))
    ],
    "a NaN equals itself in a tuple": [(operations, "_settled_by_equality", lambda *_: True)],
    "calls have no effects": [
        (Calls, "unknown_call", lambda self, w, n, f, s: Leaf(following.Got(FALSE, s)))
    ],
    "nothing is stateful": [(FilterInstance, "stateful", False)],
    "contents with a schema raise nothing": [(Content, "can_raise", lambda self, test: False)],
    "NOT of what raises is true": [
        (Backend, "_inverted", lambda self, one: Outcome(~one.true, None))
    ],
    "what a later part raises is false": [
        (Backend, "_both", lambda self, one, two: Outcome(one.true & two.true, one.raised))
    ],
    "a null in a column is like any other value": [
        (columns._Columns, "_settle", lambda self, op, column, hits, valid: Outcome(hits))
    ],
}


# What finds it: a seed of the program writer, a case of the corpus, or a filter.
class OnColumns(int):
    """A seed of a program with typed contents."""


FOUND_BY: dict[str, int | str] = {
    "not > is <=": 44,
    "not is forgotten": 22,
    "or is and": 0,
    "a disjunct is dropped": 0,
    "a test that decides nothing is dropped": 40,
    "computing a value raises nothing": 0,
    "what is not understood does nothing": 8,
    "setting an attribute changes nothing": 39,
    "state is taken for a constant": 562,
    "collections never change": 562,
    "names are bound once": 852,
    "forwarding twice is forwarding": 9,
    "a parent forwards everything": 3,
    "a return ends all functions": 42,
    "finally is forgotten": 26,
    "finally runs only on the way through": 26,
    "a loop runs once": "weblogs_json.from_agent",
    "what is unknown is false": 6,
    "a default value is None": "iot_plant.wildcard",
    "calls have no effects": 9,
    "contents with a schema raise nothing": OnColumns(20),
    "NOT of what raises is true": OnColumns(4),
    "what a later part raises is false": OnColumns(11),
    "a null in a column is like any other value": OnColumns(11),
    "what a decorator wraps is not looked into": """
class Filter(FIFOFilter):
    def __init__(self, limit):
        super().__init__()
        self.count = 0
    @told
    def note(self):
        self.count += 1
    def enqueue(self, event):
        if event.content.a == 1:
            self.note()
        if self.count > 0:
            super().enqueue(event)
""",
    "a NaN equals itself in a tuple": """
class Filter(FIFOFilter):
    def __init__(self, limit):
        super().__init__()
    def enqueue(self, event):
        if event.content.a in (event.content.b, 3):
            super().enqueue(event)
""",
    "nothing is stateful": """
class Filter(FIFOFilter):
    def __init__(self, limit):
        super().__init__()
        self.count = 0
    def enqueue(self, event):
        self.count += 1
""",
}
NAN = float("nan")
CONTENTS = [{"a": a, "b": b} for a in (2, 1, NAN) for b in (NAN, 1)]


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_caught(fault, monkeypatch, database):
    assert not list(found_out(fault, database))
    for owner, name, replacement in PLANTED[fault]:
        monkeypatch.setattr(owner, name, replacement)
    assert list(found_out(fault, database))


def found_out(fault: str, database: Any) -> list[str]:
    where = FOUND_BY[fault]
    if isinstance(where, OnColumns):
        return typed_violations_of(where, database)
    if isinstance(where, int):
        return violations_of(where)
    if where.startswith("\n"):
        return list(violations(HEADER + where, CONTENTS))
    case = next(case for case in CASES if case.name == where)
    return wrong(case)
