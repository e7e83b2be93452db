"""What is fixed in a filter's instance, and whether the filter keeps state.

An attribute is a constant of the instance when only `__init__` or the class body sets it, no method
lets the instance out of its hands, and its value is a plain one. When the *class* is the target,
the instance that will run is made later, elsewhere: there, `__init__` must compute the value from
its arguments and constants alone. When an *instance* is, copies of it run, which have what it has,
and only the methods that may run after this count.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from types import FunctionType, MemberDescriptorType, MethodType
from typing import Any

from predicate_extract.analysis.changes import may_change_something
from predicate_extract.analysis.code import Code, code_of
from predicate_extract.analysis.effects import leaks_self, stores
from predicate_extract.analysis.given import family_of_value, is_alone, kept_by_copies
from predicate_extract.analysis.initial import (
    assigned_by,
    assigned_once,
    bound_in_class,
    family_of_expression,
    is_repeatable,
)
from predicate_extract.analysis.methods import (
    MAKING,
    ClassFunction,
    Method,
    functions_of,
    later,
    mentions,
)
from predicate_extract.analysis.scope import is_fresh, is_mutable, only_reads, wrap
from predicate_extract.analysis.source import trusted_source
from predicate_extract.analysis.values import Display, Function, Known, Symbol, Unknown, Value
from predicate_extract.report import Weaken

_LOOKUP_HOOKS = ("__getattribute__", "__getattr__", "__setattr__", "__delattr__")


def _is_deep(value: Any) -> bool:
    """Whether a collection holds others that may change."""
    return any(map(is_mutable, value.values() if isinstance(value, dict) else value))


def forwards(function: object) -> bool:
    """Whether this is the method that forwards: its attribute `__forwards__` is itself."""
    return isinstance(function, FunctionType) and vars(function).get("__forwards__") is function


def find_base(cls: type) -> type | None:
    """The base class of the filter, whose `enqueue` forwards. A subclass may name that again; one
    that defines another that forwards is a base class too."""
    bases = [p for p in cls.__mro__ if forwards(vars(p).get("enqueue"))]
    owners = (p for p in bases if vars(p)["enqueue"].__qualname__ == f"{p.__qualname__}.enqueue")
    return next(owners, bases[-1] if bases else None)


class FilterInstance:
    """A filter class, or an instance of one, with the arguments to make one.

    `parameters` are values that some attributes are given then. Where nothing may be run (`runs`),
    what `__init__` sets is followed by `evaluate`.
    """

    def __init__(
        self,
        cls: type,
        instance: object | None,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        parameters: Mapping[str, object] | None = None,
        runs: bool = True,
    ) -> None:
        self.cls = cls
        self.base = find_base(cls)
        self.given = instance
        self._args, self._kwargs = args, kwargs
        self._parameters = parameters or {}
        self._runs = runs
        self.evaluate: Callable[[ast.expr, Code], Value] | None = None
        runtime = (self.base or object).__mro__
        self.classes = tuple(parent for parent in cls.__mro__ if parent not in runtime)

    @property
    def forwards_itself(self) -> bool:
        """Whether its own `enqueue` is the only one, before that of the base class, and no hook
        forwards."""
        line = [vars(cls)["enqueue"] for cls in self.cls.__mro__ if "enqueue" in vars(cls)]
        hooks = set(self.overridden_hooks()) & {"on_end", "on_idle"}
        return len(line) > 1 and forwards(line[1]) and not hooks

    @property
    def keyed(self) -> bool:
        """Whether the base class has an instance for each key of a stream, and perhaps a clock that
        events move on. It says so by a classmethod `every_event`."""
        return isinstance(getattr(self.base, "every_event", None), MethodType)

    def every_event(self, typed: bool) -> str:
        """Why each event has an effect, whatever `enqueue` does with it; "" if it has none. Events
        are `typed` if their fields are known."""
        if not self.keyed:
            return ""
        why: str = inspect.getattr_static(self.base, "every_event").__func__(self.cls, typed)
        return why

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

    def attribute(self, name: str) -> Value | Code:
        """What `self.name` is: a constant, a method, a property's code, or something unknown.

        Raises: Weaken, if reading it may do anything.
        """
        member = inspect.getattr_static(self.cls, name, None)
        match member:
            case property(fget=FunctionType() as getter):
                self._check_lookup(name)
                return code_of(getter)
            case FunctionType() if name not in self._init_values:
                self._check_lookup(name)
                return Function(code_of(member), (Symbol.SELF,))
            case staticmethod(__func__=FunctionType() as plain):
                self._check_lookup(name)
                return Function(code_of(plain))
            case classmethod(__func__=FunctionType() as plain):
                self._check_lookup(name)
                return Function(code_of(plain), (Known(self.cls),))
        self._check_methods(name)
        if name in self._changed:
            return self._state(name)
        fixed = self._class_attribute(name)
        if name in self._parameters:
            value, fresh = self._parameters[name], True  # its own copy
        elif name in self._kept:
            value, fresh = self._kept[name], is_alone(name, self._kept)
        elif name in self._init_values:
            if fixed is not None and not isinstance(fixed[0], MemberDescriptorType):
                raise Weaken("state", f"self.{name} is set both in the class and in __init__")
            if not self._runs:
                return self._initial(name)
            value, fresh = self._init_value(name)
        elif fixed is not None:
            if any(name in method.source.file.set_attributes for method in self._methods):
                raise Weaken("state", f"the attribute {name} is set from outside", _HOIST)
            value, fresh = fixed[0], self._is_fresh_in_class(name)
            if self.given is not None and name in getattr(self.given, "__dict__", {}):
                value, fresh = self.given.__dict__[name], False
        else:
            raise Weaken(
                "state", f"self.{name} is set neither in __init__ nor in the class", _HOIST
            )
        if is_mutable(value) and not (fresh and self._only_read(name, _is_deep(value))):
            if not self._only_read(name, _is_deep(value)):
                return self._state(name)
            raise Weaken(
                "mutable-collection",
                f"self.{name} is a {type(value).__name__} that may change",
                f"make self.{name} a tuple or a frozenset",
            )
        return wrap(value)

    def _state(self, name: str) -> Unknown:
        """An attribute that changes: it is there, and perhaps its family is known."""
        kept = name in self._kept
        if not (kept or name in self._init_values or self._class_attribute(name) is not None):
            raise Weaken("state", f"self.{name} may not be there yet", _HOIST)
        families = {
            family_of_expression(assigned_by(node, method.source))
            for method in (self._later if kept else self._methods)
            for node, _ in stores(method.source)
            if node.attr == name
        }
        if kept:
            families.add(family_of_value(self._kept[name]))
        elif name not in self._init_values:
            families.add(family_of_expression(bound_in_class(self.cls, name)))
        families.discard("same")
        if families <= {"integer", "float"} and families:
            family: str | None = "float" if "float" in families else "integer"
        else:
            family = families.pop() if len(families) == 1 else None
        return Unknown(family, f"self.{name}, which changes outside __init__")

    @cached_property
    def stateful(self) -> bool:
        """Whether a method other than `__init__` may change the instance, or anything else."""
        if self._opaque or self._leaks:
            return True
        names = frozenset(method.name for method in self._methods)
        return any(
            method.name != "__init__"
            and may_change_something(method.source, method.function, names)
            for method in self._later
        )

    # -- the methods' code ---------------------------------------------------------------------

    @cached_property
    def _functions(self) -> list[ClassFunction | None]:
        """Every function of the classes below the base; None for what cannot be looked into."""
        return [
            function
            for parent in self.classes
            for name, member in vars(parent).items()
            for function in functions_of(parent, name, member)
        ]

    @cached_property
    def _methods(self) -> list[Method]:
        methods = []
        for function in self._functions:
            if function is not None:
                try:
                    source = trusted_source(function.function)
                except Weaken:
                    continue
                methods.append(Method(function.name, function.function, source, function.bound))
        return methods

    @cached_property
    def _opaque(self) -> bool:
        """Whether attributes are looked up in a way of the class's own, or a method is out of
        sight. What made a given instance need not be in sight, if nothing calls it again."""
        hooks = any(hook in vars(parent) for parent in self.classes for hook in _LOOKUP_HOOKS)
        seen = [method.function for method in self._methods]
        hidden = [f.name if f else "" for f in self._functions if not f or f.function not in seen]
        if self._kept and not any(mentions(method, MAKING) for method in self._later):
            hidden = [name for name in hidden if name not in MAKING]
        return hooks or bool(hidden)

    @cached_property
    def _kept(self) -> Mapping[str, object]:
        """The attributes that the copies of a given instance have."""
        return kept_by_copies(self.given, self.classes)

    @cached_property
    def _later(self) -> list[Method]:
        """The methods that may run on what is looked at: of a given instance, not those that only
        made it."""
        return later(self._methods, self.base) if self._kept else self._methods

    @cached_property
    def _leaks(self) -> bool:
        """Whether a method uses its instance other than by reading and setting attributes."""
        return any(method.bound and leaks_self(method.source) for method in self._later)

    @cached_property
    def _changed(self) -> frozenset[str]:
        """Attributes that something other than `__init__` itself sets or deletes."""
        return frozenset(
            node.attr
            for method in self._later
            for node, apart in stores(method.source)
            if self._kept or method.name != "__init__" or apart
        )

    @cached_property
    def _init_values(self) -> dict[str, list[tuple[ast.Attribute, Method]]]:
        found: dict[str, list[tuple[ast.Attribute, Method]]] = {}
        for method in self._methods:
            if method.name == "__init__":
                for node, _ in stores(method.source):
                    found.setdefault(node.attr, []).append((node, method))
        return found

    def _check_lookup(self, name: str) -> None:
        """Refuse a class that looks attributes up in its own way, or may replace its methods."""
        if self._opaque or self._leaks:
            self._check_methods(name)
        if any(hook in vars(parent) for parent in self.classes for hook in _LOOKUP_HOOKS):
            raise Weaken("state", f"{self.cls.__name__} looks attributes up in its own way")
        if name in self._changed or name in self._init_values:
            raise Weaken("state", f"self.{name} is replaced by another function")
        if self.given is not None and name in getattr(self.given, "__dict__", {}):
            raise Weaken("state", f"self.{name} is replaced by another function")

    def _check_methods(self, name: str) -> None:
        if self._opaque:
            raise Weaken("state", f"not every method of {self.cls.__name__} can be looked into")
        if self._leaks:
            raise Weaken(
                "state",
                f"a method of {self.cls.__name__} passes self on, so self.{name} may change",
            )
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
        assigned = assigned_once(node, method.source)
        once = len(places) == 1 and assigned is not None
        if self.given is None and not (
            once and is_repeatable(assigned, method.source, method.function)
        ):
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

    def _initial(self, name: str) -> Value:
        """The attribute's value, followed in `__init__` instead of run."""
        places = self._init_values[name]
        node, method = places[0]
        assigned = assigned_once(node, method.source)
        fixed = len(places) == 1 and is_repeatable(assigned, method.source, method.function)
        if assigned is None or not fixed or self.evaluate is None:
            raise Weaken("state", f"what __init__ sets self.{name} to is not known", _HOIST)
        value = self.evaluate(assigned, Code(method.source, method.function))
        mutable = isinstance(value, Display) and value.kind != "tuple"
        if mutable and not self._only_read(name, deep=True):
            return self._state(name)
        return value

    def _only_read(self, name: str, deep: bool) -> bool:
        return all(
            only_reads(node, method.source.file.parents, deep)
            for method in self._later
            for node in method.source.walk()
            if isinstance(node, ast.Attribute)
            and node.attr == name
            and isinstance(node.ctx, ast.Load)
        )

    def _is_fresh_in_class(self, name: str) -> bool:
        """Whether the class body builds the collection, so that nobody else has it."""
        return is_fresh(bound_in_class(self.cls, name))


_HOIST = "set it once in __init__, from the arguments"
