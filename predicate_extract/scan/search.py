"""Finding the filters of a source tree, and their predicates, without importing anything of it."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context, parent_process
from pathlib import Path
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask
from threading import Thread
from types import FunctionType, ModuleType

from predicate_extract.algebra.predicate import TRUE
from predicate_extract.errors import SearchFailed
from predicate_extract.extraction import extract_unrun
from predicate_extract.report import Extraction, Reason
from predicate_extract.scan.modules import Tree
from predicate_extract.scan.rules import Hazards, Rule, names_found

FILES_A_PROCESS = 50  # what makes up for starting one
CHUNK = 5  # files: some hundredths of a second
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


@dataclass(frozen=True, slots=True)
class FileFound:
    """The filters of one file, in its order; or why it could not be read."""

    path: Path
    extractions: tuple[Extraction, ...] = ()
    error: str = ""


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


def scan(
    root: Path, rules: Sequence[Rule], known: Sequence[str], files: Sequence[Path], jobs: int = 1
) -> Iterator[FileFound]:
    """Look through `files`, all of them under the folder `root`; yield what each holds, in order.

    `known` names modules that the tree may use as they are, and that are imported for it: the one
    with the base class of filters among them. Many files are divided among up to `jobs` processes.

    Raises: SearchFailed, if one of these dies.
    """
    jobs = min(jobs, len(files) // FILES_A_PROCESS)
    if jobs < 2:
        yield from map(_Search(root, rules, known), files)
        return
    spawn = get_context("spawn")  # the caller may have threads
    with ProcessPoolExecutor(jobs, spawn, _begin, (root, rules, known)) as pool:
        # Ctrl-C goes to all processes of a terminal; only this one is to act on it.
        before = pthread_sigmask(SIG_BLOCK, {SIGINT})
        try:
            found = pool.map(_look, files, chunksize=CHUNK)
        finally:
            pthread_sigmask(SIG_SETMASK, before)
        try:
            yield from found
        except BrokenProcessPool as error:
            raise SearchFailed(
                "A process of the search died. If memory is short, use fewer of them: --jobs 1."
            ) from error


class _Search:
    """Looks through one file after another, and keeps what later ones need of it."""

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


_search: _Search  # of a process that `_begin` began


def _begin(root: Path, rules: Sequence[Rule], known: Sequence[str]) -> None:
    """Begin the life of a process that looks through files."""
    global _search
    gc.disable()  # as the command does
    Thread(target=_end_with_owner, daemon=True).start()
    _search = _Search(root, rules, known)


def _end_with_owner() -> None:
    owner = parent_process()
    assert owner is not None
    owner.join()
    os._exit(1)


def _look(path: Path) -> FileFound:
    return _search(path)


def _extraction(module: ModuleType, name: str, path: Path, hazards: Hazards) -> Extraction:
    target = vars(module).get(name)
    if isinstance(target, type | FunctionType):
        return extract_unrun(target, hazards)
    reason = Reason(
        0, name, "not-run", "what this is would only be known by running the module", "import it"
    )
    return Extraction(name, TRUE, False, True, (reason,), (), None, str(path), 0)
