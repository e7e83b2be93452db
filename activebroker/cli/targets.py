"""Names on the command line for code: `FILE.py`, `FILE.py:NAME`, `module`, `module:NAME`."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from activebroker.core.errors import InvalidFilter, suggestion
from activebroker.filters import FIFOFilter

_TARGET = re.compile(r"(?P<where>.+?\.py|[\w.]+)(:(?P<name>[\w.]+))?")


def load(target: str) -> Any:
    """Import what a target names: a module, or a class, function or instance in it.

    Raises InvalidFilter where the target has another form, or there is no such thing, or the
    code raises when it is imported.
    """
    if (match := _TARGET.fullmatch(target)) is None:
        raise InvalidFilter(
            f"{target!r} names no code: expected FILE.py, FILE.py:NAME, module or module:NAME."
        )
    where, name = match["where"], match["name"]
    found: Any = _import_file(Path(where)) if where.endswith(".py") else _import_module(where)
    for part in name.split(".") if name else ():
        if not hasattr(found, part):
            public = [each for each in vars(found) if not each.startswith("_")]
            raise InvalidFilter(f"{where} has no {name!r}." + suggestion(part, public))
        found = getattr(found, part)
    return found


def filters_in(module: ModuleType) -> list[type[FIFOFilter] | FunctionType]:
    """The filter classes that a module defines, and its detection rule (a function called `rule`),
    in its order.

    Raises: InvalidFilter, if there is none.
    """
    filters = [
        value
        for value in vars(module).values()
        if isinstance(value, type | FunctionType)
        and value.__module__ == module.__name__
        and (_is_filter(value) if isinstance(value, type) else value.__name__ == "rule")
    ]
    if not filters:
        raise InvalidFilter(
            f"{module.__file__} defines no filter class (a FIFOFilter with an enqueue of its own), "
            "and no function called rule. Name another function in it with FILE.py:NAME."
        )
    return filters


def _is_filter(cls: type) -> bool:
    return issubclass(cls, FIFOFilter) and cls.enqueue is not FIFOFilter.enqueue


@functools.cache
def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidFilter(f"There is no file {path}.")
    if (path.parent / "__init__.py").is_file():
        return _import_from_package(path)
    # A name of its own: the file's may be that of a module which others need.
    spec = importlib.util.spec_from_file_location(f"target {path.stem}", path)
    assert spec is not None and spec.loader is not None  # the suffix is .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    with _running(str(path), path.parent):
        spec.loader.exec_module(module)
    return module


def _import_from_package(path: Path) -> ModuleType:
    """A file of a package, which it may refer to: imported by its name there."""
    folder, parts = path.resolve().parent, [] if path.stem == "__init__" else [path.stem]
    while (folder / "__init__.py").is_file():
        folder, parts = folder.parent, [folder.name, *parts]
    name = ".".join(parts)
    with _running(str(path), folder):
        module = importlib.import_module(name)
    if module.__file__ is None or not path.samefile(module.__file__):
        raise InvalidFilter(f"{path} cannot be imported: {name} is {module.__file__} here.")
    return module


def _import_module(name: str) -> ModuleType:
    with _running(name, Path()):
        return importlib.import_module(name)


@contextmanager
def _running(what: str, neighbours: Path) -> Iterator[None]:
    """Around a module's code: it finds its neighbours, as it does when Python runs it."""
    if (folder := str(neighbours.resolve())) not in sys.path:
        sys.path.insert(0, folder)
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename not in (__file__, importlib.__file__)
            and not frame.filename.startswith("<frozen")
        ]
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        raise InvalidFilter(
            f"{what} cannot be imported: {type(error).__name__}: {error}{where}."
        ) from error
