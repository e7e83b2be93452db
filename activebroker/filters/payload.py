"""A filter as it travels: a signed envelope around a cloudpickle.

The envelope can be read, shown and checked without running any code. `unpack` refuses a bad
signature, another protocol or another Python version *before* anything is unpickled. `load` makes
do with the predicate where that is exact and the code cannot run.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from activebroker.core.errors import (
    FilterNotPicklable,
    InvalidFilter,
    PayloadRefused,
    suggestion,
)
from activebroker.events import ANY, Batch, EventType, TypeDescription, TypeRegistry, describe
from activebroker.filters.definitions import is_live, meant, subtypes
from activebroker.filters.filter import FIFOFilter, FunctionFilter
from activebroker.filters.fitting import check_class, check_function
from activebroker.filters.keyed import KeyedFilter
from activebroker.filters.keys import check_keyed
from activebroker.filters.shipping import dumps, loads
from predicate_extract import Extraction, Predicate, PredicateFormatError

PAYLOAD_VERSION = 3
PYTHON_VERSION = (sys.version_info.major, sys.version_info.minor)


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker needs to know of a filter; `body` is the only part that is code."""

    version: int = PAYLOAD_VERSION
    python: tuple[int, int] = PYTHON_VERSION
    name: str
    source: str | None
    code_hash: str
    predicate: str  # JSON of a predicate_extract predicate
    exact: bool  # the predicate alone does all that the filter would
    only_looks: bool  # it does no more than look at an event, and forwards it as it came
    reads: tuple[str, ...] | None  # the fields it reads, if it forwards each event at once or never
    stateful: bool
    shared: bool
    on_error: Literal["skip", "stop"]
    idle_after: float | None
    output: TypeDescription
    body: bytes
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class Payload:
    """An unpacked envelope: how to make instances, and the event types on both sides.

    `values` are those that `reconfigure` sets. `stateless`: it is the predicate that decides, in
    place of the filter. `types` are the event types with the classes that the filter's code knows;
    `live`: it knows those that its module has now.
    """

    make: Callable[[], FIFOFilter]
    input: EventType
    output: EventType
    values: Mapping[str, Any] = field(default_factory=dict)
    stateless: bool = False
    types: TypeRegistry = field(default_factory=TypeRegistry)
    live: bool = False
    cls: type[FIFOFilter] = FIFOFilter

    def own(self, batch: Batch) -> Batch:
        """A batch as events of the filter's own classes, whichever this process knows besides."""
        batch = self.types.conform(batch, self.input)
        known = self.types.get(batch.type.fingerprint)
        if known is None and not issubclass(batch.type.cls, self.input.cls):
            known = self.types.resolve(describe(batch.type))
        if self.live:
            known = (known or batch.type).latest()
        return batch if known is None or known is batch.type else batch.as_type(known)

    def reconfigure(self, instance: FIFOFilter) -> None:
        """Give an instance its parameters: copies, so that instances share nothing."""
        if self.values:
            for name, value in copy.deepcopy(dict(self.values)).items():
                setattr(instance, name, value)


@dataclass(frozen=True, slots=True)
class FilterSpec:
    """What a user gave to `derive`, brought to one form: a class and its arguments, or an
    instance of which each stream gets its own copy; and the `values` that were set since."""

    cls: type[FIFOFilter]
    args: tuple[Any, ...] = ()
    instance: FIFOFilter | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code(self) -> tuple[Any, ...]:
        """All that is the user's."""
        return self.cls, self.args, self.instance, dict(self.values)

    @property
    def module(self) -> str:
        """The name of the module where its code is."""
        written = self.args[0] if self.cls is FunctionFilter else self.cls
        return getattr(written, "__module__", None) or ""

    def input_type(self, channel: EventType) -> EventType:
        """A channel's event type with the class that the filter's code means. Raises InvalidFilter
        where there are several of that name."""
        return meant(self.name, self.code, self.module, channel)

    @classmethod
    def of(cls, given: object) -> FilterSpec:
        """Accept a filter class, `(class, args…)`, an instance, or a plain function.

        Raises InvalidFilter where it is none of these.
        """
        instance = given if isinstance(given, FIFOFilter) else None
        head: object = given if instance is None else type(instance)
        args: tuple[Any, ...] = ()
        if isinstance(given, tuple) and given:
            head, args = given[0], given[1:]
        if isinstance(origin := typing.get_origin(head), type):
            if issubclass(origin, FIFOFilter):
                raise InvalidFilter(
                    f"{head} has type arguments, which mean nothing where the filter runs: derive "
                    f"{origin.__qualname__} itself."
                )
            head = origin
        if isinstance(head, type):
            if not issubclass(head, FIFOFilter):
                hint = "derive it from activebroker.FIFOFilter"
                if not callable(getattr(head, "enqueue", None)):
                    hint += " and give it a method enqueue(self, event)"
                raise InvalidFilter(f"{head.__qualname__} is not a filter class: {hint}.")
            if head.enqueue in (FIFOFilter.enqueue, KeyedFilter.enqueue) or not callable(
                head.enqueue
            ):
                raise InvalidFilter(
                    f"{head.__qualname__} has no enqueue of its own: define enqueue(self, event) "
                    "and forward with super().enqueue(event)."
                )
            _check_parameters(head)
            return cls(head, args, instance)
        if callable(head) and not args:
            return cls(FunctionFilter, (head,))
        raise InvalidFilter(
            "Expected a FIFOFilter class, (class, args…), an instance of one, or a function of the "
            f"content; got {given!r}."
        )

    def check(self, found: Extraction) -> None:
        """Raise InvalidFilter where it shows that the filter cannot run, or does nothing."""
        if self.cls is FunctionFilter:
            check_function(self.name, self.args[0])
        else:
            check_class(self.cls, self.args, self.instance, found)

    def reconfigured(self, values: Mapping[str, Any]) -> FilterSpec:
        """The same filter with other values of some attributes.

        Raises InvalidFilter where its class does not name one of them in `parameters`.
        """
        known = self.cls.parameters
        if not values:
            raise InvalidFilter(
                "reconfigure needs a parameter and its value: reconfigure(limit=200)."
                + (f" {self.name} has {', '.join(known)}." if known else "")
            )
        for name in values:
            if name not in known:
                raise InvalidFilter(
                    f"{self.name} has no parameter {name!r} to reconfigure."
                    + (
                        suggestion(name, known)
                        if known
                        else f" Name it in the class: parameters = ({name!r},)."
                    )
                )
        return replace(self, values={**self.values, **values})

    @property
    def name(self) -> str:
        """The name to show: the class's, or the function's for the shorthand."""
        if self.cls is FunctionFilter:
            return getattr(self.args[0], "__name__", repr(self.args[0]))
        return self.cls.__qualname__

    @property
    def output(self) -> type | None:
        return self.cls.output

    def output_type(self, input_type: EventType) -> EventType:
        """The event type of what the filter forwards. Raises EventTypeError."""
        return input_type if self.output is None else _event_type(self.output)


def _check_parameters(cls: type[FIFOFilter]) -> None:
    names = cls.parameters
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        raise InvalidFilter(
            f"{cls.__qualname__}.parameters is a tuple of names of attributes, as in "
            f'parameters = ("limit",); got {names!r}.'
        )
    if "timeout" in names:
        raise InvalidFilter(
            f"{cls.__qualname__} cannot have a parameter 'timeout' to reconfigure: that is an "
            "argument of reconfigure itself. Choose another name."
        )


def pack(
    spec: FilterSpec, input_type: EventType, extraction: Extraction, *, key: bytes
) -> Envelope:
    """Serialise a filter with what the analysis found in it, and sign it with `key`.

    Raises InvalidFilter for one that cannot run; UnknownField, where a keyed filter goes by a field
    that the events lack; FilterNotPicklable, with the reason, where the
    class holds something that cannot leave this process (a lock, a socket, an open file).
    """
    spec.check(extraction)
    check_keyed(spec.cls, input_type)
    output = spec.output_type(input_type)
    try:
        body = dumps(
            (*spec.code, input_type.cls, output.cls, subtypes(spec.code, spec.module, input_type))
        )
    except Exception as error:
        raise FilterNotPicklable(
            f"Filter {spec.name} cannot be shipped: {error}. Create such objects in on_start, "
            "which runs where the filter runs."
        ) from error
    keyed = issubclass(spec.cls, KeyedFilter)  # other methods than enqueue see events, too
    unsigned = Envelope(
        name=spec.name,
        source=extraction.source,
        code_hash=hashlib.sha256(body).hexdigest(),
        predicate=extraction.predicate.to_json(),
        # On an untyped channel the objects' own methods decide what a comparison means.
        exact=extraction.exact and input_type is not ANY and spec.output is None,
        only_looks=(extraction.exact or spec.cls is FunctionFilter) and spec.output is None,
        reads=_reads(extraction, input_type) if spec.output is None and not keyed else None,
        stateful=extraction.stateful,
        shared=spec.cls.shared,
        on_error=spec.cls.on_error,
        idle_after=spec.cls.idle_after,
        output=describe(output),
        body=body,
    )
    return msgspec.structs.replace(unsigned, signature=_sign(unsigned, key))


def _reads(extraction: Extraction, input_type: EventType) -> tuple[str, ...] | None:
    reads = extraction.reads
    names = () if input_type is ANY else input_type.schema.names
    # What it reads and is no field is a method, or a property, which may read any.
    if not extraction.as_it_is or reads is None or not reads <= set(names):
        return None
    return tuple(name for name in names if name in reads)


def verify(envelope: Envelope, key: bytes) -> None:
    """Raise PayloadRefused unless the envelope is whole, of our version and signed with `key`."""
    if not hmac.compare_digest(envelope.signature, _sign(envelope, key)):
        raise PayloadRefused(
            f"Filter {envelope.name}: the signature is not of this fabric's key. Connect with the "
            "fabric's key and derive again."
        )
    if envelope.version != PAYLOAD_VERSION:
        raise PayloadRefused(
            f"Filter {envelope.name} has payload version {envelope.version}; this process reads "
            f"{PAYLOAD_VERSION}. Use the same activebroker release on both sides."
        )
    if hashlib.sha256(envelope.body).hexdigest() != envelope.code_hash:
        raise PayloadRefused(f"Filter {envelope.name}: the code hash does not fit the code.")


def load(envelope: Envelope, key: bytes, registry: TypeRegistry) -> Payload:
    """Verify an envelope and make the best of it here.

    That is the filter; or its predicate, where that decides alone and the filter's code cannot
    run: no Python of it is needed then. Raises PayloadRefused.
    """
    try:
        payload = unpack(envelope, key)
    except PayloadRefused:
        verify(envelope, key)
        if not envelope.exact:
            raise
        try:
            predicate = Predicate.from_json(envelope.predicate)
        except PredicateFormatError as error:
            raise PayloadRefused(f"Filter {envelope.name} cannot be loaded here: {error}") from None
        type_ = registry.resolve(envelope.output)  # an exact filter forwards what it gets

        def holds(content: object) -> bool:
            return predicate.holds(lambda field: field.read(content))

        return Payload(lambda: FunctionFilter(holds), type_, type_, stateless=True)
    # Before the first event comes: the filter meets instances of its own classes.
    registry.register(payload.input)
    registry.register(payload.output)
    return payload


def unpack(envelope: Envelope, key: bytes) -> Payload:
    """Verify, then unpickle. Raises PayloadRefused in both steps."""
    verify(envelope, key)
    if tuple(envelope.python) != PYTHON_VERSION:
        raise PayloadRefused(
            f"Filter {envelope.name} was packed by Python {_dotted(envelope.python)}; this process "
            f"runs {_dotted(PYTHON_VERSION)}. Use the same minor version on both sides."
        )
    try:
        cls, args, instance, values, input_cls, output_cls, special = loads(
            envelope.body, FIFOFilter
        )
    except Exception as error:
        raise PayloadRefused(
            f"Filter {envelope.name} cannot be loaded here: {type(error).__name__}: {error}. "
            "Install what it imports there."
        ) from error

    def make() -> FIFOFilter:
        # Copies, so that the instances of several streams share nothing.
        made: FIFOFilter
        if instance is not None:
            made = copy.deepcopy(instance)
        else:
            made = cls(*copy.deepcopy(args)) if args else cls()
        payload.reconfigure(made)
        return made

    code = args[0] if cls is FunctionFilter else cls.enqueue
    payload = Payload(
        make, _event_type(input_cls), _event_type(output_cls), values, live=is_live(code), cls=cls
    )
    for each in (payload.input, payload.output, *map(_event_type, special)):
        payload.types.register(each)
    return payload


def _event_type(cls: type) -> EventType:
    return ANY if cls is object else EventType.of(cls)


def _sign(envelope: Envelope, key: bytes) -> bytes:
    unsigned = msgspec.structs.replace(envelope, signature=b"")
    return hmac.digest(key, msgspec.msgpack.encode(unsigned), "sha256")


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
