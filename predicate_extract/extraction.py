"""`extract`: from a filter, or a predicate function, to its predicate."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType
from typing import TYPE_CHECKING

from predicate_extract.algebra.predicate import TRUE, Predicate
from predicate_extract.algebra.simplify import widened
from predicate_extract.analysis.changes import may_change_something
from predicate_extract.analysis.code import code_of
from predicate_extract.analysis.content import Content
from predicate_extract.analysis.fields import field_uses
from predicate_extract.analysis.filters import Analysis, Found
from predicate_extract.analysis.following import Hazards
from predicate_extract.analysis.instance import FilterInstance
from predicate_extract.analysis.passing import fields_read, forwards_as_it_is
from predicate_extract.analysis.source import Source, trusted_source
from predicate_extract.errors import NotAFilter
from predicate_extract.report import Extraction, FieldUse, Reason, Weaken

if TYPE_CHECKING:
    import pyarrow as pa

MAX_DEPTH = 100

FAULT = "fault"
"""The kind of the reason that tells of a fault in the analysis, not of something in the filter."""

_BEFORE = "derive a condition first, and this filter from its channel"

ROOM = 10_000
"""Nested calls: an item of a loop, or an `elif`, takes a dozen."""


def extract(
    target: object,
    *args: object,
    schema: pa.Schema | None = None,
    content: type | None = None,
    parameters: Mapping[str, object] | None = None,
    **kwargs: object,
) -> Extraction:
    """Find the predicate of a filter class, of an instance of one, or of a function of the content.

    `args` and `kwargs` are what a filter class will be constructed with; it may be constructed here
    to learn its constants. With a `schema`, only its fields count as plain data; without one, every
    attribute of the content does. `content` is the class of the contents: its properties, methods
    and constants are followed too. `parameters` are the values that attributes of a filter are
    given once it is made. What cannot be analysed weakens the predicate and never fails.

    A filter class may have the attribute `effects = "ignore"`: then an event that would only change
    its state, or be logged, need not arrive.

    Raises: NotAFilter, if the target is none of the three, or if only a class can take arguments.
    """
    known = Content(schema, content)
    return _unfailing(target, lambda: _extract(target, known, args, kwargs, parameters))


def _unfailing(target: object, extraction: Callable[[], Extraction]) -> Extraction:
    """The extraction; where the analysis itself is at fault, one that keeps every event."""
    try:
        return extraction()
    except NotAFilter:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the filter can still run
        fault = f"the analysis itself fails ({type(error).__name__}: {error})"
        name = getattr(target, "__qualname__", type(target).__qualname__)
        return _unknown(name, Weaken(FAULT, fault, "report this as a fault of it"), _Text())


def _extract(
    target: object,
    known: Content,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    parameters: Mapping[str, object] | None,
) -> Extraction:
    if isinstance(target, FunctionType):
        _refuse_arguments(target.__qualname__, args, kwargs)
        return _extract_function(target, known)
    if isinstance(target, type):
        if not callable(getattr(target, "enqueue", None)):
            raise NotAFilter(
                f"{target.__qualname__} is not a filter: it has no method enqueue(self, event)."
            )
        return _extract_filter(FilterInstance(target, None, args, kwargs, parameters), known)
    if isinstance(target, functools.partial):
        _refuse_arguments(repr(target), args, kwargs)
        return _extract_partial(target, known)
    cls = type(target)
    if callable(getattr(cls, "enqueue", None)):
        _refuse_arguments(f"an instance of {cls.__qualname__}", args, kwargs)
        return _extract_filter(FilterInstance(cls, target, (), {}, parameters), known)
    if callable(target):
        _refuse_arguments(repr(target), args, kwargs)
        name = getattr(target, "__qualname__", cls.__qualname__)
        weaken = Weaken(
            "no-source",
            f"{name} is a {cls.__name__}, not a plain function",
            "give a def or a lambda that takes the content",
        )
        return _unknown(name, weaken, _Text(as_it_is=True))
    raise NotAFilter(
        f"{target!r} is neither a filter class, nor an instance of one, nor a predicate function."
    )


def extract_unrun(target: type | FunctionType, hazards: Hazards) -> Extraction:
    """Find the predicate of a filter class, or a function, whose module is not to be run.

    `hazards` says where the analysis has to stop, and why.
    """
    content = Content(None, None)
    if isinstance(target, FunctionType):
        return _unfailing(target, lambda: _extract_function(target, content, hazards=hazards))
    instance = FilterInstance(target, None, (), {}, runs=False)
    return _unfailing(target, lambda: _extract_filter(instance, content, hazards))


@dataclass(frozen=True, slots=True)
class _Text:
    """What the text of a filter shows, followed or not."""

    source: Source | None = None
    uses: tuple[FieldUse, ...] = ()
    reads: frozenset[str] | None = None
    as_it_is: bool = False

    @classmethod
    def of_function(cls, source: Source, content: str | None) -> _Text:
        if content is None:
            return cls(source, as_it_is=True)
        uses = tuple(field_uses(source, content=content))
        return cls(source, uses, fields_read(source, content=content), as_it_is=True)

    @classmethod
    def of_enqueue(cls, source: Source, instance: FilterInstance) -> _Text:
        names = _parameters(source)
        if len(names) < 2:
            return cls(source)
        event = names[1]
        forwards = instance.forwards_itself and forwards_as_it_is(source, event)
        reads = fields_read(source, event=event) if instance.forwards_itself else None
        return cls(source, tuple(field_uses(source, event=event)), reads, forwards)


def _extract_function(
    function: FunctionType,
    content: Content,
    target: functools.partial[object] | None = None,
    hazards: Hazards | None = None,
) -> Extraction:
    name = function.__qualname__
    try:
        source = trusted_source(function)
    except Weaken as weaken:
        return _unknown(name, weaken, _Text(as_it_is=True))
    analysis = Analysis(content, hazards=hazards)
    given = target.args if target is not None else ()
    names = _parameters(source)[len(given) :]
    text = _Text.of_function(source, names[0] if names else None)
    try:
        keywords = target.keywords if target is not None else {}
        found = _followed(lambda: analysis.of_function(code_of(function), given, keywords))
    except Weaken as weaken:
        return _unknown(name, weaken, text)
    return _result(name, found, may_change_something(source, function), text)


def _extract_partial(target: functools.partial[object], content: Content) -> Extraction:
    function = target.func
    if not isinstance(function, FunctionType):
        name = getattr(function, "__qualname__", repr(function))
        weaken = Weaken("no-source", f"{name} is not a plain function", "give a def or a lambda")
        return _unknown(name, weaken, _Text(as_it_is=True))
    return _extract_function(function, content, target)


def _extract_filter(
    instance: FilterInstance, content: Content, hazards: Hazards | None = None
) -> Extraction:
    cls = instance.cls
    ignores = getattr(cls, "effects", "keep") == "ignore"
    analysis = Analysis(content, instance, ignores, hazards)
    text = _Text()
    enqueue = inspect.getattr_static(cls, "enqueue")
    try:
        if enqueue is not vars(instance.base or object).get("enqueue"):
            text = _Text.of_enqueue(_source_of(enqueue, cls), instance)
        _check_lookup(instance)
    except Weaken as weaken:
        text = replace(text, reads=None, as_it_is=False)
        return _unknown(cls.__qualname__, weaken, text, instance.stateful)
    stateful = instance.stateful or instance.keyed
    why = instance.every_event(content.typed)
    if why and not ignores:
        return _unknown(cls.__qualname__, Weaken("every-event", why, _BEFORE), text)
    try:
        found = _followed(analysis.of_filter)
    except Weaken as weaken:
        return _unknown(cls.__qualname__, weaken, text, stateful)
    line = text.source.first_line if text.source else 0
    hooks = tuple(
        Reason(line, hook, "hook", f"{hook} runs apart from the events, whatever they are")
        for hook in instance.overridden_hooks()
    )
    ignored = (Reason(line, cls.__qualname__, "every-event", why, _BEFORE),) if why else ()
    found = replace(found, reasons=(*found.reasons, *hooks, *ignored))
    return _result(cls.__qualname__, found, stateful, text)


def _followed(follow: Callable[[], Found]) -> Found:
    """Run an analysis, with room for code that is nested deeply."""
    # Raised for good: to lower it again could fail an analysis in another thread.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), ROOM))
    try:
        found = follow()
        if _depth(found.predicate) > MAX_DEPTH:
            raise RecursionError
    except RecursionError:
        raise Weaken("too-deep", "the code, or its condition, is nested too deeply") from None
    return found


def _result(name: str, found: Found, stateful: bool, text: _Text) -> Extraction:
    source = text.source
    reasons = tuple(sorted(dict.fromkeys(found.reasons), key=lambda reason: reason.line))
    return Extraction(
        name=name,
        # Only an exact predicate needs the difference between what is true and what raises.
        predicate=widened(found.predicate) if reasons else found.predicate,
        exact=not reasons,
        raises=not reasons and not found.catches,
        stateful=stateful and bool(reasons),  # where it is exact, it does nothing but forward
        reasons=reasons,
        fields=text.uses,
        source=source.text if source else None,
        filename=source.file.filename if source else None,
        first_line=source.first_line if source else 0,
        reads=text.reads,
        as_it_is=text.as_it_is or not reasons,
    )


def _unknown(name: str, weaken: Weaken, text: _Text, stateful: bool = True) -> Extraction:
    """Nothing is known: every event matches."""
    source = text.source
    line = source.first_line if source else 0
    code = source.file.lines[line - 1].strip() if source and line else name
    reason = Reason(line, code, weaken.kind, weaken.message, weaken.hint)
    return _result(name, Found(TRUE, (reason,)), stateful, text)


def _source_of(enqueue: object, cls: type) -> Source:
    if not isinstance(enqueue, FunctionType):
        raise Weaken("signature", f"{cls.__name__}.enqueue is not a plain method")
    return trusted_source(enqueue)


def _check_lookup(instance: FilterInstance) -> None:
    """Only if attributes are looked up the plain way is `enqueue` the method that runs."""
    cls = instance.cls
    for parent in instance.classes:
        if "__getattribute__" in vars(parent):
            raise Weaken("lookup", f"{parent.__name__} has its own __getattribute__")
    if "enqueue" in getattr(instance.given, "__dict__", {}):
        raise Weaken("lookup", f"this instance of {cls.__name__} has an enqueue of its own")


def _parameters(source: Source) -> list[str]:
    a = source.node.args
    return [argument.arg for argument in (*a.posonlyargs, *a.args)]


def _refuse_arguments(what: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    if args or kwargs:
        raise NotAFilter(f"Only a filter class takes constructor arguments; this is {what}.")


def _depth(predicate: Predicate) -> int:
    parts = [part for part in predicate.operands() if isinstance(part, Predicate)]
    return 1 + max(map(_depth, parts), default=0)
