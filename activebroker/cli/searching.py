"""A source tree looked through by several processes."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from pathlib import Path
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask
from threading import Thread
from typing import Any

from activebroker.core.errors import ActiveBrokerError
from predicate_extract.scan.rules import Rule
from predicate_extract.scan.search import FileFound, Search

KNOWN = ("activebroker", "activebroker.filters")  # what the filters of a tree may use as it is
FILES_A_PROCESS = 50  # what makes up for starting one
CHUNK = 5  # files: some hundredths of a second


def look_through(
    root: Path, rules: Sequence[Rule], files: Sequence[Path], jobs: int
) -> Iterator[dict[str, Any]]:
    """Yield what each of `files` holds, in order, in the form of `FileFound.to_dict`; all are under
    the folder `root`.

    Many files are divided among up to `jobs` processes.

    Raises: ActiveBrokerError, if one of these dies.
    """
    jobs = min(jobs, len(files) // FILES_A_PROCESS)
    if jobs < 2:
        yield from map(FileFound.to_dict, map(Search(root, rules, KNOWN), files))
        return
    spawn = get_context("spawn")  # the caller may have threads
    with ProcessPoolExecutor(jobs, spawn, _begin, (root, rules, KNOWN)) as pool:
        # Ctrl-C goes to all processes of a terminal; only this one is to act on it.
        before = pthread_sigmask(SIG_BLOCK, {SIGINT})
        try:
            found = pool.map(_look, files, chunksize=CHUNK)
        finally:
            pthread_sigmask(SIG_SETMASK, before)
        try:
            yield from found
        except BrokenProcessPool as error:
            raise ActiveBrokerError(
                "A process of the search died. If memory is short, use fewer of them: --jobs 1."
            ) from error
        except BaseException:
            # A second Ctrl-C would leave the pool half ended, and the program waiting for it.
            before = pthread_sigmask(SIG_BLOCK, {SIGINT})
            try:
                pool.shutdown(cancel_futures=True)
            finally:
                pthread_sigmask(SIG_SETMASK, before)
            raise


_search: Search  # of a process that `_begin` began


def _begin(root: Path, rules: Sequence[Rule], known: Sequence[str]) -> None:
    """Begin the life of a process that looks through files."""
    global _search
    gc.disable()  # as the command does
    Thread(target=_end_with_owner, daemon=True).start()
    _search = Search(root, rules, known)


def _end_with_owner() -> None:
    owner = parent_process()
    assert owner is not None
    owner.join()
    os._exit(1)


def _look(path: Path) -> dict[str, Any]:
    return _search(path).to_dict()
