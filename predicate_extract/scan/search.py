"""Finding the filters of a source tree, and their predicates, without importing anything of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from predicate_extract.algebra.predicate import TRUE
from predicate_extract.extraction import extract_unrun
from predicate_extract.report import Extraction, Reason
from predicate_extract.scan.modules import Tree
from predicate_extract.scan.rules import Hazards, Rule, names_found

_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


@dataclass(frozen=True, slots=True)
class FileFound:
    """The filters of one file, in its order; or why it could not be read."""

    path: Path
    extractions: tuple[Extraction, ...] = ()
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain data; see `Extraction.to_dict` for each of its filters."""
        filters = [each.to_dict() for each in self.extractions]
        return {"path": str(self.path), "filters": filters, "error": self.error}


def source_files(root: Path) -> list[Path]:
    """The Python files under a folder; hidden folders and virtual environments are left out."""
    found: list[Path] = []
    for folder, folders, names in os.walk(root):
        if "pyvenv.cfg" in names:
            folders.clear()
            continue
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n not in _SKIPPED)
        found += sorted(Path(folder, name) for name in names if name.endswith(".py"))
    return found


class Search:
    """Looks through one file after another of a tree, and keeps what later ones need of it.

    `known` names modules that the tree may use as they are, and that are imported for it: the one
    with the base class of filters among them.
    """

    def __init__(self, root: Path, rules: Sequence[Rule], known: Sequence[str]) -> None:
        self._rules = rules
        self._tree = Tree(root, {name: import_module(name) for name in known})
        self._hazards = Hazards(rules)

    def __call__(self, path: Path) -> FileFound:
        try:
            names = names_found(self._rules, path.read_text(encoding="utf-8"))
            module = self._tree.module(path) if names else None
        except (SyntaxError, ValueError, OSError, RecursionError) as error:
            return FileFound(path, error=f"{type(error).__name__}: {error}")
        if module is None:
            return FileFound(path)
        return FileFound(path, tuple(_extraction(module, n, path, self._hazards) for n in names))


def _extraction(module: ModuleType, name: str, path: Path, hazards: Hazards) -> Extraction:
    target = vars(module).get(name)
    if isinstance(target, type | FunctionType):
        return extract_unrun(target, hazards)
    reason = Reason(
        0, name, "not-run", "what this is would only be known by running the module", "import it"
    )
    return Extraction(name, TRUE, False, True, (reason,), (), None, str(path), 0)
