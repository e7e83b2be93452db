"""Does one predicate cover another? Sound: True only when it surely does.

`P` covers `Q` when every content that Q matches (true or raised) P matches as well. Raising is what
makes this subtle: `a AND b` matches whatever makes `a` raise, even where `b` is false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from predicate_extract.algebra.implication import follows, same_order, subject
from predicate_extract.algebra.predicate import (
    FALSE,
    TRUE,
    And,
    Compare,
    Defined,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
)
from predicate_extract.algebra.terms import Const

if TYPE_CHECKING:
    import pyarrow as pa


# For `x op a` and `x op b` with constants of one type and one order: when the first covers the
# second. Pairs that are not here never do.
_PAIRS: dict[tuple[str, str], Callable[[Any, Any], bool]] = {
    (">", ">"): lambda a, b: a <= b,
    (">", ">="): lambda a, b: a < b,
    (">", "=="): lambda a, b: a < b,
    (">=", ">"): lambda a, b: a <= b,
    (">=", ">="): lambda a, b: a <= b,
    (">=", "=="): lambda a, b: a <= b,
    ("<", "<"): lambda a, b: a >= b,
    ("<", "<="): lambda a, b: a > b,
    ("<", "=="): lambda a, b: a > b,
    ("<=", "<"): lambda a, b: a >= b,
    ("<=", "<="): lambda a, b: a >= b,
    ("<=", "=="): lambda a, b: a >= b,
    ("==", "=="): lambda a, b: a == b,
    ("!=", "!="): lambda a, b: a == b,
    ("!=", "=="): lambda a, b: a != b,
    ("!=", ">"): lambda a, b: a <= b,
    ("!=", ">="): lambda a, b: a < b,
    ("!=", "<"): lambda a, b: a >= b,
    ("!=", "<="): lambda a, b: a > b,
}


def covers(wide: Predicate, narrow: Predicate, schema: pa.Schema | None) -> bool:
    """Whether `wide` surely matches every content that `narrow` matches."""
    if type(wide) is Compare and type(narrow) is Compare:
        a, b = wide.right, narrow.right
        if type(a) is Const and type(b) is Const and type(a.value) is type(b.value) in (int, str):
            test = _PAIRS.get((wide.op, narrow.op))
            return test is not None and test(a.value, b.value) and wide.left == narrow.left
    if narrow == FALSE:
        return True
    if isinstance(narrow, Or):
        return wide == narrow or all(covers(wide, part, schema) for part in narrow.parts)
    reached = tuple(_reached(narrow.parts, schema)) if isinstance(narrow, And) else ()
    return _covers(wide, narrow, reached, schema)


def _covers(
    wide: Predicate, narrow: Predicate, reached: tuple[Predicate, ...], schema: pa.Schema | None
) -> bool:
    """The same for a `narrow` that is no `Or`; `reached` are its parts, if it is an `And`."""
    if wide in (TRUE, narrow) or isinstance(wide, Defined):
        return True
    if isinstance(wide, And):
        return all(_covers(part, narrow, reached, schema) for part in wide.parts)
    if isinstance(wide, Or) and any(_covers(part, narrow, reached, schema) for part in wide.parts):
        return True
    if isinstance(narrow, And):
        return any(covers(wide, part, schema) for part in reached)
    of = subject(narrow)
    if of is None or of != subject(wide):
        return False
    both = isinstance(wide, In) and isinstance(narrow, In)
    if both and wide.hashed >= narrow.hashed and set(narrow.values).issubset(wide.values):  # type: ignore
        return True
    return follows(narrow, wide) is True and _raises_alike(narrow, wide)


def _reached(parts: Iterable[Predicate], schema: pa.Schema | None) -> Iterator[Predicate]:
    """The parts up to the first that may raise: then the `And` matches, whatever follows."""
    *before, last = parts
    for part in before:
        yield part
        if not _cannot_raise(part, schema):
            return
    yield last


def _cannot_raise(part: Predicate, schema: pa.Schema | None) -> bool:
    if schema is None:
        return False
    from predicate_extract.algebra.schema import can_raise

    return not can_raise(part, schema)


def _raises_alike(narrow: Predicate, wide: Predicate) -> bool:
    """Whether `wide` raises, or is true, wherever `narrow` raises; both on the same term."""
    asked = wide.part if isinstance(wide, Not) else wide
    match narrow.part if isinstance(narrow, Not) else narrow:
        # Apart from a failing read, these do not raise on plain data.
        case Compare("==" | "!=") | In(hashed=False) | IsNull():
            return True
        case In():  # raises on what has no hash, a list or a dict
            if isinstance(asked, In):
                return asked.hashed or asked is not wide
            return isinstance(asked, Compare) and asked.op != "=="
        case Compare(_, _, Const() as bound):  # raises on what has no order with the bound
            match asked:
                case Compare(op, _, Const() as other):
                    return op != "==" and same_order(bound, other)
                case In(_, values):
                    return asked is not wide and all(same_order(bound, v) for v in values)
    return False
