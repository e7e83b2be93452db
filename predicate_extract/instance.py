"""What is fixed in a filter's instance, and whether the filter keeps state.

An attribute is a constant of the instance when only `__init__` or the class body sets it, no method
lets the instance out of its hands, and its value is a plain one. When the *class* is the target,
the instance that will run is made later, elsewhere: there, `__init__` must compute the value from
its arguments and constants alone.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType, MemberDescriptorType
from typing import Any

from predicate_extract.constants import Const
from predicate_extract.effects import PURE_BUILTINS, leaks_self, may_change_something, stores
from predicate_extract.report import Weaken
from predicate_extract.scope import Container, freeze, is_fresh, is_membership, resolve
from predicate_extract.source import Source, trusted_source

_LOOKUP_HOOKS = ("__getattribute__", "__getattr__", "__setattr__", "__delattr__")
_DATACLASS_METHODS = frozenset(
    ("__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__replace__")
)


def find_base(cls: type) -> type | None:
    """The base class of filters: its `enqueue` carries `__forwards__ = True`."""
    for parent in cls.__mro__:
        if getattr(vars(parent).get("enqueue"), "__forwards__", False) is True:
            return parent
    return None


class FilterInstance:
    """A filter class, or an instance of one, with the arguments to make one."""

    def __init__(
        self,
        cls: type,
        instance: object | None,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> None:
        self.cls = cls
        self.base = find_base(cls)
        self.given = instance
        self._args, self._kwargs = args, kwargs
        runtime = (self.base or object).__mro__
        self.classes = tuple(parent for parent in cls.__mro__ if parent not in runtime)

    def overridden_hooks(self) -> list[str]:
        """The base class's other methods that the filter replaces."""
        named = dict.fromkeys(name for parent in self.classes for name in vars(parent))
        return [
            name
            for name in named
            if name not in vars(object)
            and name != "enqueue"
            and callable(getattr(self.base, name, None))
        ]

    def constant(self, name: str) -> Const | Container:
        """The value of `self.name`.

        Raises: Weaken, if it is not surely a constant.
        """
        self._check_methods(name)
        fixed = self._class_attribute(name)
        if name in self._init_values:
            if fixed is not None and not isinstance(fixed[0], MemberDescriptorType):
                raise Weaken("state", f"self.{name} is set both in the class and in __init__")
            value, fresh = self._init_value(name)
        elif fixed is not None:
            value, fresh = fixed[0], False
            if self.given is not None and name in getattr(self.given, "__dict__", {}):
                value = self.given.__dict__[name]
        else:
            raise Weaken(
                "state", f"self.{name} is set neither in __init__ nor in the class", _HOIST
            )
        frozen = freeze(value)
        if frozen is None:
            raise Weaken("state", f"self.{name} is a {type(value).__name__}, not a constant")
        if type(value) in (list, set, dict) and not (fresh and self._only_tested(name)):
            raise Weaken(
                "mutable-collection",
                f"self.{name} is a {type(value).__name__} that may change",
                f"make self.{name} a tuple or a frozenset",
            )
        return frozen

    @cached_property
    def stateful(self) -> bool:
        """Whether a method other than `__init__` may change the instance, or anything else."""
        if self._opaque or self._leaks:
            return True
        names = frozenset(method.name for method in self._methods)
        return any(
            method.name != "__init__" and may_change_something(method.source, names)
            for method in self._methods
        )

    # -- the methods' code ---------------------------------------------------------------------

    @cached_property
    def _functions(self) -> list[_Function | None]:
        """Every function of the classes below the base; None for what cannot be looked into."""
        return [
            function
            for parent in self.classes
            for name, member in vars(parent).items()
            for function in _functions_of(parent, name, member)
        ]

    @cached_property
    def _methods(self) -> list[_Method]:
        methods = []
        for function in self._functions:
            if function is not None:
                try:
                    source = trusted_source(function.function)
                except Weaken:
                    continue
                methods.append(_Method(function.name, function.function, source, function.bound))
        return methods

    @cached_property
    def _opaque(self) -> bool:
        hooks = any(hook in vars(parent) for parent in self.classes for hook in _LOOKUP_HOOKS)
        return hooks or len(self._methods) < len(self._functions)

    @cached_property
    def _leaks(self) -> bool:
        """Whether a method uses its instance other than by reading and setting attributes."""
        return any(method.bound and leaks_self(method.source) for method in self._methods)

    @cached_property
    def _changed(self) -> frozenset[str]:
        """Attributes that something other than `__init__` itself sets or deletes."""
        return frozenset(
            node.attr
            for method in self._methods
            for node, apart in stores(method.source)
            if method.name != "__init__" or apart
        )

    @cached_property
    def _init_values(self) -> dict[str, list[tuple[ast.Attribute, _Method]]]:
        found: dict[str, list[tuple[ast.Attribute, _Method]]] = {}
        for method in self._methods:
            if method.name == "__init__":
                for node, _ in stores(method.source):
                    found.setdefault(node.attr, []).append((node, method))
        return found

    def _check_methods(self, name: str) -> None:
        if self._opaque:
            raise Weaken("state", f"not every method of {self.cls.__name__} can be looked into")
        if self._leaks:
            raise Weaken(
                "state",
                f"a method of {self.cls.__name__} passes self on, so self.{name} may change",
            )
        if name in self._changed:
            raise Weaken("state", f"self.{name} changes outside __init__", _HOIST)
        if self.base is not None and (hasattr(self.base, name) or name in self._names_of_base):
            raise Weaken("state", f"self.{name} belongs to {self.base.__name__}")

    @cached_property
    def _names_of_base(self) -> frozenset[str]:
        """Every attribute that the base class's own methods mention."""
        return frozenset(
            name
            for parent in (self.base or object).__mro__
            for member in vars(parent).values()
            if isinstance(member, FunctionType)
            for name in member.__code__.co_names
        )

    def _class_attribute(self, name: str) -> tuple[Any] | None:
        for parent in self.classes:
            if name in vars(parent):
                value = vars(parent)[name]
                if hasattr(type(value), "__get__") and not isinstance(value, MemberDescriptorType):
                    raise Weaken("call", f"self.{name} runs code of the class")
                return (value,)
        return None

    def _init_value(self, name: str) -> tuple[object, bool]:
        """The attribute's value, and whether `__init__` built it, so that nobody else has it."""
        places = self._init_values[name]
        node, method = places[0]
        assigned = _assigned(node, method.source)
        once = len(places) == 1 and assigned is not None
        if self.given is None and not (once and _is_repeatable(assigned, method)):
            raise Weaken(
                "state",
                f"__init__ may compute self.{name} differently where the filter will run",
                f"compute it before, and pass it to {self.cls.__name__} as an argument",
            )
        try:
            value = inspect.getattr_static(self._instance, name)
            if isinstance(value, MemberDescriptorType):
                value = value.__get__(self._instance)
        except AttributeError:
            raise Weaken("state", f"self.{name} has no value") from None
        return value, once and is_fresh(assigned)

    @cached_property
    def _instance(self) -> object:
        if self.given is not None:
            return self.given
        try:
            return self.cls(*self._args, **self._kwargs)
        except Exception as error:
            raise Weaken(
                "no-instance",
                f"{self.cls.__name__} cannot be constructed here: {error}",
                "pass its constructor's arguments to extract",
            ) from error

    def _only_tested(self, name: str) -> bool:
        return all(
            is_membership(node, method.source.file.parents)
            for method in self._methods
            for node in ast.walk(method.source.node)
            if isinstance(node, ast.Attribute)
            and node.attr == name
            and isinstance(node.ctx, ast.Load)
        )


_HOIST = "set it once in __init__, from the arguments"
_REPEATABLE = (
    ast.Constant,
    ast.Tuple,
    ast.List,
    ast.Set,
    ast.Dict,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    function: FunctionType
    bound: bool


@dataclass(frozen=True, slots=True)
class _Method:
    """A function of the class; `bound` when its first argument is the instance."""

    name: str
    function: FunctionType
    source: Source
    bound: bool


def _functions_of(cls: type, name: str, member: object) -> Iterator[_Function | None]:
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
        yield _Function(name, function, bound) if isinstance(function, FunctionType) else None


def _assigned(node: ast.Attribute, source: Source) -> ast.expr | None:
    """What a top-level statement of the function assigns to this attribute."""
    statement = source.file.parents.get(node)
    if source.file.parents.get(statement) is not source.node:  # type: ignore[arg-type]
        return None
    if isinstance(statement, ast.Assign) and statement.targets == [node]:
        return statement.value
    return statement.value if isinstance(statement, ast.AnnAssign) else None


def _is_repeatable(node: ast.expr | None, method: _Method) -> bool:
    """Whether the expression gives the same value wherever the arguments are the same."""
    if node is None:
        return False
    source, function = method.source, method.function
    a = source.node.args
    arguments = {argument.arg for argument in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
    if any(
        isinstance(part, ast.Call)
        for d in (*a.defaults, *a.kw_defaults)
        if d
        for part in ast.walk(d)
    ):
        return False
    rebound = {
        n.id
        for n in ast.walk(source.node)
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    }
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            called = source.file.parents.get(part)
            if isinstance(called, ast.Call) and called.func is part and part.id in PURE_BUILTINS:
                if part.id in function.__globals__ or part.id in arguments | rebound:
                    return False
            elif part.id in arguments:
                if part.id in rebound:
                    return False
            else:
                try:
                    resolve(part.id, function, source)
                except Weaken:
                    return False
        elif isinstance(part, ast.Call):
            if not isinstance(part.func, ast.Name):
                return False
        elif not isinstance(part, _REPEATABLE):
            return False
    return True
