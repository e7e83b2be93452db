"""Generated filters against what they really do.

Sound: an event that a filter forwards, raises for, or changes anything for, matches. Exact, where
claimed: the predicate says precisely which events are forwarded, alone and unchanged.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from filters_for_tests import FIFOFilter, run
from programs_for_tests import Writer

from predicate_extract import FALSE, TRUE, Compare, algebra, expressions, extract, scope, symbolic
from predicate_extract.algebra import conjunction
from predicate_extract.expressions import Expressions, Symbol
from predicate_extract.instance import FilterInstance
from predicate_extract.report import Reason
from predicate_extract.symbolic import Analysis

NOTES: list[object] = []
_numbers = count()


def thing(fields: dict[str, Any]) -> SimpleNamespace:
    inner = {k: SimpleNamespace(**v) if isinstance(v, dict) else v for k, v in fields.items()}
    return SimpleNamespace(**inner)


def load(text: str) -> dict[str, Any]:
    """Execute a program from a file that only `linecache` knows."""
    filename = f"generated-{next(_numbers)}.py"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"FIFOFilter": FIFOFilter, "NOTES": NOTES, "__name__": "generated"}
    exec(compile(text, filename, "exec", dont_inherit=True), namespace)
    return namespace


def violations(text: str, some: list[dict[str, Any]]) -> Iterator[str]:
    """What contradicts the extraction, for a program and the fields of a sequence of contents."""
    namespace = load(text)
    found = extract(namespace["Filter"], 1)
    instance = namespace["Filter"](1)
    for fields in some:
        content = thing(fields)
        namespace["LIMIT"] = 2
        NOTES.clear()
        expected = found.predicate.evaluate(content)
        did = run(instance, content)
        namespace["rebind"]()
        changed = did.changed or did.spoiled or bool(NOTES) or namespace["LIMIT"] != 2
        shown = f"{did} for {fields} under {found.predicate}"
        if expected is False and (did.sent or did.raised or changed):
            yield f"unsound: {shown}"
        if did.changed and not found.stateful:
            yield f"stateful: {shown}"
        if not found.exact:
            continue
        if expected is None and did.raised is None:
            yield f"not exact, nothing raised: {shown}"
        itself = len(did.sent) == 1 and getattr(did.sent[0], "content", None) is content
        if expected is True and (not itself or did.raised or changed):
            yield f"not exact: {shown}"


def violations_of(seed: int) -> list[str]:
    writer = Writer(Random(seed))
    text = writer.program()
    return list(violations(text, [writer.content() for _ in range(12)]))


@pytest.mark.parametrize("block", range(10))
def test_generated_filters(block):
    for seed in range(block * 100, block * 100 + 100):
        assert violations_of(seed) == [], f"seed {seed}"


def hunt(start: int) -> bool:
    """Whether fuzzing finds a violation among 300 programs."""
    return any(violations_of(seed) for seed in range(start, start + 300))


def flip_ordering(part):
    opposite = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}
    if isinstance(part, Compare):
        return Compare(opposite[part.op], part.left, part.right)
    return NEGATION(part)


def forget(self, *_):
    self.reasons[Reason(0, "", "planted", "")] = None
    return FALSE


def enter_base(self, classes, caller):
    return (
        ENTER(self, classes, None) if caller is None else self._run(replace(caller, forwarded=True))
    )


NEGATION, ENTER = algebra.negation, Analysis._enter
PLANTED = {
    "not > is <=": [(expressions, "negation", flip_ordering)],
    "not is forgotten": [(expressions, "negation", lambda part: part)],
    "or is and": [(expressions, "disjunction", conjunction)],
    "operands change places": [
        (expressions, "conjunction", lambda *parts: conjunction(*parts[::-1]))
    ],
    "a disjunct is dropped": [
        (symbolic, "choice", lambda test, then, other: conjunction(test, then))
    ],
    "a test that decides nothing is dropped": [(algebra, "checked", lambda of: TRUE)],
    "reading into a local name raises nothing": [(Expressions, "checks", lambda self, value: [])],
    "what is not understood is not kept": [(Analysis, "_keep", forget)],
    "state is taken for a constant": [(FilterInstance, "_changed", frozenset())],
    "collections never change": [(FilterInstance, "_only_tested", lambda self, name: True)],
    "names are bound once": [(scope, "_only_binding", lambda name, place, source: ast.Set([]))],
    "forwarding something else is forwarding": [(Expressions, "value", lambda *_: Symbol.EVENT)],
    "forwarding twice is forwarding": [(Analysis, "_enter", lambda self, *_: TRUE)],
    "a parent forwards everything": [(Analysis, "_enter", enter_base)],
    "nothing is stateful": [(FilterInstance, "stateful", False)],
}


# A search from 0 finds these too, but takes longer.
RARE = {"collections never change": 600, "names are bound once": 1000}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_caught(fault, monkeypatch):
    for owner, name, replacement in PLANTED[fault]:
        monkeypatch.setattr(owner, name, replacement)
    assert hunt(RARE.get(fault, 0))
