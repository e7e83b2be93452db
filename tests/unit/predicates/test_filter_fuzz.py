"""Generated filters against what they really do.

Sound: an event that a filter forwards, raises for, or changes anything for, matches. Exact, where
claimed: the predicate says precisely which events are forwarded, alone and unchanged.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from filters_for_tests import FIFOFilter, run
from programs_for_tests import Writer

from predicate_extract import extract

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
        itself = len(did.sent) == 1 and getattr(did.sent[0], "content", None) is content
        if expected is True and (not itself or did.raised or changed):
            yield f"not exact: {shown}"


def violations_of(seed: int) -> list[str]:
    writer = Writer(Random(seed))
    text = writer.program()
    return list(violations(text, [writer.content() for _ in range(12)]))


@pytest.mark.parametrize("block", range(20))
def test_generated_filters(block):
    for seed in range(block * 100, block * 100 + 100):
        assert violations_of(seed) == [], f"seed {seed}"
