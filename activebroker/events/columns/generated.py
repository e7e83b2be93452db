"""Code generated once per event type, where a generic loop would cost several times as much.

Field names reach generated source, so they must be identifiers; `annotations` and `generic` see to
that. Everything else is bound by reference, never written out.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from activebroker.events.columns.kinds import Kind

Test = Callable[[Any], bool]
Build = Callable[..., list[Any]]


class _Namespace:
    """The globals of one generated function: a plain dict, which the interpreter optimises for."""

    def __init__(self) -> None:
        self._globals: dict[str, Any] = {}

    def bind(self, value: object) -> str:
        name = f"_{len(self._globals)}"
        self._globals[name] = value
        return name

    def define(self, lines: list[str]) -> Any:
        exec("\n".join(lines), self._globals)
        return self._globals["generated"]


def tester(kind: Kind) -> Test:
    """A function that tells whether a value fits the kind as it is."""
    names = _Namespace()
    test: Test = names.define([f"generated = lambda v: {kind.test('v', names.bind)}"])
    return test


def record_tester(cls: type, fields: dict[str, Kind]) -> Test:
    """A function that tells whether an object is of exactly this class and all its fields fit."""
    names = _Namespace()
    lines = [
        "def generated(o):",
        f"    if o.__class__ is not {names.bind(cls)}: return False",
        "    try:",
    ]
    for name, kind in fields.items():
        lines.append(f"        v = o.{name}")
        lines.append(f"        if not ({kind.test('v', names.bind)}): return False")
    lines += ["        return True", "    except AttributeError: return False"]
    test: Test = names.define(lines)
    return test


def getter(fields: list[str]) -> Callable[[list[Any]], list[list[Any]]]:
    """A function that turns objects into one list of values a field."""
    columns = ", ".join(f"[o.{name} for o in objects]" for name in fields)
    get: Callable[[list[Any]], list[list[Any]]] = _Namespace().define(
        [f"generated = lambda objects: [{columns}]"]
    )
    return get


def filler(fields: Sequence[str]) -> Callable[..., Iterator[None]]:
    """A generator `fill(o, *columns)` that gives one object the fields of one row after another."""
    columns = ", ".join(f"c{i}" for i in range(len(fields)))
    targets = ", ".join(f"o.{name}" for name in fields)
    rows = columns if len(fields) == 1 else f"zip({columns})"
    fill: Callable[..., Iterator[None]] = _Namespace().define(
        [f"def generated(o, {columns}):", f"    for {targets} in {rows}:", "        yield"]
    )
    return fill


def builder(cls: type, fields: list[str]) -> Build:
    """A function `build(n, *columns)` that makes n objects of a dataclass from columns of values.

    The objects equal constructed ones. The constructor runs only where it is as fast as anything
    else, or where a `__post_init__` may set more than the fields; then the fields are set again
    afterwards, so that a `__post_init__` that changes them is not applied twice.
    """
    if _constructs_by_position(cls, fields):
        return lambda n, *columns: list(map(cls, *columns))
    names = _Namespace()
    variables = [f"v{i}" for i in range(len(fields))]
    columns = [f"c{i}" for i in range(len(fields))]
    loop = ", ".join(variables)
    lines = [
        f"def generated({', '.join(['n', *columns])}):",
        "    objects = []",
        "    append = objects.append",
        f"    for {loop}, in zip({', '.join(columns)}):" if fields else "    for _ in range(n):",
    ]
    body = _body(cls, dict(zip(fields, variables, strict=True)), names)
    lines += [f"        {line}" for line in [*body, "append(o)"]]
    build: Build = names.define([*lines, "    return objects"])
    return build


def _body(cls: type, values: dict[str, str], names: _Namespace) -> list[str]:
    made, set_ = names.bind(cls), names.bind(object.__setattr__)
    set_all = [f"{set_}(o, {name!r}, {value})" for name, value in values.items()]
    if hasattr(cls, "__post_init__"):
        initial = {field.name for field in dataclasses.fields(cls) if field.init}
        arguments = [f"{name}={value}" for name, value in values.items() if name in initial]
        return [f"o = {made}({', '.join(arguments)})", *set_all]
    create = f"o = {names.bind(object.__new__)}({made})"
    if any(_is_descriptor(cls, name) for name in values):  # slots
        return [create, *set_all]
    # Filling the dictionary is what a frozen class's constructor does, at half the cost.
    return [create, "d = o.__dict__", *(f"d[{name!r}] = {v}" for name, v in values.items())]


def _is_descriptor(cls: type, name: str) -> bool:
    return hasattr(type(inspect.getattr_static(cls, name, None)), "__set__")


def _constructs_by_position(cls: Any, names: list[str]) -> bool:
    """Whether `cls(*values)` does nothing but set the fields, fast."""
    owner = next(base for base in cls.__mro__ if "__init__" in base.__dict__)
    parameters = cls.__dataclass_params__
    fields = dataclasses.fields(cls)
    return (
        bool(names)
        and owner.__dict__.get("__dataclass_params__") is parameters
        and parameters.init
        and not parameters.frozen
        and cls.__new__ is object.__new__
        and cls.__setattr__ is object.__setattr__
        and not hasattr(cls, "__post_init__")
        and [field.name for field in fields if field.init and not field.kw_only] == names
        and len(fields) == len(names)
    )
