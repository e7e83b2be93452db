"""The predicate as JSON: `{"version": 3, "predicate": ["or", […], […]]}`.

Data only. Reading checks every node, so what comes from a peer is either a predicate or an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from predicate_extract.algebra.constants import Member, is_plain
from predicate_extract.algebra.functions import FUNCTIONS
from predicate_extract.algebra.predicate import (
    COMPARISONS,
    Always,
    And,
    Compare,
    Defined,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    Truthy,
)
from predicate_extract.algebra.terms import Call, Const, Field, Term
from predicate_extract.errors import PredicateFormatError

VERSION = 3
MAX_DEPTH = 200
_SURROGATE = re.compile("[\ud800-\udfff]")


def to_json(predicate: Predicate) -> str:
    """The wire form of a predicate."""
    tree = _dump(predicate)
    return json.dumps({"version": VERSION, "predicate": tree}, separators=(",", ":"))


def from_json(text: str | bytes) -> Predicate:
    """Read the wire form.

    Raises: PredicateFormatError if it is not one, of another version, or deeper than `MAX_DEPTH`.
    """
    try:
        document = json.loads(text)
        version = document["version"]
        if version != VERSION:
            raise PredicateFormatError(
                f"The predicate has version {version!r}; this release reads version {VERSION}."
            )
        return _predicate(document["predicate"], 0)
    except PredicateFormatError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise PredicateFormatError(f"This is not a predicate: {error}") from error


def _dump(node: Term) -> list[Any]:
    match node:
        case Field(path, keyed):
            steps = [_text(key) if isinstance(key, str) else key for key in path]
            return ["field", steps, *([list(keyed)] if keyed else [])]
        case Const(value):
            return _dump_constant(value)
        case Call(function, args):
            return ["call", function, *map(_dump, args)]
        case Always(value):
            return ["always", value]
        case Compare(op, left, right):
            return ["compare", op, _dump(left), _dump(right)]
        case In(item, values, hashed):
            return ["in", _dump(item), [_dump(value) for value in values], hashed]
        case IsNull(of):
            return ["null", _dump(of)]
        case Truthy(of):
            return ["truthy", _dump(of)]
        case Defined(of):
            return ["defined", _dump(of)]
        case Not(part):
            return ["not", _dump(part)]
        case And(parts) | Or(parts):
            name = "and" if isinstance(node, And) else "or"
            return [name, *map(_dump, parts)]
    raise TypeError(f"{type(node).__name__} is not a node of a predicate")


def _text(text: str) -> str | list[str]:
    """A text; one with lone surrogates by its characters, for JSON joins two of them to one."""
    return list(text) if _SURROGATE.search(text) else text


def _dump_constant(value: Any) -> list[Any]:
    if isinstance(value, str):
        text = _text(value)
        return ["const", text] if text is value else ["str", *text]
    if value is None or isinstance(value, bool):
        return ["const", value]
    kind = type(value).__name__
    if isinstance(value, datetime) and isinstance(value.tzinfo, ZoneInfo):
        return [kind, value.replace(tzinfo=None).isoformat(), value.tzinfo.key, value.fold]
    if isinstance(value, datetime) and value.tzinfo is not None:
        offset = value.utcoffset() or timedelta(0)
        micros = offset // timedelta(microseconds=1)
        return [kind, value.replace(tzinfo=None).isoformat(), micros, value.fold]
    if isinstance(value, datetime):
        return [kind, value.isoformat(), None, value.fold]
    if isinstance(value, date | time):
        return [kind, value.isoformat()]
    if isinstance(value, timedelta):
        return [kind, value.days, value.seconds, value.microseconds]
    if isinstance(value, Member):
        return [kind, value.of, value.name, value.home]
    if isinstance(value, int):
        return [kind, hex(value)]
    if isinstance(value, bytes):
        return [kind, value.hex()]
    return [kind, value.hex() if isinstance(value, float) else str(value)]


def _load_datetime(text: str, zone: str | int | None, fold: int) -> datetime:
    plain = datetime.fromisoformat(text).replace(fold=fold)
    if zone is None:
        return plain
    if isinstance(zone, str):
        return plain.replace(tzinfo=ZoneInfo(zone))
    return plain.replace(tzinfo=timezone(timedelta(microseconds=zone)))


def _load_member(*names: object) -> Member:
    if len(names) != 3 or any(type(name) is not str for name in names):
        raise TypeError("an enum's member has three names")
    return Member(*names)  # type: ignore[arg-type]


_CONSTANTS: dict[str, Callable[..., Any]] = {
    "const": lambda value: value,
    "str": lambda *characters: "".join(characters),
    "int": lambda text: int(text, 16),
    "float": float.fromhex,
    "bytes": bytes.fromhex,
    "Decimal": Decimal,
    "date": date.fromisoformat,
    "datetime": _load_datetime,
    "time": time.fromisoformat,
    "timedelta": timedelta,
    "Member": _load_member,
}


def _predicate(tree: Any, depth: int) -> Predicate:
    node = _load(tree, depth)
    if not isinstance(node, Predicate):
        raise PredicateFormatError(f"This is not a condition: {str(tree)[:100]}")
    return node


def _load(tree: Any, depth: int) -> Term:
    if depth > MAX_DEPTH:
        raise PredicateFormatError(f"The predicate is deeper than {MAX_DEPTH} levels.")
    deeper = depth + 1
    match tree:
        case ["field", *_]:
            return _load_field(tree)
        case ["call", str(function), *args] if function in FUNCTIONS:
            return Call(function, tuple(_load(arg, deeper) for arg in args))
        case ["always", bool(value)]:
            return Always(value)
        case ["compare", str(op), left, right] if op in COMPARISONS:
            return Compare(op, _load(left, deeper), _load(right, deeper))
        case ["in", item, list(values), bool(hashed)]:
            return In(_load(item, deeper), tuple(map(_load_constant, values)), hashed)
        case ["null", of]:
            return IsNull(_load(of, deeper))
        case ["truthy", of]:
            return Truthy(_load(of, deeper))
        case ["defined", of]:
            return Defined(_load(of, deeper))
        case ["not", part]:
            return Not(_predicate(part, deeper))
        case ["and" | "or" as name, first, second, *more]:
            parts = tuple(_predicate(part, deeper) for part in (first, second, *more))
            return And(parts) if name == "and" else Or(parts)
        case [str(kind), *_] if kind in _CONSTANTS:
            return _load_constant(tree)
    raise PredicateFormatError(f"This is not a node of a predicate: {str(tree)[:100]}")


def _load_field(tree: Any) -> Field:
    match tree:
        case ["field", list(steps)]:
            flags = [False] * len(steps)
        case ["field", list(steps), list(flags)] if len(flags) == len(steps):
            pass
        case _:
            raise PredicateFormatError(f"This is not a field: {str(tree)[:100]}")
    path = tuple("".join(step) if type(step) is list else step for step in steps)
    for key, keyed in zip(path, flags, strict=True):
        if type(keyed) is not bool or not (type(key) is str or (keyed and type(key) is int)):
            raise PredicateFormatError(f"This is not a field: {str(tree)[:100]}")
    return Field(path, tuple(flags))


def _load_constant(tree: Any) -> Const:
    kind, *arguments = tree
    value = _CONSTANTS[kind](*arguments)
    simple = value is None or type(value) in (bool, str)
    if not is_plain(value) or (kind in ("const", "str")) != simple:
        raise PredicateFormatError(f"This is not a constant: {str(tree)[:100]}")
    return Const(value)
