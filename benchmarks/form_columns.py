"""The values of columns: what reads give on many contents, where a column can hold it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Any

KINDS = (bool, int, float, str, bytes, datetime, date, timedelta, list)
MISSING = object()
"""Where reading raises."""


class NoForm(Exception):
    """There is no function of columns that does what this filter does."""


def plain(value: Any) -> Any:
    """A value as a column holds it: the name of an enum's member, unless it is a number or text;
    of an object, that it is there."""
    if isinstance(value, Enum):
        return value.value if isinstance(value, int | str) else value.name
    if is_dataclass(value) and not isinstance(value, type):
        return True
    if isinstance(value, tuple | list | set | frozenset) and any(
        isinstance(item, Enum) for item in value
    ):
        return type(value)(map(plain, value))
    return value


def columns_of(
    reads: Mapping[str, Callable[[Any], Any]], contents: Sequence[Any]
) -> tuple[dict[str, list[Any]], list[int]]:
    """The columns, and which contents have a row."""
    every = {name: [plain(read(content)) for content in contents] for name, read in reads.items()}
    kinds = {name: kind_of(values) for name, values in every.items()}
    rows = [
        row
        for row in range(len(contents))
        if all(_fits(every[name][row], kind) for name, kind in kinds.items())
    ]
    return {
        name: [_as(values[row], kinds[name]) for row in rows] for name, values in every.items()
    }, rows


def kind_of(values: Sequence[Any]) -> type:
    """The type of a column: what most of its values are. Raises: NoForm."""
    types = Counter(type(value) for value in values if value is not None and value is not MISSING)
    kind = types.most_common(1)[0][0] if types else str
    if kind not in KINDS:
        raise NoForm(f"reads what no column holds: {kind.__name__}")
    return kind


def _fits(value: Any, kind: type) -> bool:
    if kind is list:
        return value is None or (isinstance(value, list) and all(isinstance(v, str) for v in value))
    return value is None or type(value) is kind or (kind is float and type(value) is int)


def _as(value: Any, kind: type) -> Any:
    return float(value) if kind is float and value is not None else value
