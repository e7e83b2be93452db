"""The functions that a predicate's terms may apply: a closed table, each with Python's results.

A function is data on the wire: its name. `run` is what Python does with plain values; for anything
else it raises, which sends the event to the filter, so a class of one's own with a method `lower`
is never called here, and nothing is computed that may take long (see `cost`). `safe` lists the
families of arguments (see `schema.family`), none of them null, for which the filter surely does not
raise, with the family of the result.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from predicate_extract.algebra.constants import Member
from predicate_extract.algebra.cost import (
    check_all,
    check_separator,
    check_size,
    formatted,
    integer,
    replaced,
    rounded,
)
from predicate_extract.algebra.linear import NotLinear, linear

Family = str
Signatures = dict[tuple[Family, ...], Family]

NUMBERS = (bool, int, float, Decimal)
_TEXT = (str, bytes)
_MOMENTS = (date, datetime, time, timedelta)
_SEQUENCES = (list, tuple, range)
_COLLECTIONS = (*_SEQUENCES, set, frozenset, dict)
_SIZED = frozenset((int, Decimal, range))
PLAIN = frozenset((*NUMBERS, *_TEXT, *_MOMENTS, *_COLLECTIONS, type(None), Member))

ISINSTANCE: dict[str, type] = {
    "Mapping": Mapping,
    "Sequence": Sequence,
    **{
        t.__name__: t
        for t in (*NUMBERS, *_TEXT, *_MOMENTS, list, tuple, set, frozenset, dict, type(None))
    },
}


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the table; `symbol` where it is written between or before its arguments."""

    run: Callable[..., Any]
    safe: Signatures
    symbol: bool = False


def method(name: str, *types: type) -> Callable[..., Any]:
    """The method of exactly these types."""
    of_type = {type: getattr(type, name) for type in types}

    def run(receiver: object, *args: object) -> object:
        return of_type[_exact(receiver, of_type)](receiver, *args)

    return run


def on(function: Callable[..., Any], *types: type) -> Callable[..., Any]:
    """A function whose arguments are exactly of these types."""

    def run(*args: object) -> object:
        for arg in args:
            _exact(arg, types)
        return function(*args)

    return run


def attribute(name: str, *types: type) -> Callable[..., Any]:
    """An attribute of exactly these types."""

    def run(receiver: object) -> object:
        _exact(receiver, types)
        return getattr(receiver, name)

    return run


def splitting(name: str) -> Callable[..., Any]:
    """A method of texts that compares each place with a whole text."""
    of_text = method(name, *_TEXT)

    def run(text: object, *args: object) -> object:
        for arg in args:
            if isinstance(arg, _TEXT):
                check_separator(arg)
        return of_text(text, *args)

    return run


def _exact(value: object, types: Iterable[type]) -> type:
    kind = type(value)
    if kind not in types:
        raise TypeError(f"{kind.__name__} is not a plain value here")
    if kind in _SIZED:
        check_size(value)
    return kind


def _replaced(text: Any, *args: Any) -> object:
    _exact(text, _TEXT)
    return replaced(text, *args)


def _sum(values: Any) -> object:
    _exact(values, _SEQUENCES)
    check_all(values)
    return sum(values)


def _added(left: object, right: object) -> object:
    kinds = (*NUMBERS, *_TEXT, *_MOMENTS, list, tuple)
    _exact(left, kinds)
    _exact(right, kinds)
    return left + right  # type: ignore[operator]


def _contains(container: object, item: object) -> object:
    if isinstance(container, Mapping):
        return item in container
    if type(container) is range and type(item) in (int, bool):  # computed, whatever its length
        return item in container
    _exact(container, (*_TEXT, *_COLLECTIONS))
    return item in container  # type: ignore[operator]


def _get(container: object, key: object, default: object) -> object:
    if not isinstance(container, Mapping):
        raise TypeError(f"{type(container).__name__} is not a mapping")
    return container.get(key, default)


def _deep_get(container: Any, *keys_and_default: object) -> object:
    """The method of mappings that detection rules are given: a plain dict has none, and raises."""
    *keys, default = keys_and_default
    return type(container).deep_get(container, *keys, default=default)


def _slice(container: Any, low: object, high: object) -> object:
    _exact(container, (*_TEXT, *_SEQUENCES))
    return container[low:high]


def _item(container: Any, key: object) -> object:
    if not isinstance(container, Mapping):
        _exact(container, (*_TEXT, *_SEQUENCES))
    return container[key]


def _concat(*parts: object) -> str:
    for part in parts:
        _exact(part, (*NUMBERS, *_TEXT, *_MOMENTS, type(None)))
    return "".join(format(part) for part in parts)


def _regex(how: str) -> Callable[..., Any]:
    def run(text: Any, pattern: str | bytes, flags: int = 0) -> object:
        kind = _exact(text, _TEXT)
        if type(pattern) is not kind:
            raise TypeError("text is matched with a pattern of text, bytes with one of bytes")
        return True if linear(pattern, flags, how).matches(how, text) else None

    return run


def compiles(pattern: str, flags: int, how: str) -> bool:
    """Whether a regular expression is one that can be decided here."""
    try:
        linear(pattern, flags, how)
    except NotLinear:
        return False
    return True


def _isinstance(value: object, *names: str) -> bool:
    return isinstance(value, tuple(ISINSTANCE[name] for name in names))


def _timestamp(moment: object) -> float:
    _exact(moment, (datetime,))
    if moment.utcoffset() is None:  # type: ignore[attr-defined]
        raise TypeError("what a naive datetime stands for depends on the machine")
    return moment.timestamp()  # type: ignore[attr-defined,no-any-return]


def _dict(*keys_and_values: object) -> dict[object, object]:
    return dict(zip(keys_and_values[::2], keys_and_values[1::2], strict=True))


MATCHING = frozenset(("search", "match", "fullmatch"))
_INT, _FLOAT, _STR = "integer", "float", "str"
_NUMERIC: Signatures = {
    (_INT, _INT): _INT,
    (_FLOAT, _FLOAT): _FLOAT,
    (_INT, _FLOAT): _FLOAT,
    (_FLOAT, _INT): _FLOAT,
}
_MOMENT = [("date",), ("naive",), ("aware",)]


def _text(result: Family, *more: Family) -> Signatures:
    return {(_STR, *more): result}


def _methods() -> dict[str, Function]:
    table: dict[str, Function] = {}
    for name in ("lower", "upper", "title", "capitalize", "swapcase"):
        table[name] = Function(method(name, *_TEXT), _text(_STR))
    table["casefold"] = Function(method("casefold", str), _text(_STR))
    for name in ("strip", "lstrip", "rstrip"):
        table[name] = Function(splitting(name), _text(_STR) | _text(_STR, _STR))
    for name in ("removeprefix", "removesuffix"):
        table[name] = Function(method(name, *_TEXT), _text(_STR, _STR))
    for name in ("startswith", "endswith"):
        table[name] = Function(method(name, *_TEXT), _text(_INT, _STR))
    for name in ("isdigit", "isalpha", "isalnum", "isupper", "islower", "isspace", "isascii"):
        table[name] = Function(method(name, *_TEXT), _text(_INT))
    for name in ("isnumeric", "isdecimal", "isidentifier", "isprintable"):
        table[name] = Function(method(name, str), _text(_INT))
    table["replace"] = Function(_replaced, _text(_STR, _STR, _STR))
    table["count"] = Function(method("count", *_TEXT, *_SEQUENCES), _text(_INT, _STR))
    table["find"] = Function(method("find", *_TEXT), _text(_INT, _STR))
    table["split"] = Function(method("split", *_TEXT), _text("list"))
    table["splitlines"] = Function(method("splitlines", *_TEXT), _text("list"))
    table["partition"] = Function(method("partition", *_TEXT), {})
    table["rpartition"] = Function(splitting("rpartition"), {})
    table["rsplit"] = Function(splitting("rsplit"), _text("list"))
    for name in ("year", "month", "day"):
        table[name] = Function(attribute(name, date, datetime), dict.fromkeys(_MOMENT, _INT))
    for name in ("hour", "minute", "second", "microsecond"):
        table[name] = Function(attribute(name, datetime, time), dict.fromkeys(_MOMENT[1:], _INT))
    for name in ("weekday", "isoweekday"):
        table[name] = Function(method(name, date, datetime), dict.fromkeys(_MOMENT, _INT))
    table["time"] = Function(method("time", datetime), dict.fromkeys(_MOMENT[1:], "time"))
    table["date"] = Function(method("date", datetime), dict.fromkeys(_MOMENT[1:], "date"))
    table["isoformat"] = Function(method("isoformat", date, datetime), dict.fromkeys(_MOMENT, _STR))
    table["timestamp"] = Function(_timestamp, {})
    table["total_seconds"] = Function(method("total_seconds", timedelta), {("delta",): _FLOAT})
    for name in ("days", "seconds", "microseconds"):
        table[name] = Function(attribute(name, timedelta), {("delta",): _INT})
    table["bit_length"] = Function(method("bit_length", int, bool), {(_INT,): _INT})
    table["is_integer"] = Function(method("is_integer", float), {(_FLOAT,): _INT})
    table["get"] = Function(_get, {})
    table["deep_get"] = Function(_deep_get, {})
    table["keys"] = Function(lambda mapping: frozenset(_mapping(mapping).keys()), {})
    table["isdisjoint"] = Function(method("isdisjoint", set, frozenset), {})
    return table


def _mapping(value: object) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__} is not a mapping")
    return value


_NUMBER = [(_INT,), (_FLOAT,)]

METHODS = _methods()

FUNCTIONS: dict[str, Function] = {
    "+": Function(_added, _NUMERIC | _text(_STR, _STR), symbol=True),
    "-": Function(on(operator.sub, *NUMBERS, *_MOMENTS), _NUMERIC, symbol=True),
    "*": Function(on(operator.mul, *NUMBERS, timedelta), _NUMERIC, symbol=True),
    # Division by a constant other than zero is safe too: see `schema.family_of_term`.
    "/": Function(on(operator.truediv, *NUMBERS, timedelta), {}, symbol=True),
    "//": Function(on(operator.floordiv, *NUMBERS, timedelta), {}, symbol=True),
    "%": Function(on(operator.mod, *NUMBERS, timedelta), {}, symbol=True),
    "&": Function(on(operator.and_, bool, int), {(_INT, _INT): _INT}, symbol=True),
    "|": Function(on(operator.or_, bool, int), {(_INT, _INT): _INT}, symbol=True),
    "^": Function(on(operator.xor, bool, int), {(_INT, _INT): _INT}, symbol=True),
    "neg": Function(
        on(operator.neg, *NUMBERS, timedelta), {(_INT,): _INT, (_FLOAT,): _FLOAT}, symbol=True
    ),
    "abs": Function(on(abs, *NUMBERS, timedelta), {(_INT,): _INT, (_FLOAT,): _FLOAT}),
    "min": Function(on(min, *NUMBERS, *_TEXT, *_MOMENTS), _NUMERIC | _text(_STR, _STR)),
    "max": Function(on(max, *NUMBERS, *_TEXT, *_MOMENTS), _NUMERIC | _text(_STR, _STR)),
    "round": Function(on(rounded, *NUMBERS), {(_INT,): _INT, (_INT, _INT): _INT}),
    "int": Function(on(integer, *NUMBERS, *_TEXT), {(_INT,): _INT}),
    "float": Function(on(float, *NUMBERS, *_TEXT), dict.fromkeys(_NUMBER, _FLOAT)),
    "str": Function(
        on(str, *NUMBERS, str, *_MOMENTS, type(None)),
        dict.fromkeys([*_NUMBER, (_STR,), *_MOMENT], _STR),
    ),
    "bool": Function(on(bool, *PLAIN), dict.fromkeys([*_NUMBER, (_STR,), *_MOMENT], _INT)),
    "len": Function(
        on(len, *_TEXT, *_COLLECTIONS), {(_STR,): _INT, ("bytes",): _INT, ("list",): _INT}
    ),
    "sum": Function(_sum, {}),
    "any": Function(on(any, *_SEQUENCES), {("list",): _INT}),
    "all": Function(on(all, *_SEQUENCES), {("list",): _INT}),
    "hash": Function(lambda value: hash(value), dict.fromkeys([*_NUMBER, (_STR,), *_MOMENT], _INT)),
    "isnan": Function(on(math.isnan, *NUMBERS), dict.fromkeys(_NUMBER, _INT)),
    "isinf": Function(on(math.isinf, *NUMBERS), dict.fromkeys(_NUMBER, _INT)),
    "isfinite": Function(on(math.isfinite, *NUMBERS), dict.fromkeys(_NUMBER, _INT)),
    "sqrt": Function(on(math.sqrt, *NUMBERS), {}),
    "floor": Function(on(math.floor, *NUMBERS), {(_INT,): _INT}),
    "ceil": Function(on(math.ceil, *NUMBERS), {(_INT,): _INT}),
    "trunc": Function(on(math.trunc, *NUMBERS), {(_INT,): _INT}),
    **{how: Function(_regex(how), {}) for how in sorted(MATCHING)},
    "contains": Function(_contains, {(_STR, _STR): _INT}),
    "isinstance": Function(_isinstance, {}),
    "hasattr": Function(hasattr, {}),
    "getattr": Function(getattr, {}),
    "item": Function(_item, {}),
    "slice": Function(_slice, {}),
    "concat": Function(_concat, {}),
    "format": Function(on(formatted, *NUMBERS, *_TEXT, *_MOMENTS), {}),
    "tuple": Function(lambda *items: items, {}),
    "list": Function(lambda *items: list(items), {}),
    "set": Function(lambda *items: set(items), {}),
    "dict": Function(_dict, {}),
    "range": Function(on(range, int), {}),
    **METHODS,
}
