"""Two-valued logic over SQL conditions, kept small so that the text stays readable.

A condition of SQL may be null; here it counts as false then, so that negation, absorption and all
the rest are those of plain Boolean algebra. `written` writes the result as SQL, whose three-valued
logic comes to the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from predicate_extract.backends.truth import Unfaithful

MAX_TESTS = 2000
"""A condition of more tests does not pay."""

_OPPOSITE: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    # DuckDB puts NaN above all numbers, so that these are opposites for floats too.
    exp.LT: exp.GTE,
    exp.GTE: exp.LT,
    exp.GT: exp.LTE,
    exp.LTE: exp.GT,
}


class _Operators:
    __slots__ = ()

    def __and__(self: Any, other: Bits) -> Bits:
        return _joined(True, (self, other))

    def __or__(self: Any, other: Bits) -> Bits:
        return _joined(False, (self, other))


@dataclass(frozen=True, slots=True)
class Test(_Operators):
    """Whether a condition holds, or (`negated`) does not. `nulls`: the tests one of which holds
    wherever the condition is null. `text` tells it from others."""

    text: str
    sql: exp.Expr = field(compare=False)
    nulls: tuple[Test, ...] = field(compare=False)
    negated: bool = False

    @staticmethod
    def of(sql: exp.Expr, nulls: tuple[Test, ...] = ()) -> Test:
        """The test of a condition."""
        return Test(sql.sql("duckdb"), sql, nulls)

    def __invert__(self) -> Test:
        return Test(self.text, self.sql, self.nulls, not self.negated)

    @property
    def size(self) -> int:
        return 1

    @property
    def mentions(self) -> frozenset[str]:
        return frozenset((self.text,))

    def plain(self) -> exp.Expr:
        """The SQL where it is not null."""
        sql = self.sql
        if not self.negated:
            return sql
        if isinstance(sql, exp.Is):
            return exp.Is(this=sql.this, expression=exp.Not(this=sql.expression))
        if type(sql) in _OPPOSITE:
            return _OPPOSITE[type(sql)](this=sql.this, expression=sql.expression)
        return sql.this if isinstance(sql, exp.Not) else exp.not_(sql)


class Many(_Operators):
    """All of the parts, or any of them. `mentions`: the texts of the tests in it.

    Raises: Unfaithful, if it would be too large.
    """

    __slots__ = ("_hash", "every", "mentions", "parts", "size")

    def __init__(self, every: bool, parts: tuple[Bits, ...]) -> None:
        self.every = every
        self.parts = parts
        self.mentions: frozenset[str] = frozenset().union(*(part.mentions for part in parts))
        self._hash = hash((every, parts))
        self.size: int = sum(part.size for part in parts)
        if self.size > MAX_TESTS:
            raise Unfaithful

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Many)
            and (self._hash, self.every, self.parts) == (other._hash, other.every, other.parts)
        )

    def __hash__(self) -> int:
        return self._hash

    def __invert__(self) -> Many:
        return Many(not self.every, tuple(~part for part in self.parts))


# A truth value for every row.
Bits = Test | Many

TRUE: Bits = Many(True, ())
FALSE: Bits = Many(False, ())


def any_of(parts: Iterable[Bits]) -> Bits:
    """Where one of them holds."""
    return _joined(False, tuple(parts))


def written(bits: Bits, settled: frozenset[Bits] = frozenset()) -> exp.Expr:
    """The SQL that is true on these rows, false or null elsewhere.

    Where one of the tests in `settled` holds, the value is of no account.
    """
    bits = Many(False, (bits,)) if isinstance(bits, Test) else bits
    parts = dict.fromkeys(bits.parts)
    tests = [part for part in parts if isinstance(part, Test)]
    if not bits.every:
        nulls = [null for test in tests if test.negated for null in test.nulls]
        parts |= dict.fromkeys(null for null in nulls if null not in settled)
        tests += nulls
    else:
        # Where one of them is null, so is the whole, or false, whatever the others are.
        tests += [~null for test in tests if not test.negated for null in test.nulls]
    settled |= {~test if bits.every else test for test in tests}
    conditions = []
    for part in parts:
        if isinstance(part, Test) and not (part.negated and set(part.nulls) - settled):
            conditions.append(part.plain())
        else:
            conditions.append(written(part, settled))
    if not conditions:
        return exp.Boolean(this=bits.every)
    return exp.and_(*conditions) if bits.every else exp.or_(*conditions)


def _joined(every: bool, parts: tuple[Bits, ...]) -> Bits:
    """All or any of the parts. A single test settles the whole, or else its value is known in the
    other parts; and where it holds, it is not null."""
    flat: dict[Bits, None] = {}
    for part in parts:
        flat |= dict.fromkeys(
            part.parts if isinstance(part, Many) and part.every == every else (part,)
        )
    known = {part if every else ~part for part in flat if isinstance(part, Test)}
    implied = _implied(known)
    facts = {test.text: not test.negated for test in known | implied}
    final = Many(not every, ())
    kept: dict[Bits, None] = {}
    for part in flat:
        if isinstance(part, Test):
            open = part if every else ~part
            if ~open in known or ~open in implied:
                return final
            if open not in implied:
                kept[part] = None
        else:
            kept[_given(part, facts)] = None
    if final in kept:
        return final
    if kept != flat:
        return _joined(every, tuple(kept))
    if len(kept) < 2:
        return next(iter(kept), Many(every, ()))
    return _factored(every, tuple(kept))


def _factored(every: bool, parts: tuple[Bits, ...]) -> Bits:
    """`a AND b OR a AND c` as `a AND (b OR c)`."""
    inner = [part.parts if isinstance(part, Many) else (part,) for part in parts]
    spread = [factors if every else (*factors, *_implied(factors)) for factors in inner]
    candidates = dict.fromkeys(factor for factors in inner for factor in factors)
    common = [factor for factor in candidates if all(factor in factors for factors in spread)]
    if not common:
        return Many(every, parts)
    rests = [[factor for factor in factors if factor not in common] for factors in inner]
    rest = _joined(every, tuple(_joined(not every, tuple(factors)) for factors in rests))
    return _joined(not every, (*common, rest))


def _implied(known: Iterable[Bits]) -> set[Test]:
    """What follows from these: where a test holds, it is not null."""
    tests = [test for test in known if isinstance(test, Test) and not test.negated]
    return {~null for test in tests for null in test.nulls}


def _given(part: Bits, known: dict[str, bool]) -> Bits:
    """The part where these tests, by their texts, hold or do not."""
    if isinstance(part, Test):
        holds = known.get(part.text)
        return part if holds is None else FALSE if holds is part.negated else TRUE
    if part.mentions.isdisjoint(known):
        return part
    return _joined(part.every, tuple(_given(inner, known) for inner in part.parts))
