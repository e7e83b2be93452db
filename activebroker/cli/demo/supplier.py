"""A supplier in a process of its own: outside the Ray cluster, with the core install alone.

The process obeys lines on its standard input (`start`, `offload BROKER`) and answers on its
output. It ends when its input does, so it cannot outlive the demo.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress

from activebroker import connect
from activebroker.cli.demo.replay import Replay
from activebroker.core.errors import ActiveBrokerError, DeadlineExceeded, MoveFailed, Unreachable
from activebroker.fabric.keys import VARIABLE

MODULE = "activebroker.cli.demo.supplier"
START = 60.0  # seconds for a process to start, read its flights and join
OFFLOAD = 40.0
END = 10.0
REPORT = 0.1  # seconds between two reports of how far it is


class ReplayProcess:
    """Has the methods of `Replay`; the replay itself runs in another process."""

    def __init__(self, address: str, key: str, origin: str, months: int, pace: float) -> None:
        self.origin = origin
        self.total = 0
        self.published = 0
        self.finished = False
        self._broken: str | None = None
        self._answers: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        self._process = subprocess.Popen(
            [sys.executable, "-m", MODULE, address, origin, str(months), str(pace)],
            env={**os.environ, VARIABLE: key},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,  # Ctrl-C is for the demo, which then ends this process
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def wait_ready(self) -> None:
        """Wait until the supplier is open. Raises Unreachable, DeadlineExceeded."""
        self.total = int(self._answer("to join", START))

    def start(self) -> None:
        self._say("start")

    def check(self) -> None:
        """Raise Unreachable where the replay or its process has ended early."""
        if self._broken is not None:
            raise Unreachable(f"Supplier {self.origin} cannot go on: {self._broken}")
        if self._process.poll() is not None:
            self._errors.seek(0)
            last = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
            raise Unreachable(
                f"The process of supplier {self.origin} ended with code "
                f"{self._process.returncode}: {''.join(last) or 'it said nothing'}"
            )

    def offload(self, to: str) -> None:
        """Hand the fan-out to a broker. Raises MoveFailed, Unreachable, DeadlineExceeded."""
        self._say(f"offload {to}")
        self._answer("to hand over its fan-out", OFFLOAD)

    def stop(self) -> None:
        """End the process: by itself, or else by force."""
        with suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._process.wait(END)
            self.check()

    def _answer(self, what: str, patience: float) -> str:
        try:
            word, rest = self._answers.get(timeout=patience)
        except queue.Empty:
            raise DeadlineExceeded(
                f"The process of supplier {self.origin} took over {patience:g} s {what}."
            ) from None
        if word == "gone":
            self._process.wait(END)
            self.check()
        if word == "failed":
            raise MoveFailed(rest)
        return rest

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                word, _, rest = line.strip().partition(" ")
                if word == "published":
                    self.published = int(rest)
                elif word == "finished":
                    self.finished = True
                elif word == "broken":
                    self._broken = rest
                else:
                    self._answers.put((word, rest))
        self._answers.put(("gone", ""))


def main(address: str, origin: str, months: int, pace: float) -> None:
    """The process: join, replay, obey."""

    with connect(address, name=origin) as fabric:
        replay = Replay(fabric, origin, months, pace)
        _say("ready", replay.total)
        for line in sys.stdin:
            match line.split():
                case ["start"]:
                    replay.start()
                    threading.Thread(target=_report, args=(replay,), daemon=True).start()
                case ["offload", to]:
                    try:
                        replay.offload(to)
                        _say("offloaded")
                    except ActiveBrokerError as error:
                        _say("failed", error)
        replay.stop()


def _report(replay: Replay) -> None:
    while not replay.finished:
        time.sleep(REPORT)
        try:
            replay.check()
        except ActiveBrokerError as error:
            _say("broken", error)
            return
        _say("published", replay.published)
    _say("published", replay.published)
    _say("finished")


def _say(*words: object) -> None:
    # One write a line: two threads speak.
    sys.stdout.write(" ".join(map(str, words)).replace("\n", " ") + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
