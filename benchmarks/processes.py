"""What the benchmarks share: their event, and processes that are surely ended."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa

from activebroker.fabric import serve

PATIENCE = 60.0  # seconds that a process may take to answer


@dataclass(frozen=True)
class Quote:
    """A small event: six columns, about 100 bytes."""

    number: int
    volume: int
    bid: float
    ask: float
    symbol: str
    venue: str


def quotes(count: int) -> list[Quote]:
    """`count` quotes, numbered from 0."""
    return [
        Quote(i, i * 100, i * 0.25, i * 0.5, f"SYM{i % 500:05}", "XNAS " + "v" * 50)
        for i in range(count)
    ]


def quote_table(rows: int) -> pa.RecordBatch:
    """The same as an Arrow batch."""
    return pa.RecordBatch.from_pylist([vars(quote) for quote in quotes(rows)])


class Worker:
    """A process that runs `role(pipe, *arguments)` and talks over the pipe.

    `method`: "spawn", or "forkserver", which imports once for all what is to be preloaded.
    """

    def __init__(
        self, name: str, role: Callable[..., None], *arguments: Any, method: str = "spawn"
    ) -> None:
        context: Any = multiprocessing.get_context(method)
        self.name = name
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=role, args=(theirs, *arguments), name=name, daemon=True
        )
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def tell(self, message: Any) -> None:
        """Send the process a message; None ends its role."""
        self._pipe.send(message)

    def hear(self, patience: float = PATIENCE) -> Any:
        """What the process says next; ends the benchmark if it fails or says nothing."""
        try:
            if self._pipe.poll(patience):
                return self._pipe.recv()
        except EOFError:
            raise SystemExit(f"{self.name} failed: its traceback is above") from None
        raise SystemExit(f"{self.name} said nothing for {patience:g} s")

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        """Let the process end in good order; kill it if it does not."""
        with suppress(OSError):  # it has ended already
            self._pipe.send(None)
        self._process.join(15)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


@contextmanager
def workers(preload: Sequence[str] = ()) -> Iterator[Callable[..., Worker]]:
    """A function that starts workers; they end with the block, the last one first.

    `preload`: modules to import once for all, where there are many workers.
    """
    started: list[Worker] = []
    if preload:
        multiprocessing.set_forkserver_preload(list(preload))
    method = "forkserver" if preload else "spawn"

    def start(name: str, role: Callable[..., None], *arguments: Any) -> Worker:
        started.append(Worker(name, role, *arguments, method=method))
        return started[-1]

    try:
        yield start
    except BaseException:
        for worker in started:
            worker.kill()  # it may be amid something that takes long
        raise
    finally:
        for worker in reversed(started):
            worker.end()


def broker(pipe: Connection, key: str, name: str = "broker", join: str | None = None) -> None:
    """The role of a broker, which says its address; without `join` it keeps the directory."""
    runtime = serve(name, "tcp://127.0.0.1:*", key, join_address=join)
    pipe.send(runtime.transport.address)
    pipe.recv()
    runtime.stop()
