"""A filter that kills brokers ends in quarantine; the fabric, and what runs beside it, go on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from brokers_for_tests import Brokers, until

import activebroker as ab
from activebroker.core.errors import Unreachable

PATIENCE = 90.0  # seconds; a filter pauses longer after each death
HERE = os.getpid()


class Deadly(ab.FIFOFilter):
    def enqueue(self, event: ab.Event) -> None:
        if event.content == "poison" and os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)
        super().enqueue(event)


class OnceDeadly(ab.FIFOFilter):
    """Each event kills once: there is a file of its name then."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def enqueue(self, event: ab.Event) -> None:
        killed = Path(self.folder, event.content)
        if os.getpid() != HERE and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        super().enqueue(event)


class Sum(ab.FIFOFilter):
    def __init__(self) -> None:
        self.length = 0

    def enqueue(self, event: ab.Event) -> None:
        self.length += len(event.content)
        super().enqueue(event.replace(self.length))


@pytest.mark.timeout(180)
def test_a_filter_that_kills_its_brokers(brokers: Brokers, joined: ab.Fabric) -> None:
    """Three times at one event; the broker with the directory is spared."""
    first, other = brokers.pid("atlanta"), brokers.pid("dallas")
    words = joined.channel("words", object)
    deadly = words.derive(Deadly, at="dallas", name="deadly")
    sums = words.derive(Sum, at="dallas", name="sums")
    with (
        deadly.subscribe(timeout=PATIENCE) as bad,
        sums.subscribe(timeout=PATIENCE) as good,
        words.supplier("poet") as poet,
    ):
        seen = iter(good)
        poet.publish("rose")
        assert next(seen).content == 4 and next(iter(bad)).content == "rose"
        poet.publish("poison")
        story = (
            r"'deadly', is gone, and it is in quarantine: 3 processes died with it "
            r"\('dallas', '\w+', '\w+'\), each time at event 0 of supplier 'poet', or soon"
        )
        with pytest.raises(Unreachable, match=story):
            next(iter(bad))
        poet.publish("is")
        assert [next(seen).content for _ in range(2)] == [10, 12]
    assert brokers.pid("atlanta") == first
    assert brokers.pid("dallas") != other


@pytest.mark.table
@pytest.mark.timeout(300)
def test_a_filter_that_kills_a_broker_time_and_again(
    brokers: Brokers, joined: ab.Fabric, tmp_path: Path
) -> None:
    """Five times in a minute, each time at another event."""
    brokers.pid("dallas")
    words = joined.channel("words", object)
    deadly = words.derive((OnceDeadly, str(tmp_path)), at="dallas", name="deadly")
    outlets = joined._membership._runtime._node.plane.outlets
    with deadly.subscribe(timeout=PATIENCE) as bad, words.supplier("poet") as poet:
        for word in "abcd":
            poet.publish(word)
            assert next(iter(bad)).content == word
            until(lambda: not any(each.unacknowledged for each in outlets.values()), "it is saved")
        poet.publish("e")
        with pytest.raises(Unreachable, match=r"5 processes died with it .* within 60 s"):
            next(iter(bad))
    assert len(list(tmp_path.iterdir())) == 5
