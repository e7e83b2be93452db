"""The functions of a class that may run on an instance of it."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType, MemberDescriptorType

from predicate_extract.analysis.source import Source

MAKING = frozenset(("__init__", "__new__", "__post_init__"))
_DATACLASS_METHODS = frozenset(
    ("__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__replace__")
)


@dataclass(frozen=True, slots=True)
class ClassFunction:
    """A function of a class; `bound` when its first argument is the instance."""

    name: str
    function: FunctionType
    bound: bool


@dataclass(frozen=True, slots=True)
class Method:
    """The same, with its source."""

    name: str
    function: FunctionType
    source: Source
    bound: bool


def later(methods: Sequence[Method], base: type | None) -> list[Method]:
    """Those that may run when the instance is made: all but what only its making calls."""
    mentioned: set[str] = set()
    found: list[Method] = []

    def runs(method: Method) -> bool:
        called = callable(getattr(base, method.name, None)) or method.name[:2] == "__"
        return method.name in mentioned or (called and method.name not in MAKING)

    while more := [method for method in methods if method not in found and runs(method)]:
        found += more
        for method in more:
            mentioned |= _attributes(method)
    return [method for method in methods if method in found]


def mentions(method: Method, names: frozenset[str]) -> bool:
    """Whether a method reads, calls or sets an attribute of one of these names."""
    return not names.isdisjoint(_attributes(method))


def _attributes(method: Method) -> set[str]:
    return {node.attr for node in method.source.walk() if isinstance(node, ast.Attribute)}


def functions_of(cls: type, name: str, member: object) -> Iterator[ClassFunction | None]:
    inner: Sequence[object]
    match member:
        case FunctionType():
            generated = dataclasses.is_dataclass(cls) and name in _DATACLASS_METHODS
            inner, bound = ([] if generated else [member]), True
        case staticmethod() | classmethod():
            inner, bound = [member.__func__], isinstance(member, classmethod)
        case property():
            inner, bound = [f for f in (member.fget, member.fset, member.fdel) if f], True
        case type() | MemberDescriptorType():
            return
        case _ if hasattr(type(member), "__get__") and name not in ("__dict__", "__weakref__"):
            inner, bound = [None], True
        case _:
            return
    for function in inner:
        if not isinstance(function, FunctionType):
            yield None
            continue
        for each in _with_wrapped(function):
            yield ClassFunction(name, each, bound)


def _with_wrapped(function: FunctionType) -> Iterator[FunctionType]:
    """A function, and those that a decorator's function may call in its place."""
    yield function
    for cell in function.__closure__ or ():
        try:
            inner = cell.cell_contents
        except ValueError:
            continue
        if isinstance(inner, FunctionType):
            yield from _with_wrapped(inner)
