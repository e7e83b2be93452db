"""Random predicates and contents; a content is an object, so that a field can be missing."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace

from hypothesis import strategies as st

from predicate_extract import (
    FALSE,
    TRUE,
    And,
    Call,
    Compare,
    Const,
    Defined,
    Field,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    Term,
    Truthy,
)

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


# How each function is written in Python, for terms named x, y, z.
CALLS = {
    **{op: f"x {op} y" for op in ("+", "-", "*", "/", "//", "%", "&", "|", "^")},
    **{
        name: f"{name}(x)"
        for name in ("abs", "round", "int", "float", "str", "bool", "len", "hash")
    },
    **{name: f"{name}(x, y)" for name in ("min", "max")},
    **{name: f"math.{name}(x)" for name in ("isnan", "isfinite", "sqrt", "floor", "trunc")},
    **{
        name: f"x.{name}()"
        for name in (
            *("lower", "upper", "casefold", "title", "strip", "lstrip", "isdigit", "isalpha"),
            *("isspace", "weekday", "isoweekday", "date", "isoformat", "split"),
        )
    },
    **{name: f"x.{name}" for name in ("year", "month", "day", "hour", "minute", "microsecond")},
    **{
        name: f"x.{name}(y)"
        for name in ("startswith", "endswith", "strip", "removeprefix", "count", "find")
    },
    "neg": "-x",
    "replace": "x.replace(y, z)",
    "contains": "y in x",
    "concat": "format(x) + format(y)",
    "slice": "x[y:z]",
    "item": "x[y]",
    "get": "x.get(y, z)",
    "tuple": "(x, y)",
}


def calls(fields: tuple[Field, ...] = _FIELDS) -> st.SearchStrategy[Call]:
    """Functions of these fields and constants, one or two deep."""
    leaf = st.sampled_from(fields) | st.sampled_from(fields) | constants

    def over(inner: st.SearchStrategy[Term]) -> st.SearchStrategy[Call]:
        def build(name: str) -> st.SearchStrategy[Call]:
            count = sum(f"{arg}" in _names_in(CALLS[name]) for arg in "xyz")
            return st.tuples(*[inner] * count).map(lambda args: Call(name, args))

        return st.sampled_from(sorted(CALLS)).flatmap(build)

    return over(leaf) | over(leaf | over(leaf))


def _names_in(text: str) -> set[str]:
    return set(re.findall(r"\b[xyz]\b", text))


def conditions_on_calls(fields: tuple[Field, ...] = _FIELDS) -> st.SearchStrategy[Predicate]:
    """Single conditions on functions of these fields."""
    call, other = calls(fields), st.sampled_from(fields)
    members = st.lists(not_nan, max_size=3, unique=True).map(tuple)
    return st.one_of(
        st.builds(Compare, st.sampled_from(OPS), call, constants),
        st.builds(Compare, st.sampled_from(OPS), call, other | call),
        st.builds(In, call, members, st.booleans()),
        st.builds(IsNull, call),
        st.builds(Truthy, call),
        st.builds(Defined, call),
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


def _operand(operand: Term) -> str:
    if isinstance(operand, Field):
        return ".".join(("content", *map(str, operand.path)))
    if isinstance(operand, Call):
        names = dict(zip("xyz", map(_operand, operand.args), strict=False))
        text = re.sub(r"\b[xyz]\b", lambda found: f"({names[found[0]]})", CALLS[operand.function])
        return f"({text})"
    assert isinstance(operand, Const)
    if isinstance(operand.value, float):
        return f"float('{operand.value!r}')"
    return repr(operand.value).replace("datetime.", "dt.")


def evaluate_python(predicate: Predicate, content: object) -> bool | None:
    """What Python makes of it: True, False, or None if it raises."""
    import datetime as dt

    try:
        names = {"content": content, "dt": dt, "Decimal": Decimal, "math": math}
        return bool(eval(python(predicate), names))
    except Exception:  # noqa: BLE001 - whatever Python raises
        return None
