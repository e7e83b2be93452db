"""A filter that kills brokers ends in quarantine; the fabric, and what runs beside it, go on."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import pytest
from processes_for_tests import Programs

import activebroker as ab
from activebroker.broker import peers
from activebroker.broker.deaths import Budget
from activebroker.core.errors import Unreachable
from activebroker.fabric import serve

KEY = ab.generate_key()
HERE = os.getpid()


class Deadly(ab.FIFOFilter):
    def enqueue(self, event: ab.Event) -> None:
        if event.content == "poison" and os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)
        super().enqueue(event)


class Sum(ab.FIFOFilter):
    def __init__(self) -> None:
        self.length = 0

    def enqueue(self, event: ab.Event) -> None:
        self.length += len(event.content)
        super().enqueue(event.replace(self.length))


def test_a_filter_that_kills_its_brokers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "LOST_AFTER", 1e9)  # who is started again finds its predecessor dead
    caplog.set_level(logging.INFO, "activebroker")
    hub = serve("atlanta", "tcp://127.0.0.1:*", KEY, budget=Budget(by_one_event=2))
    address = hub.transport.address
    assert address is not None
    try:
        with Programs(tmp_path, KEY) as programs, ab.connect(address, KEY) as fabric:
            dallas, _ = programs.broker("dallas", join=address)
            words = fabric.channel("words", object)
            deadly = words.derive(Deadly, at="dallas", name="deadly")
            sums = words.derive(Sum, at="dallas", name="sums")
            with (
                deadly.subscribe(timeout=60) as bad,
                sums.subscribe(timeout=60) as good,
                words.supplier("poet") as poet,
            ):
                seen = iter(good)
                poet.publish("rose")
                assert next(seen).content == 4 and next(iter(bad)).content == "rose"
                poet.publish("poison")
                for _ in range(2):
                    assert dallas.ended() == -signal.SIGKILL
                    dallas, _ = programs.broker("dallas", join=address)
                with pytest.raises(Unreachable, match="'deadly', is gone, and it is in quarantine"):
                    next(iter(bad))
                poet.publish("is")
                assert [next(seen).content for _ in range(2)] == [10, 12]
        assert [r for r in caplog.messages if "channel 'deadly' ends" in r]
        assert sum("process 'dallas' is lost" in each for each in caplog.messages) == 2
        assert [r for r in caplog.messages if "what makes channel 'sums' goes on at" in r]
    finally:
        hub.stop()
