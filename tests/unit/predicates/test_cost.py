"""A predicate is computed in time that is in proportion to the event, or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from predicate_extract import Call, Compare, Const, Field, In, Predicate, Term, Truthy, extract
from predicate_extract.algebra.functions import FUNCTIONS

HUGE = 1 << (1 << 25)
LONG = "ab" * 500_000
A, B = Field(("a",)), Field(("b",))
DEAR: dict[str, tuple[Term, Any, Any]] = {
    "a product of huge integers": (Call("*", (A, A)), HUGE, 0),
    "the rest of a huge integer": (Call("%", (A, B)), HUGE, HUGE // 3),
    "the quotient of a huge integer": (Call("//", (A, B)), HUGE, HUGE // 3),
    "a huge integer as text": (Call("str", (A,)), HUGE, 0),
    "a huge integer in a text": (Call("concat", (A,)), HUGE, 0),
    "the integer of a small decimal": (Call("int", (A,)), Decimal("1e99999999"), 0),
    "its floor": (Call("floor", (A,)), Decimal("1e99999999"), 0),
    "its ceiling": (Call("ceil", (A,)), Decimal("1e99999999"), 0),
    "its whole part": (Call("trunc", (A,)), Decimal("1e99999999"), 0),
    "it rounded": (Call("round", (A,)), Decimal("1e99999999"), 0),
    "it in full": (Call("format", (A, Const("f"))), Decimal("1e99999999"), 0),
    "its tiny brother in full": (Call("format", (A, Const("f"))), Decimal("1e-99999999"), 0),
    "a wide format": (Call("format", (A, B)), 1.5, "999999999.3f"),
    "a precise format": (Call("format", (A, B)), 1.5, ".999999999f"),
    "many digits": (Call("int", (A,)), "9" * 3_000_000, 0),
    "every letter replaced by a text": (Call("replace", (A, Const("a"), B)), LONG, LONG),
    "a text between all letters": (Call("replace", (A, Const(""), B)), LONG, LONG),
    "a text stripped of a text": (Call("strip", (A, B)), "c" * 900_000, LONG + "c"),
    "on the left": (Call("lstrip", (A, B)), "c" * 900_000, LONG + "c"),
    "on the right": (Call("rstrip", (A, B)), "c" * 900_000, LONG + "c"),
    "a split from the right": (Call("rsplit", (A, B)), "a" * 900_000, "b" + "a" * 400_000),
    "a part from the right": (Call("rpartition", (A, B)), "a" * 900_000, "b" + "a" * 400_000),
    "a float in a range": (Call("contains", (A, B)), range(10**15), 0.5),
    "the sum of a range": (Call("sum", (A,)), range(10**15), 0),
    "all of a range": (Call("all", (A,)), range(1, 10**15), 0),
    "how often a float is in a range": (Call("count", (A, B)), range(10**15), 0.5),
    "the sum of many huge integers": (Call("sum", (A,)), [HUGE] * 200_000, 0),
}


def _grown(depth: int) -> Term:
    """Each step makes the text a hundred times longer."""
    term: Term = A
    for _ in range(depth):
        term = Call("replace", (term, Const("a"), Const("a" * 100)))
    return term


DEAR["a text that grows with each step"] = (_grown(7), "a", 0)


COMPARED = (Compare(">", A, B), Compare("==", B, A), In(A, (Const(Decimal("1.5")),)))


@pytest.mark.timeout(30)
@pytest.mark.parametrize("condition", COMPARED, ids=str)
def test_a_huge_integer_is_not_compared_with_a_decimal(condition: Predicate) -> None:
    assert condition.evaluate(SimpleNamespace(a=HUGE, b=Decimal("1.5"))) is None
    assert condition.evaluate(SimpleNamespace(a=7, b=Decimal("1.5"))) is not None


@pytest.mark.timeout(30)
@pytest.mark.parametrize("what", DEAR)
def test_what_may_take_long_is_left_to_the_filter(what: str) -> None:
    term, a, b = DEAR[what]
    assert Truthy(term).evaluate(SimpleNamespace(a=a, b=b)) is None


@pytest.mark.parametrize(
    ("term", "a", "b", "value"),
    [
        (Call("round", (A, B)), 5, -(10**12), 0),
        (Call("round", (A, B)), 1234, -2, 1200),
        (Call("round", (A, B)), 1.26, 1, 1.3),
        (Call("contains", (A, B)), range(10**15), 10**14, True),
        (Call("contains", (A, B)), range(10), 5.0, True),
        (Call("*", (A, B)), 2**63, 2**63, 2**126),
        (Call("replace", (A, Const("b"), B)), LONG * 2, "c", LONG.replace("b", "c") * 2),
        (Call("sum", (A,)), [1, 2, 3], 0, 6),
        (Call("format", (A, B)), 3.14159, ".2f", "3.14"),
        (Call("strip", (A, B)), "xxaxx", "x", "a"),
        (Call("int", (A,)), "42", 0, 42),
        (Call("int", (A,)), Decimal("42.5"), 0, 42),
    ],
)
def test_what_is_cheap_is_computed(term: Term, a: Any, b: Any, value: object) -> None:
    content = SimpleNamespace(a=a, b=b)
    assert term.compute(lambda field: field.read(content)) == value


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "function",
    [
        lambda s: s.a == "a".replace("a", "a" * 9_999).replace("a", "b" * 999),
        lambda s: s.a == f"{1.5:999999999.3f}",
        lambda s: s.a == 1 << 10**12,
        lambda s: s.a == 10 ** (10**12),
        lambda s: s.a == "x" * 10**12,
        lambda s: s.a in frozenset(range(10**12)),
        lambda s: s.a in list(range(10**12)),
        lambda s: s.a == sum(range(10**12)),
        lambda s: any(s.a == x for x in range(10**12)),
        lambda s: s.a == [x + 1 for x in range(10**12)],
        lambda s: 0.5 in range(10**12),
        lambda s: s.a == round(5, -(10**12)),
    ],
)
def test_what_is_dear_to_compute_is_not_computed_where_a_filter_is_derived(
    function: Callable[[Any], object],
) -> None:
    extract(function)


HOSTILE = (
    *(HUGE, -(10**12), 0.5, Decimal("1e99999999"), Decimal("-1e-99999999")),
    *(LONG, "", "a" * 900_000, "b" + "a" * 400_000, ".999999999f", "(a+)+$"),
    *(range(10**15), LONG.encode()),
)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_function_takes_long_whatever_it_is_given(function: str) -> None:
    for first in HOSTILE:
        for others in ((), *((second,) for second in HOSTILE)):
            with contextlib.suppress(Exception):
                FUNCTIONS[function].run(first, *others)
