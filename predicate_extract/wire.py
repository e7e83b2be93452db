"""The predicate as JSON: `{"version": 1, "predicate": ["or", […], […]]}`.

Data only. Reading checks every node, so what comes from a peer is either a predicate or an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from predicate_extract.constants import Const, is_plain
from predicate_extract.errors import PredicateFormatError
from predicate_extract.predicate import (
    COMPARISONS,
    Always,
    And,
    Compare,
    Defined,
    Field,
    In,
    IsNull,
    Not,
    Operand,
    Or,
    Predicate,
    Truthy,
)

VERSION = 1
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
        return _load(document["predicate"], 0)
    except PredicateFormatError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise PredicateFormatError(f"This is not a predicate: {error}") from error


def _dump(node: Predicate | Operand) -> list[Any]:
    match node:
        case Field(path, keyed):
            return ["field", list(path), *([list(keyed)] if keyed else [])]
        case Const(value):
            return _dump_constant(value)
        case Always(value):
            return ["always", value]
        case Compare(op, left, right):
            return ["compare", op, _dump(left), _dump(right)]
        case In(item, values, hashed):
            return ["in", _dump(item), [_dump(value) for value in values], hashed]
        case IsNull(field):
            return ["null", _dump(field)]
        case Truthy(field):
            return ["truthy", _dump(field)]
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
    if isinstance(value, date):
        return [kind, value.isoformat()]
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


_CONSTANTS: dict[str, Callable[..., Any]] = {
    "const": lambda value: value,
    "int": lambda text: int(text, 16),
    "float": float.fromhex,
    "bytes": bytes.fromhex,
    "Decimal": Decimal,
    "date": date.fromisoformat,
    "datetime": _load_datetime,
}


def _load(tree: Any, depth: int) -> Predicate:
    if depth > MAX_DEPTH:
        raise PredicateFormatError(f"The predicate is deeper than {MAX_DEPTH} levels.")
    match tree:
        case ["always", bool(value)]:
            return Always(value)
        case ["compare", str(op), left, right] if op in COMPARISONS:
            return Compare(op, _load_operand(left), _load_operand(right))
        case ["in", item, list(values), bool(hashed)]:
            return In(_load_field(item), tuple(map(_load_constant, values)), hashed)
        case ["null", field]:
            return IsNull(_load_field(field))
        case ["truthy", field]:
            return Truthy(_load_field(field))
        case ["defined", ["field", *_] as field]:
            return Defined(_load_field(field))
        case ["defined", part]:
            return Defined(_load(part, depth + 1))
        case ["not", part]:
            return Not(_load(part, depth + 1))
        case ["and" | "or" as name, first, second, *more]:
            parts = tuple(_load(part, depth + 1) for part in (first, second, *more))
            return And(parts) if name == "and" else Or(parts)
    raise PredicateFormatError(f"This is not a node of a predicate: {str(tree)[:100]}")


def _load_operand(tree: Any) -> Operand:
    return _load_field(tree) if tree[:1] == ["field"] else _load_constant(tree)


def _load_field(tree: Any) -> Field:
    match tree:
        case ["field", list(path)] if all(type(name) is str for name in path):
            return Field(tuple(path))
        case ["field", list(path), list(keyed)] if (
            len(path) == len(keyed)
            and all(type(name) is str for name in path)
            and all(type(flag) is bool for flag in keyed)
        ):
            return Field(tuple(path), tuple(keyed))
    raise PredicateFormatError(f"This is not a field: {str(tree)[:100]}")


def _load_constant(tree: Any) -> Const:
    kind, *arguments = tree
    value = _CONSTANTS[kind](*arguments)
    if not is_plain(value) or (kind == "const") != (value is None or type(value) in (bool, str)):
        raise PredicateFormatError(f"This is not a constant: {str(tree)[:100]}")
    return Const(value)
