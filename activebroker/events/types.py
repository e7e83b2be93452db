"""Event types: a name, a schema and a parent; a dataclass on one side, Arrow on the other."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Mapping
from typing import Any, Protocol
from weakref import WeakValueDictionary

import msgspec
import pyarrow as pa

from activebroker.core.errors import EventRefused, EventTypeError
from activebroker.events.columns.annotations import record_of
from activebroker.events.columns.checking import Layout
from activebroker.events.columns.kinds import Misfit
from activebroker.events.columns.records import Record
from activebroker.events.columns.scalars import Int
from activebroker.events.columns.sizes import row_width
from activebroker.events.columns.untyped import Untyped

SEQ = pa.field("$seq", pa.int64(), nullable=False)
TIME = pa.field("$time", pa.int64(), nullable=False)


class Codec(Protocol):
    """How contents are checked, stored in columns and read back: a record, or untyped."""

    @property
    def schema(self) -> pa.Schema: ...
    @property
    def signature(self) -> str: ...
    def fits(self, content: Any, /) -> bool: ...
    def fit(self, content: Any, /) -> Any: ...
    def encode(self, contents: list[Any], /) -> list[pa.Array]: ...
    def decode(self, columns: list[pa.Array], rows: int, /) -> list[Any]: ...
    def sketch(self, columns: list[pa.Array], /) -> str: ...


class EventType:
    """What the events of a channel are. Get it with `EventType.of(dataclass)`; see also `ANY`.

    `schema` holds the content's columns, `batch_schema` those and the header's before them; as a
    `layout`, it reads batches from bytes. Two
    event types are equal when their fingerprints are: name, schema and parents decide, not the
    class object, so that a class and its copy in another process are one event type. `generic`
    tells that the class was made from a description, because this process lacks the real one. A
    row takes `fixed_width` bytes, and what it holds in the columns whose numbers are `varying`.
    Where a few events may be kept as lists (see `small_batch`), `listed` is the record, and `lists`
    reads them. `defaults` are columns of one row, by the fields that have one.
    """

    __slots__ = (
        "__weakref__",
        "_defaults",
        "_lineage",
        "batch_schema",
        "cls",
        "codec",
        "fingerprint",
        "fits",
        "fixed_width",
        "generic",
        "layout",
        "listed",
        "lists",
        "name",
        "parent",
        "schema",
        "varying",
    )

    def __init__(
        self,
        name: str,
        cls: type,
        codec: Codec,
        parent: EventType | None = None,
        generic: bool = False,
        defaults: Mapping[str, pa.Array] | None = None,
    ) -> None:
        self.name = name
        self.cls = cls
        self.codec = codec
        self.fits = codec.fits
        self.schema: pa.Schema = codec.schema
        self.batch_schema: pa.Schema = pa.schema([SEQ, TIME, *codec.schema])
        self.layout = Layout(self.batch_schema)
        widths = [row_width(field.type) for field in self.batch_schema]
        self.fixed_width = sum(width or 0 for width in widths)
        self.varying = [index for index, width in enumerate(widths) if width is None]
        self.listed = codec if isinstance(codec, Record) and codec.natives is not None else None
        natives = [Int.native] * 2 + (self.listed.natives or [] if self.listed else [])
        columns: Any = tuple(list.__class_getitem__(native) for native in natives)
        self.lists: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(tuple[columns])
        self.parent: EventType | None = parent
        self.generic = generic
        self._defaults = defaults
        described = f"{codec.signature}|{parent.fingerprint if parent else ''}"
        self.fingerprint: str = hashlib.sha256(described.encode()).hexdigest()
        own = frozenset({self.fingerprint})
        self._lineage: frozenset[str] = parent._lineage | own if parent else own

    @classmethod
    def of(cls, dataclass: type) -> EventType:
        """Return the event type of a dataclass; the same one each time, as long as it is in use.

        Raises `EventTypeError` naming class, field, annotation and what is supported.
        """
        if not isinstance(dataclass, type):
            record_of(dataclass)  # which says what is
        known = _types.get(dataclass) or _passing.get(dataclass)
        return known or remember(typed(dataclass, _parent_of(dataclass)))

    @property
    def defaults(self) -> Mapping[str, pa.Array]:
        if self._defaults is None:
            self._defaults = self.codec.defaults if isinstance(self.codec, Record) else {}
        return self._defaults

    def latest(self) -> EventType:
        """This event type with its class as that is defined now, if it was defined anew."""
        cls = self.cls
        if getattr(sys.modules.get(cls.__module__), cls.__name__, None) is cls:
            return self  # as nearly always: it is asked for each batch
        now = _named_as(cls)
        if now is cls or not (isinstance(now, type) and dataclasses.is_dataclass(now)):
            return self
        try:
            found = EventType.of(now)
        except EventTypeError:
            return self
        return found if found == self else self

    def is_a(self, other: EventType) -> bool:
        """Whether events of this type may be published where `other` is expected."""
        return other is ANY or other.fingerprint in self._lineage

    def check(self, content: Any, channel: str) -> Any:
        """Return the content to publish: as given, or with exact conversions made.

        Conversions are int to float, numpy scalars to Python's, a mapping to the dataclass. An
        instance of a subclass stays one; `concrete` tells its own event type. Raises
        `EventRefused` naming channel, field, what was expected and what was given.
        """
        if self.fits(content):
            return content
        try:
            return self.accept(content)
        except Misfit as misfit:
            raise refusal(channel, misfit) from None

    def accept(self, content: Any) -> Any:
        """As `check`, without a channel: raises `Misfit`."""
        if self.fits(content):
            return content
        concrete = self._subtype(content.__class__)
        return (concrete or self).codec.fit(content)

    def _subtype(self, cls: type) -> EventType | None:
        """The event type of the class, if its instances may be published as this type."""
        if self is ANY or cls is self.cls or not dataclasses.is_dataclass(cls):
            return None
        try:
            concrete = EventType.of(cls)
        except EventTypeError:
            if issubclass(cls, self.cls):
                raise  # it was meant as an event; otherwise it is refused like anything else
            return None
        return concrete if concrete.is_a(self) else None

    def concrete(self, content: Any) -> EventType:
        """The event type of a content that `check` returned: this one, or a subtype's."""
        if content.__class__ is self.cls or self is ANY:
            return self
        return EventType.of(content.__class__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EventType):
            return NotImplemented
        return self is other or self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> Any:
        return "ANY" if self is ANY else (EventType.of, (self.cls,))

    def __repr__(self) -> str:
        return f"<event type {self.name}: {', '.join(self.schema.names)}>"


ANY = EventType("any", object, Untyped())
"""The event type of channels without one: any picklable object. Every event type is one."""

_types: dict[type, EventType] = {}  # of classes that are there for good, in their modules
# Of others: with the filters of each process that derives come classes of their own.
_passing: WeakValueDictionary[type, EventType] = WeakValueDictionary()


def typed(
    cls: type,
    parent: EventType | None,
    generic: bool = False,
    defaults: Mapping[str, pa.Array] | None = None,
) -> EventType:
    """Make the event type of a dataclass, with the parent given; `defaults` are its own, unless
    others are given.

    Raises `EventTypeError` if the dataclass changes the type of a field that it inherits: a
    predicate on the parent must hold for the subtype too.
    """
    record = record_of(cls)
    kept = parent.codec.fields if parent and isinstance(parent.codec, Record) else {}
    for name, inherited in kept.items():
        own = record.fields[name]
        if own.classes != inherited.classes or own.signature not in (
            inherited.signature,
            inherited.signature.removesuffix(" | None"),
        ):
            raise EventTypeError(
                f"{cls.__qualname__}.{name}: a subtype must keep its parent's fields; "
                f"{parent.name if parent else ''} has {inherited.signature}, not {own.signature}"
                + (" (of another class)" if own.signature == inherited.signature else "")
            )
    return EventType(cls.__name__, cls, record, parent, generic, defaults)


def remember(type: EventType) -> EventType:
    """Make `EventType.of` return this type for its class."""
    return (_types if _named_as(type.cls) is type.cls else _passing).setdefault(type.cls, type)


def _named_as(cls: type) -> Any:
    """What bears a class's name in its module now; None where nothing does."""
    found: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return found


def _parent_of(cls: type) -> EventType | None:
    for base in cls.__mro__[1:]:
        if dataclasses.is_dataclass(base) and dataclasses.fields(base):
            return EventType.of(base)
    return None


def refusal(channel: str, misfit: Misfit) -> EventRefused:
    """The error for a misfit in what was published on a channel."""
    where = f"channel {channel!r}"
    if misfit.row is not None:
        where += f", row {misfit.row}"
    if misfit.path:
        where += f", field {misfit.path.removeprefix('.')!r}"
    return EventRefused(f"{where}: {misfit.text}")
