"""The arguments of a call, and the parameters that they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from predicate_extract.algebra.terms import Const
from predicate_extract.analysis.code import Code
from predicate_extract.analysis.following import Env, refuse_iterator
from predicate_extract.analysis.scope import is_mutable, wrap
from predicate_extract.analysis.values import Display, Known, Value
from predicate_extract.report import Weaken


def bound_arguments(code: Code, args: Sequence[Value], keywords: Mapping[str, Value]) -> Env:
    """The names that a function begins with.

    Raises: Weaken, if the arguments do not fit.
    """
    a = code.source.node.args
    positional = [arg.arg for arg in (*a.posonlyargs, *a.args)]
    for value in (*args, *keywords.values()):
        refuse_iterator(value)
    env: dict[str, Value] = dict(zip(positional, args, strict=False))
    if len(args) > len(positional) and a.vararg is None:
        raise Weaken("raises", f"{code.name} takes fewer arguments")
    if a.vararg is not None:
        env[a.vararg.arg] = Display("tuple", tuple(args[len(positional) :]))
    extra: list[Value] = []
    named = {*(arg.arg for arg in (*a.args, *a.kwonlyargs))}
    for name, value in keywords.items():
        if name in named and name not in env:
            env[name] = value
        elif a.kwarg is not None and name not in env:
            extra += [Const(name), value]
        else:
            raise Weaken("raises", f"{code.name} takes no argument {name}")
    if a.kwarg is not None:
        env[a.kwarg.arg] = Display("dict", tuple(extra))
    defaults = default_values(code)
    for name in (*positional, *(arg.arg for arg in a.kwonlyargs)):
        if name not in env:
            if name not in defaults:
                raise Weaken("raises", f"{code.name} needs the argument {name}")
            env[name] = defaults[name]
    return tuple(sorted(env.items(), key=lambda item: item[0]))


def default_values(code: Code) -> dict[str, Value]:
    """The default values of the parameters.

    Raises: Weaken, if one may change.
    """
    a = code.source.node.args
    names = [argument.arg for argument in (*a.posonlyargs, *a.args)]
    if code.inner:
        if a.defaults or any(a.kw_defaults):
            raise Weaken("unsupported", "default values of an inner function are not analysed")
        return {}
    values = code.function.__defaults__ or ()
    defaults = dict(zip(reversed(names), reversed(values), strict=False))
    defaults |= code.function.__kwdefaults__ or {}
    for name, value in defaults.items():
        if is_mutable(value):
            raise Weaken("mutable-collection", f"the default value of {name} may change")
    return {name: wrap(value) for name, value in defaults.items()}


def keyword_arguments(names: Sequence[str | None], values: Sequence[Value]) -> dict[str, Value]:
    """The keyword arguments of a call; None stands for `**values`.

    Raises: Weaken, if a name is not known.
    """
    found: dict[str, Value] = {}
    for name, value in zip(names, values, strict=True):
        if name is not None:
            found[name] = value
            continue
        if not isinstance(value, Display) or value.kind != "dict":
            raise Weaken("unsupported", "these keyword arguments are not known")
        for key, each in zip(value.items[::2], value.items[1::2], strict=True):
            if not isinstance(key, Const) or not isinstance(key.value, str):
                raise Weaken("unsupported", "these keyword arguments are not known")
            found[key.value] = each
    return found


def python_object(value: Value) -> Any:
    """The object that a constant value is.

    Raises: Weaken, if it is none.
    """
    match value:
        case Const(constant):
            return constant
        case Known(it):
            return it
        case Display("dict"):
            pairs = zip(value.items[::2], value.items[1::2], strict=True)
            return {python_object(key): python_object(item) for key, item in pairs}
        case Display(kind, items):
            return {"tuple": tuple, "list": list, "set": set}[kind](map(python_object, items))
    raise Weaken("unsupported", "this is made of more than constants")
