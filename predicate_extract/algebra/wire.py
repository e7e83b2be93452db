"""The predicate as JSON: `{"version": 2, "predicate": ["or", […], […]]}`.

Data only. Reading checks every node, so what comes from a peer is either a predicate or an error.
"""

from __future__ import annotations

import json
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

VERSION = 2
MAX_DEPTH = 200


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
            return ["field", list(path), *([list(keyed)] if keyed else [])]
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


def _dump_constant(value: Any) -> list[Any]:
    if value is None or isinstance(value, bool | str):
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
        return [kind, value.of, value.name]
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


def _load_member(of: object, name: object) -> Member:
    if type(of) is not str or type(name) is not str:
        raise TypeError("an enum's member has two names")
    return Member(of, name)


_CONSTANTS: dict[str, Callable[..., Any]] = {
    "const": lambda value: value,
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
        case ["field", list(path)] if all(type(name) is str for name in path):
            return Field(tuple(path))
        case ["field", list(path), list(keyed)] if (
            len(path) == len(keyed)
            and all(type(flag) is bool for flag in keyed)
            and all(
                type(name) is str or (flag and type(name) is int)
                for name, flag in zip(path, keyed, strict=True)
            )
        ):
            return Field(tuple(path), tuple(keyed))
    raise PredicateFormatError(f"This is not a field: {str(tree)[:100]}")


def _load_constant(tree: Any) -> Const:
    kind, *arguments = tree
    value = _CONSTANTS[kind](*arguments)
    if not is_plain(value) or (kind == "const") != (value is None or type(value) in (bool, str)):
        raise PredicateFormatError(f"This is not a constant: {str(tree)[:100]}")
    return Const(value)
