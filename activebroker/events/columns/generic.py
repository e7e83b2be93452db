"""Classes for event types that this process knows from a description only."""

from __future__ import annotations

import dataclasses
import json
import keyword
import unicodedata
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Optional

import numpy as np
import pyarrow as pa

from activebroker.core.errors import ProtocolError
from activebroker.events.columns.annotations import Precision, Shape, Zone

_SIMPLE: dict[pa.DataType, Any] = {
    pa.int64(): int,
    pa.float64(): float,
    pa.bool_(): bool,
    pa.string(): str,
    pa.binary(): bytes,
    pa.date32(): date,
}


def make_class(name: str, fields: Sequence[pa.Field], base: type | None = None) -> type:
    """Make a dataclass with these fields, whose event type has the same schema again.

    With a `base`, whose fields must come first among `fields`, it is a subclass. It is frozen
    unless its base is not, and its own fields are keyword-only. Raises `ProtocolError` for a
    schema that no event type has.
    """
    inherited = {field.name for field in dataclasses.fields(base)} if base else frozenset()
    own = [(_checked(f.name), annotation_of(f)) for f in fields if f.name not in inherited]
    frozen = base is None or bool(getattr(base, "__dataclass_params__").frozen)  # noqa: B009
    return dataclasses.make_dataclass(
        _checked(name), own, bases=(base,) if base else (), frozen=frozen, kw_only=True
    )


def annotation_of(field: pa.Field) -> Any:
    """Return the annotation whose kind has this Arrow field."""
    metadata = field.metadata or {}
    kind = metadata.get(b"activebroker.kind", b"").decode()
    annotation: Any
    if kind == "enum":
        members = json.loads(metadata[b"activebroker.members"])
        annotation = _enum(metadata[b"activebroker.name"].decode(), members)
    elif kind == "array":
        dims = json.loads(metadata[b"activebroker.shape"])
        dtype = np.dtype(field.type.value_type.to_pandas_dtype()).name
        annotation = Annotated[np.ndarray, Shape(*dims, dtype=dtype)]
    elif kind == "struct":
        annotation = make_class(metadata[b"activebroker.name"].decode(), list(field.type))
    else:
        annotation = _of_type(field.type)
    return Optional[annotation] if field.nullable else annotation  # noqa: UP045


def _of_type(arrow: pa.DataType) -> Any:
    if arrow in _SIMPLE:
        return _SIMPLE[arrow]
    if pa.types.is_timestamp(arrow):
        return Annotated[datetime, Zone(arrow.tz)] if arrow.tz else datetime
    if pa.types.is_decimal(arrow):
        return Annotated[Decimal, Precision(arrow.precision, arrow.scale)]
    if pa.types.is_list(arrow):
        item: Any = annotation_of(arrow.value_field)
        return list[item]
    raise ProtocolError(f"a described event type has a field of {arrow}, which no event type has")


def _enum(name: str, members: list[str]) -> type[Enum]:
    return Enum(_checked(name), {member: member for member in members})  # type: ignore[return-value]


def _checked(name: str) -> str:
    # Names end up in generated source code, where Python reads them in their normal form.
    normal = unicodedata.normalize("NFKC", name) == name
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__") or not normal:
        raise ProtocolError(f"a described event type has the name {name!r}, not an identifier")
    return name
