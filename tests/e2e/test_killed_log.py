"""The writer of a log is killed, again and again: what it has said to be committed is there, once
and in order."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import log_writer_for_tests as writer

from activebroker.log import Offsets, Reader

Found = tuple[int, str, tuple[int, int], list[tuple[int, Any]], bool]


def read(path: Path) -> list[Found]:
    found: list[Found] = []
    with Reader(path, writer.ITEM) as reader:
        while entries := reader.read():
            for position, record in entries:
                events = record.batch.events() if record.batch else []
                pairs = [(event.seq, event.content) for event in events]
                found.append((position, record.supplier, record.upto, pairs, record.ended))
    return found


class Checked:
    """All that was read of a log, over all of its writers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[Found] = []
        self.position = 0
        self.offsets: Offsets = {}

    def goes_on(self) -> None:
        """What was read before is there, and after it what follows."""
        found = read(self.path)
        assert found[: len(self.found)] == self.found
        found = found[len(self.found) :]
        for each in found:
            position, supplier, (stream, upto), events, is_end = each
            before = self.offsets.get(supplier, (1, 0))
            assert position == self.position
            assert before < (stream, upto)
            if events:
                first = before[1] if before[0] == stream else 0
                numbers = range(first, upto)
                assert events == [(n, writer.item(supplier, stream, n)) for n in numbers]
            elif is_end:
                assert stream > before[0] or upto == before[1] + 1
            self.position += len(events)
            self.offsets[supplier] = stream, upto
        self.found += found


def test_writers_that_are_killed(tmp_path, request):
    rounds = request.config.getoption("rounds") or 10
    drawn = random.Random(request.config.getoption("seed"))
    command = [sys.executable, writer.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        told = 0
        for round in range(rounds):
            if round % 10 == 0:
                log = Checked(tmp_path / str(round))
            process.stdin.write(f"{drawn.randrange(10**9)} {log.path}\n".encode())
            process.stdin.flush()
            word, pid = json.loads(process.stdout.readline())
            assert word == "writer"
            lines = [process.stdout.readline() for _ in range(drawn.choice([0, 1, 5, 30]))]
            time.sleep(drawn.choice([0, drawn.random() / 100, drawn.random() / 20]))
            os.kill(pid, signal.SIGKILL)
            while json.loads(line := process.stdout.readline()) != ["dead"]:
                lines.append(line)
            told += len(lines)
            if lines:
                _, committed, offsets = json.loads(lines[-1])
                log.goes_on()
                assert log.position >= committed
                assert all(log.offsets[name] >= tuple(at) for name, at in offsets.items())
            if lines and drawn.random() < 0.5:  # else the next writer finds what this one has left
                with closing(writer.open_log(log.path)) as opened:
                    log.goes_on()
                    assert opened.offsets == log.offsets
                    assert opened.next == opened.committed == log.position
        process.stdin.close()
        assert process.wait(60) == 0
    assert told > rounds
