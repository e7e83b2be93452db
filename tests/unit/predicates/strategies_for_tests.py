"""Random predicates and contents; a content is an object, so that a field can be missing."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace

from hypothesis import settings
from hypothesis import strategies as st

from predicate_extract import (
    FALSE,
    TRUE,
    And,
    Compare,
    Const,
    Defined,
    Field,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    Truthy,
)

RELAXED = settings(deadline=None)

OPS = ("==", "!=", "<", "<=", ">", ">=")

NUMBERS = (
    *(
        0,
        1,
        -1,
        2,
        3,
        255,
        2**31,
        2**53,
        2**53 + 1,
        -(2**53) - 1,
        2**63 - 1,
        2**63,
        -(2**63),
        10**400,
    ),
    *(0.0, -0.0, 0.5, 1.0, 2.5, 0.1, 1e300, 9007199254740992.0, 9.223372036854775807e18),
    *(math.inf, -math.inf, math.nan, True, False),
)
OTHERS = (
    None,
    *("", "a", "b", "ß", "\U0001f600", "\uffff", b"", b"a"),
    *(date(2020, 1, 1), date(1969, 12, 31), datetime(2020, 1, 1), datetime(1969, 12, 31, 23, 59)),
    datetime(2020, 1, 1, tzinfo=UTC),
    datetime(2020, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    *(Decimal("1"), Decimal("2.50"), Decimal("0.1"), Decimal(2**63)),
)
values = st.sampled_from((*NUMBERS, *OTHERS))
numbers = st.sampled_from(NUMBERS)
constants = values.map(Const)
not_nan = values.filter(lambda value: value == value).map(Const)

_FIELDS = tuple(Field((name,)) for name in "abc")


def conditions(fields: tuple[Field, ...] = _FIELDS) -> st.SearchStrategy[Predicate]:
    """Single conditions on these fields."""
    field = st.sampled_from(fields)
    return st.one_of(
        st.builds(Compare, st.sampled_from(OPS), field, constants),
        st.builds(Compare, st.sampled_from(OPS), field, field),
        st.builds(In, field, st.lists(not_nan, max_size=6, unique=True).map(tuple), st.booleans()),
        st.builds(IsNull, field),
        st.builds(Truthy, field),
        st.builds(Defined, field),
    )


def trees(fields: tuple[Field, ...] = _FIELDS) -> st.SearchStrategy[Predicate]:
    """Predicates as they come, not simplified."""

    def extend(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(
            st.builds(And, several),
            st.builds(Or, several),
            st.builds(Not, inner),
            st.builds(Defined, inner),
        )

    return st.recursive(conditions(fields) | st.sampled_from((TRUE, FALSE)), extend, max_leaves=8)


contents = st.fixed_dictionaries({}, optional=dict.fromkeys("abc", values)).map(
    lambda fields: SimpleNamespace(**fields)
)


def python(predicate: Predicate) -> str:
    """The predicate as a Python expression over `content`, written without the library's help."""
    match predicate:
        case And(parts):
            return "(" + " and ".join(map(python, parts)) + ")"
        case Or(parts):
            return "(" + " or ".join(map(python, parts)) + ")"
        case Not(part):
            return f"(not {python(part)})"
        case Compare(op, left, right):
            return f"({_operand(left)} {op} {_operand(right)})"
        case In(item, members, hashed):
            inner = "".join(f"{_operand(member)}, " for member in members)
            return f"({_operand(item)} in {'frozenset' if hashed else ''}(({inner})))"
        case IsNull(field):
            return f"({_operand(field)} is None)"
        case Truthy(field):
            return f"(True if {_operand(field)} else False)"
        case Defined(Field() as field):
            return f"({_operand(field)}, True)[1]"
        case Defined(part):
            return f"({python(part)}, True)[1]"
        case _:
            return str(predicate == TRUE)


def _operand(operand: Field | Const) -> str:
    if isinstance(operand, Field):
        return ".".join(("content", *operand.path))
    if isinstance(operand.value, float):
        return f"float('{operand.value!r}')"
    return repr(operand.value).replace("datetime.", "dt.")


def evaluate_python(predicate: Predicate, content: object) -> bool | None:
    """What Python makes of it: True, False, or None if it raises."""
    import datetime as dt

    try:
        return bool(eval(python(predicate), {"content": content, "dt": dt, "Decimal": Decimal}))
    except Exception:  # noqa: BLE001 - whatever Python raises
        return None
