"""Makes sure that no process of the demo outlives it."""

from __future__ import annotations

import psutil


class Processes:
    """Knows every process that descends from this one, also when its parent has ended since."""

    def __init__(self) -> None:
        self._seen: dict[int, psutil.Process] = {}

    def look(self) -> None:
        for process in psutil.Process().children(recursive=True):
            self._seen.setdefault(process.pid, process)

    @property
    def count(self) -> int:
        return len(self._seen)

    def end(self, patience: float) -> list[str]:
        """Wait for all to end; kill those that have not, and return what they were."""
        self.look()
        _, alive = psutil.wait_procs(list(self._seen.values()), timeout=patience)
        left = []
        for process in alive:
            try:
                left.append(f"{process.pid} {process.name()}")
                process.kill()
            except psutil.NoSuchProcess:
                continue  # it ended after all
        psutil.wait_procs(alive, timeout=patience)
        return left
