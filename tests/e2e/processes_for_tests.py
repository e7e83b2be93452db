"""Programs of one fabric in processes of their own, for tests; none outlives its test."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import psutil

PATIENCE = 60.0  # seconds; a deadline for slow machines, no pace

COMMON = """
import json, sys
from dataclasses import dataclass
import activebroker as ab

@dataclass(frozen=True)
class Trade:
    name: str
    price: float

@dataclass(frozen=True)
class Counted:
    price: float
    count: int

class Count(ab.FIFOFilter):
    output = Counted

    def __init__(self):
        self.count = 0

    def enqueue(self, event):
        self.count += 1
        super().enqueue(event.replace(Counted(event.content.price, self.count)))

def say(*words):
    print(*words, flush=True)
"""


class Programs:
    """Starts processes that share a key; the block's end kills what still runs."""

    def __init__(self, folder: Path, key: str) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._env = os.environ | {"ACTIVEBROKER_KEY": key, "COLUMNS": "200"}

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def broker(
        self,
        name: str,
        join: str | None = None,
        files: int | None = None,
        listen: str = "tcp://127.0.0.1:*",
        replace: bool = False,
        log: Path | None = None,
        options: Sequence[str] = (),
    ) -> tuple[Program, str]:
        """Start a broker, which may open so many `files`, and logs to `log`, or where `finish`
        finds it; return it and its address."""
        command = str(Path(sys.executable).with_name("activebroker"))
        arguments = ["broker", "--listen", listen, "--name", name]
        limit = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(files)] if files else []
        arguments += [*(["--join", join] if join else []), *(["--replace"] if replace else [])]
        arguments += options
        program = self._start(*limit, command, *arguments, log=log)
        found = re.search(r"tcp://127\.0\.0\.1:\d+", program.line())
        assert found, log and log.read_text()[-2000:]
        return program, found.group()

    def run(
        self, text: str, *arguments: str, command: Sequence[str] = (sys.executable,)
    ) -> Program:
        """Start a program, in this Python or by another command; `COMMON` comes before its text."""
        script = self._folder / f"program_{len(list(self._folder.iterdir()))}.py"
        script.write_text(COMMON + text)  # a file, because the analysis reads the source
        return self._start(*command, str(script), *arguments)

    def _start(self, *command: str, log: Path | None = None) -> Program:
        file = log.open("a+b") if log else tempfile.TemporaryFile()  # noqa: SIM115
        errors = self._stack.enter_context(file)  # not a pipe, which may be full once
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,  # or the first of two lines would take the second with it
            env=self._env,
        )
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        return Program(process, errors)


class Program:
    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors

    def line(self) -> str:
        """The next line that it says."""
        out = self._process.stdout
        assert out is not None
        with selectors.DefaultSelector() as ready:
            ready.register(out, selectors.EVENT_READ)
            assert ready.select(PATIENCE), "it says nothing"
        line = out.readline().decode().rstrip("\n")
        if not line and self._process.poll() is not None:
            raise AssertionError(f"it has ended: {self.finish()}")
        return line

    def tell(self, line: str = "") -> None:
        """Let it go on: programs wait for a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self) -> int:
        """Wait for its end; return the exit code."""
        return self._process.wait(PATIENCE)

    def kill(self) -> None:
        """SIGKILL: it has no time to say goodbye."""
        self._process.kill()
        self._process.wait(PATIENCE)

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self._process.pid)

    def interrupt(self) -> None:
        """As Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def finish(self) -> tuple[int, str, str]:
        """Wait for its end; return exit code, and what is left of its outputs."""
        out, _ = self._process.communicate(timeout=PATIENCE)
        self._errors.seek(0)
        return self._process.returncode, out.decode(), self._errors.read().decode()
