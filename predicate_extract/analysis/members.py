"""The attributes of modules, classes and objects that a constant name leads to."""

from __future__ import annotations

import linecache
import re
import sys
from types import ModuleType
from typing import Any

from predicate_extract.algebra.constants import is_plain
from predicate_extract.algebra.terms import Const
from predicate_extract.analysis.scope import is_bound_once, is_mutable, wrap
from predicate_extract.analysis.source import SourceFile, parsed
from predicate_extract.analysis.values import Value
from predicate_extract.report import Weaken

# What is in these depends on the machine.
_MACHINES = ("os", "sys", "platform", "socket", "time", "locale", "tempfile")


def member_of(it: Any, name: str, file: SourceFile) -> Value:
    """What `it.name` is, read in `file`, if it is constant.

    Raises: Weaken.
    """
    params = getattr(type(it), "__dataclass_params__", None)
    frozen = params is not None and params.frozen
    if frozen and name in getattr(it, "__dict__", ()) and not is_mutable(vars(it)[name]):
        return wrap(vars(it)[name])
    _refuse_set(name, file)
    match it:
        case ModuleType() if hasattr(it, name):
            return _of_module(it, name)
        case type():
            return _of_class(it, name)
    raise Weaken("unsupported", f"whether the attribute {name} is constant is not known")


def file_of(module: ModuleType | None) -> SourceFile | None:
    """The source of a module; None if it has none.

    Raises: Weaken, if it cannot be compiled.
    """
    path = getattr(module, "__file__", None) or ""
    text = "".join(linecache.getlines(path)) if path.endswith(".py") else ""
    try:
        return parsed(path, text) if text else None
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Weaken("stale-source", f"{path} cannot be compiled: {error}") from error


def _refuse_set(name: str, file: SourceFile | None) -> None:
    if file is not None and name in file.set_attributes:
        raise Weaken(
            "rebound-name",
            f"the attribute {name} is set in {file.filename}",
            "pass the value to the filter as an argument",
        )


def _of_module(module: ModuleType, name: str) -> Value:
    value = getattr(module, name)
    top = module.__name__.partition(".")[0]
    standard = top in sys.stdlib_module_names
    if top in _MACHINES and not callable(value):
        raise Weaken(
            "environment", f"{top}.{name} may differ where the filter runs", "pass it to the filter"
        )
    if callable(value) or isinstance(value, ModuleType) or (standard and is_plain(value)):
        return wrap(value)
    if isinstance(value, re.RegexFlag):
        return Const(int(value))
    file = file_of(module)
    _refuse_set(name, file)
    if (
        file is None
        or is_mutable(value)
        or not is_bound_once(name, file.tree, file, module.__package__)
    ):
        raise Weaken("rebound-name", f"whether {module.__name__}.{name} is constant is not known")
    return wrap(value)


def _of_class(cls: type, name: str) -> Value:
    _refuse_set(name, file_of(sys.modules.get(cls.__module__)))
    value = vars(cls).get(name)
    if isinstance(value, staticmethod):
        value = value.__func__
    elif value is None or isinstance(value, classmethod):
        value = getattr(cls, name, None)
    if isinstance(value, property) or value is None or is_mutable(value):
        raise Weaken("unsupported", f"{cls.__name__}.{name} is not a constant")
    return wrap(value)
