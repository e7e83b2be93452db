"""Which modules are the user's own, and which were installed.

A module was installed if it is of the standard library, if it lies in a `site-packages` or
`dist-packages`, wherever that is (of the interpreter, of the user, of an environment laid over
another), or if a distribution beside it says in its RECORD that the file came with it, as
`pip install --target` leaves it. All else is the user's own: a script with what lies around it, a
directory on PYTHONPATH, a project that is installed editable.
"""

from __future__ import annotations

import csv
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType

_STDLIB = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
_PACKAGES = {"site-packages", "dist-packages"}
# Every node has these, however it came to them.
_EVERYWHERE = {"activebroker", "derivation", "predicate_extract", "ray_deploy", "cloudpickle"}


def is_users_own(module: ModuleType) -> bool:
    """Whether no other process can be expected to have a module, since nobody installed it."""
    name = module.__name__
    if name.partition(".")[0] in _EVERYWHERE:
        return False
    places = list(_places(module))
    # What has no place is built in, or made by another module.
    return bool(places) and not any(_is_installed(name, *place) for place in places)


def _places(module: ModuleType) -> Iterator[tuple[str, bool]]:
    """Where a module is: its file, or the directories of a package that has none; and whether its
    name stands for the directory of that file."""
    known = vars(module)  # some modules have an answer to any attribute
    file = known.get("__file__")
    for place in [file] if file else known.get("__path__") or ():
        if isinstance(place, str) and Path(place).is_absolute():
            yield place, place is file and Path(file).stem == "__init__"


@cache
def _is_installed(name: str, place: str, is_package: bool) -> bool:
    path = Path(place).resolve()
    if not _PACKAGES.isdisjoint(path.parts) or any(path.is_relative_to(lib) for lib in _STDLIB):
        return True
    depth = name.count(".") + is_package
    root = path.parents[min(depth, len(path.parents) - 1)]
    inside = path.relative_to(root).as_posix()
    return any(each == inside or each.startswith(f"{inside}/") for each in _recorded(root))


@cache
def _recorded(root: Path) -> frozenset[str]:
    """The files that distributions have put below a directory, relative to it."""
    return frozenset(
        row[0]
        for distribution in distributions(path=[str(root)])
        for row in csv.reader((distribution.read_text("RECORD") or "").splitlines())
        if row
    )
