"""Event types and batches as bytes, for other processes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from activebroker.core.errors import EventTypeError, ProtocolError
from activebroker.events.batch import Batch
from activebroker.events.columns.checking import Layout
from activebroker.events.columns.generic import make_class
from activebroker.events.small_batch import SmallBatch, dump_lists, load_lists
from activebroker.events.types import ANY, EventType, remember, typed

# What reading a schema and making classes from it raise when a peer sends nonsense.
_MALFORMED = (
    pa.ArrowException,
    EventTypeError,
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RecursionError,
    struct.error,
)


MOST_TYPES = 10_000  # that a process knows from others
SCHEMA_BYTES = 1 << 20  # of one of them
_ARROW = b"\xff"  # how an Arrow IPC message begins, and no msgpack array does


class TypeDescription(msgspec.Struct, frozen=True):
    """An event type without its class: enough to check, route and decode its events."""

    name: str
    schema: bytes
    """The content's Arrow schema, as an IPC message."""
    parent: TypeDescription | None
    fingerprint: str
    """SHA-256, in hex, over names and fields of the type and its parents."""
    defaults: tuple[tuple[str, bytes], ...] = ()
    """Fields that have one, each with its default: a column of one row, as an IPC message."""

    @property
    def defaulted(self) -> tuple[str, ...]:
        """The fields that have a default."""
        return tuple(name for name, _ in self.defaults)


def describe(type: EventType) -> TypeDescription:
    """Describe an event type to another process."""
    parent = describe(type.parent) if type.parent else None
    schema = type.schema.serialize().to_pybytes()
    defaults = []
    for name, value in type.defaults.items():
        column = pa.record_batch([value], pa.schema([type.schema.field(name)]))
        defaults.append((name, column.serialize().to_pybytes()))
    return TypeDescription(type.name, schema, parent, type.fingerprint, tuple(defaults))


def differences(one: TypeDescription, other: TypeDescription) -> str:
    """Why these types of one name are not two versions of one type, whose events each can read as
    its own; empty if they are. In versions, all fields are equal, or have a default where they are.

    Raises `ProtocolError` as `resolve` does.
    """
    try:
        ours, theirs = (
            {field.name: field for field in pa.ipc.read_schema(pa.py_buffer(each.schema))}
            for each in (one, other)
        )
    except _MALFORMED as error:
        raise ProtocolError(f"an event type's description is malformed: {error}") from error
    parts = []
    if added := [name for name in ours if name not in theirs and name not in one.defaulted]:
        parts.append(f"adds {', '.join(map(repr, added))} without a default of its type")
    if lacking := [name for name in theirs if name not in ours and name not in other.defaulted]:
        parts.append(f"lacks {', '.join(map(repr, lacking))}, which has no default there")
    parts += [
        f"has {name!r} as {_spelt(field)}, not {_spelt(theirs[name])}"
        for name, field in ours.items()
        if name in theirs and not field.equals(theirs[name], check_metadata=True)
    ]
    return ", ".join(parts)


def _spelt(field: pa.Field) -> str:
    metadata = field.metadata or {}
    members = metadata.get(b"activebroker.members", b"").decode()
    return f"{field.type}{members}{' or None' if field.nullable else ''}"


class TypeRegistry:
    """The event types that a process knows, by fingerprint.

    A described type resolves to the registered class, else to a generic one made from the
    description: a frozen dataclass with the same fields, so that any process can decode.
    """

    def __init__(self) -> None:
        self._types = {ANY.fingerprint: ANY}
        self._versions: dict[tuple[str, type], EventType | None] = {}

    def register(self, type: EventType) -> None:
        """Remember a type and its parents. A real class takes the place of a generic one."""
        for ancestor in _lineage(type):
            known = self._types.get(ancestor.fingerprint)
            if known is None or known.generic:
                self._types[ancestor.fingerprint] = ancestor

    def get(self, fingerprint: str) -> EventType | None:
        """Return the type with this fingerprint, if it is known."""
        return self._types.get(fingerprint)

    def renew(self, batch: Batch) -> Batch:
        """The batch as events of the class that is known, and defined, now."""
        known = self._types.get(batch.type.fingerprint, batch.type).latest()
        return batch if known is batch.type else batch.as_type(known)

    def conform(self, batch: Batch, type: EventType) -> Batch:
        """The batch for a reader of events of this type: as it is if they are that; if they are of
        another version of it, or a subtype of one, with the reader's fields."""
        if type is ANY or batch.type.is_a(type):
            return batch
        own = self._version(batch.type, type)
        return batch if own is None else batch.with_fields_of(own)

    def _version(self, type: EventType, reader: EventType) -> EventType | None:
        """What events of a type are to a reader of one that it is not; None: something else."""
        key = type.fingerprint, reader.cls
        if key not in self._versions:
            if len(self._versions) >= MOST_TYPES:
                self._versions.clear()
            self._versions[key] = self._find_version(type, reader)
        return self._versions[key]

    def _find_version(self, type: EventType, reader: EventType) -> EventType | None:
        if type.name == reader.name and not differences(describe(reader), describe(type)):
            return reader
        if type.parent is None or (base := self._version(type.parent, reader)) is None:
            return None
        own = [field for field in type.schema if field.name not in type.parent.schema.names]
        defaults = {**type.defaults, **base.defaults}
        try:
            cls = make_class(type.name, [*base.schema, *own], base.cls)
            made = typed(cls, base, generic=True, defaults=defaults)
        except _MALFORMED:  # it adds what a version of its parent has, say
            return None
        return self._types.get(made.fingerprint, made)

    def resolve(self, description: TypeDescription) -> EventType:
        """Return the type described; raises `ProtocolError` if the description is inconsistent."""
        known = self._types.get(description.fingerprint)
        if known is None:
            size = len(description.schema) + sum(len(each) for _, each in description.defaults)
            if len(self._types) >= MOST_TYPES or size > SCHEMA_BYTES:
                raise ProtocolError(
                    f"event type {description.name!r} is one too many, or too large: a process "
                    f"knows {MOST_TYPES:,} at most, of {SCHEMA_BYTES:,} bytes each"
                )
            known = self._types[description.fingerprint] = self._generic(description)
        return known

    def _generic(self, description: TypeDescription) -> EventType:
        try:
            parent = self.resolve(description.parent) if description.parent else None
            schema = pa.ipc.read_schema(pa.py_buffer(description.schema))
            base = parent.cls if parent and _begins_with(schema, parent.schema) else None
            cls = make_class(description.name, list(schema), base)
            defaults = {
                name: _default(schema.field(name), message)
                for name, message in description.defaults
            }
            made = typed(cls, parent, generic=True, defaults=defaults)
        except (ProtocolError, *_MALFORMED) as error:
            raise ProtocolError(
                f"the description of event type {description.name!r} is malformed: {error}"
            ) from error
        if made.fingerprint != description.fingerprint:
            raise ProtocolError(
                f"the description of event type {description.name!r} has fingerprint "
                f"{description.fingerprint}, but describes {made.fingerprint}"
            )
        return remember(made)


def _default(field: pa.Field, message: bytes) -> pa.Array:
    column = Layout(pa.schema([field])).read(memoryview(message)).column(0)
    if len(column) != 1:
        raise ProtocolError(f"the default of {field.name!r} has {len(column)} rows")
    return column


def _begins_with(schema: pa.Schema, inherited: pa.Schema) -> bool:
    # Not so for a class with several dataclass bases: its generic class then stands alone.
    return bool(schema.names[: len(inherited)] == inherited.names)


def _lineage(type: EventType) -> list[EventType]:
    return [type, *(_lineage(type.parent) if type.parent else [])]


def dump(batch: Batch) -> list[Any]:
    """Return the batch as buffers to send: one Arrow IPC message, without its schema.

    The columns are copied once, into one buffer: cheaper than sending a dozen small ones. A
    small of events goes as msgpack instead.
    """
    if isinstance(batch, SmallBatch):
        return [dump_lists(batch)]
    return [batch.columns.serialize()]


def load(type: EventType, supplier: str, buffers: Sequence[Any]) -> Batch:
    """Return the batch that `dump` stored. Its columns are views of the buffer, not copies.

    Raises `ProtocolError` if the buffers do not hold a batch of this type.
    """
    if len(buffers) != 1:
        raise ProtocolError(f"a batch of {type.name} is one buffer, got {len(buffers)}")
    try:
        data = memoryview(buffers[0]).cast("B")
        if data[:1] != _ARROW:
            return load_lists(type, supplier, data)
        columns = type.layout.read(data)
    except (ProtocolError, *_MALFORMED) as error:
        raise ProtocolError(
            f"a batch of {type.name} from supplier {supplier!r} is malformed: {error}"
        ) from error
    return Batch(supplier, type, columns)
