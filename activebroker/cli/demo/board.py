"""The live display: how far each airport and each consumer is."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn


class Board:
    """A line with a bar for each name; messages scroll above. Use it as a context manager."""

    def __init__(self, console: Console, totals: dict[str, int]) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {
            name: self._progress.add_task(name, total=total) for name, total in totals.items()
        }

    def update(self, counts: dict[str, int]) -> None:
        for name, count in counts.items():
            self._progress.update(self._tasks[name], completed=count)

    def __enter__(self) -> Board:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()
