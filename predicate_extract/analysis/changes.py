"""Whether a function may change anything that outlives its call.

What its text shows decides, and the values of the names that it does not bind itself. Where these
are constants, modules, and functions that change nothing either, all else belongs to the call: what
the function is given, and what it makes. Methods of what it is given count as changing no more than
that.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import dis
import inspect
import re
from collections.abc import Iterator
from enum import Enum, EnumType
from functools import cached_property
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, ModuleType
from typing import Any

from predicate_extract.algebra.constants import is_plain
from predicate_extract.analysis.bindings import bound_name
from predicate_extract.analysis.effects import PURE_BUILTINS, self_name
from predicate_extract.analysis.scope import is_mutable, only_reads
from predicate_extract.analysis.source import Source, trusted_source
from predicate_extract.report import Weaken

_READERS = (
    *(ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp),
    *(ast.If, ast.IfExp, ast.While, ast.Assert),
)
_BUILTINS = PURE_BUILTINS | {
    *("all", "any", "ascii", "bin", "bytearray", "callable", "chr", "complex", "divmod"),
    *("enumerate", "filter", "format", "getattr", "hasattr", "hash", "hex", "isinstance"),
    *("issubclass", "iter", "map", "next", "object", "oct", "ord", "pow", "range", "repr"),
    *("reversed", "slice", "super", "type", "zip"),
}
# Their functions and classes change nothing but what they are given, except for some.
_MODULES = frozenset(
    {
        *("_decimal", "_hashlib", "_operator", "_struct", "base64", "binascii", "bisect"),
        *("cmath", "collections", "copy", "dataclasses", "datetime", "decimal", "difflib"),
        *("fractions", "hashlib", "html", "itertools", "json", "math", "numpy", "numpy.fft"),
        *("numpy.linalg", "operator", "re", "statistics", "string", "struct", "textwrap"),
        *("unicodedata", "urllib.parse", "zlib", "zoneinfo"),
    }
)
_EXCEPTIONS = ("save", "set")
_CHANGING = frozenset(
    {
        *("add", "append", "appendleft", "clear", "discard", "extend", "fill", "insert", "pop"),
        *("popitem", "popleft", "put", "remove", "reverse", "send", "setdefault", "sort"),
        *("update", "write"),
    }
)
_MISSING = object()


def may_change_something(
    source: Source,
    function: FunctionType,
    methods: frozenset[str] = frozenset(),
    within: frozenset[CodeType] = frozenset(),
) -> bool:
    """Whether a function may change anything that outlives its call.

    `methods` are the names of methods that are looked at on their own, `within` the code that is
    being looked at.
    """
    parents = source.file.parents
    first = self_name(source) if methods else None
    outer = _Outer(source, function, within)
    for node in source.walk():
        match node:
            case (
                ast.Attribute(ctx=ast.Store() | ast.Del())
                | ast.Subscript(ctx=ast.Store() | ast.Del())
            ):
                return True
            case (
                ast.Global()
                | ast.Nonlocal()
                | ast.Await()
                | ast.Yield()
                | ast.YieldFrom()
                | ast.Import()
                | ast.ImportFrom()
                | ast.With()
                | ast.AsyncWith()
            ):
                return True
            case ast.Call(func=called) if not _is_harmless(called):
                if not (_may_be_harmless(called, first, methods, outer.names) and outer.stays):
                    return True
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Load()) if name == first:
                parent = parents.get(node)
                is_method = isinstance(parent, ast.Call) and parent.func is node
                if not (is_method or isinstance(parent, _READERS)):
                    return True
    return False


def _is_harmless(called: ast.expr) -> bool:
    match called:
        case ast.Name(id=name):
            return name in PURE_BUILTINS or name in ("super", "getattr", "hasattr", "isinstance")
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="enqueue"):
            return True
    return False


def _may_be_harmless(
    called: ast.expr, first: str | None, methods: frozenset[str], outer: frozenset[str]
) -> bool:
    """Whether a call changes nothing else, if what is outside stays as it is."""
    match called:
        case ast.Name(id=name):
            return name in outer
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name == first:
            return attr in methods
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
            return False
        case ast.Attribute(attr=attr):
            return attr not in _CHANGING
    return False


class _Outer:
    """What a function reaches that is not its own: globals, built-ins, variables of closures."""

    def __init__(self, source: Source, function: FunctionType, within: frozenset[CodeType]) -> None:
        self._source = source
        self._function = function
        self._within = within | {function.__code__}

    @cached_property
    def names(self) -> frozenset[str]:
        code = self._function.__code__
        return frozenset((*code.co_freevars, *_globals(code)))

    @cached_property
    def stays(self) -> bool:
        """Whether the function leaves it as it is."""
        nodes, function = self._source.walk(), self._function
        own = {*map(bound_name, nodes), *(each.arg for each in nodes if isinstance(each, ast.arg))}
        if not own.isdisjoint(self.names):
            return False  # which of the two such a name is depends on its place
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        return all(map(_is_constant, defaults)) and all(
            self._leaves(node)
            for node in nodes
            if isinstance(node, ast.Name) and node.id in self.names
        )

    def _leaves(self, node: ast.Name) -> bool:
        """Whether what a name stands for stays as it is, by how it is used there."""
        parents = self._source.file.parents
        place: ast.AST = node
        value = self._value(node.id)
        while isinstance(value, ModuleType | type) and isinstance(parents[place], ast.Attribute):
            place = parents[place]
            assert isinstance(place, ast.Attribute)
            try:
                value = getattr(value, place.attr)
            except Exception:  # noqa: BLE001 - of a class of the user's
                return False
        if _is_constant(value) or isinstance(value, ModuleType):
            return True
        if is_mutable(value) or type(value) is frozenset:
            items = value.values() if isinstance(value, dict) else value
            return only_reads(place, parents, deep=not all(map(_is_constant, items)))
        if isinstance(value, type):
            return _is_only_named(place, parents) or _makes_plainly(value)
        return self._is_pure(value)

    def _value(self, name: str) -> Any:
        function = self._function
        if name in function.__code__.co_freevars:
            cells = function.__closure__ or ()
            try:
                return cells[function.__code__.co_freevars.index(name)].cell_contents
            except ValueError:
                return _MISSING
        return function.__globals__.get(name, getattr(builtins, name, _MISSING))

    def _is_pure(self, value: Any) -> bool:
        """Whether this is a function that changes nothing but what it is given."""
        match value:
            case FunctionType() if value.__module__ not in _MODULES:
                if value.__code__ in self._within:
                    return True
                try:
                    source = trusted_source(value)
                except Weaken:
                    return False
                return not may_change_something(source, value, within=self._within)
            case BuiltinFunctionType(__self__=owner) if owner is builtins:
                return value.__name__ in _BUILTINS
            case BuiltinFunctionType(__self__=type() as owner):
                return _makes_plainly(owner)
            case MethodDescriptorType():
                return value.__name__ not in _CHANGING
            case FunctionType() | BuiltinFunctionType():
                return _is_of_a_module(value)
        of_numpy = type(value).__module__ == "numpy" and hasattr(value, "__name__")
        return of_numpy and callable(value) and _is_of_a_module(value)


def _globals(code: CodeType) -> Iterator[str]:
    """The names that code, or code in it, looks up where it does not bind them."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _globals(const)


def _is_constant(value: object) -> bool:
    if type(value) in (tuple, frozenset):
        return all(map(_is_constant, value))  # type: ignore[call-overload]
    return is_plain(value) or isinstance(value, Enum | re.Pattern)


def _is_only_named(place: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a class is only compared with."""
    above = parents[place]
    if isinstance(above, ast.Tuple):
        place, above = above, parents[above]
    match above:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass")):
            return True
        case ast.ExceptHandler() | ast.MatchClass() | ast.Compare():
            return True
    return False


def _makes_plainly(cls: type) -> bool:
    """Whether making an instance of a class, or of what its class methods make, runs no code of a
    user's."""
    if cls.__module__ == "builtins":
        return cls.__name__ in _BUILTINS or issubclass(cls, BaseException)
    if cls.__module__ in _MODULES:
        return True
    if isinstance(cls, EnumType):
        return cls._missing_.__func__ is Enum._missing_.__func__  # type: ignore[attr-defined]
    if not dataclasses.is_dataclass(cls) or type(cls) is not type:
        return False
    init = inspect.getattr_static(cls, "__init__")
    made = {field.default_factory for field in dataclasses.fields(cls)}
    return (
        isinstance(init, FunctionType)
        and init.__code__.co_filename == "<string>"  # made by `dataclass`
        and cls.__new__ is object.__new__
        and not hasattr(cls, "__post_init__")
        and made <= {dataclasses.MISSING, dict, list, set}
    )


def _is_of_a_module(value: Any) -> bool:
    return value.__module__ in _MODULES and not value.__name__.startswith(_EXCEPTIONS)
