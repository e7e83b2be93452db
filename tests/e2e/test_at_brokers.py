"""What belongs to programs and their filters, at brokers in processes of their own."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from brokers_for_tests import PATIENCE, Brokers, until
from numbered_for_tests import Trade
from processes_for_tests import Programs

import activebroker as ab
from activebroker.core.errors import PayloadRefused


@pytest.fixture
def programs(tmp_path: Path, brokers: Brokers) -> Iterator[Programs]:
    folder = tmp_path / "programs"
    folder.mkdir()
    with Programs(folder, brokers.key) as programs:
        yield programs


def channel_of(fabric: ab.Fabric, name: str) -> dict[str, Any]:
    return next(each for each in fabric.status()["channels"] if each["name"] == name)


CRASHING = """
fabric = ab.connect(sys.argv[1], name="crashing")
counted = fabric.channel("trades").derive(Count, at="dallas", name="counted", lease=0.5)
events = counted.subscribe(timeout=60)
say("ready")
sys.stdin.readline()
"""


def test_what_a_process_that_crashed_had_derived_ends_after_its_lease(
    brokers: Brokers, joined: ab.Fabric, programs: Programs
) -> None:
    trades = joined.channel("trades", Trade)
    with brokers.lost_after(5.0), trades.supplier("NYSE"):
        crashing = programs.run(CRASHING, brokers.address)
        assert crashing.line() == "ready"
        assert [each["node"] for each in channel_of(joined, "counted")["stages"]] == ["dallas"]
        crashing.kill()
        until(lambda: channel_of(joined, "counted")["closed"], "its filter has ended")
    assert "'crashing', which derived it, is gone" in channel_of(joined, "counted")["ended"]
    until(lambda: not joined.status()["nodes"]["dallas"]["stages"], "nothing is left at the broker")


def test_many_rules_take_few_threads(brokers: Brokers, joined: ab.Fabric) -> None:
    """Beside those that its process, one of Ray's say, has anyway."""
    channel = joined.channel("objects", object)
    broker = psutil.Process(brokers.pid("dallas"))
    before = broker.num_threads()
    rules = [
        channel.derive(lambda each, least=n: sorted([each, least])[0] == least, at="dallas")
        for n in range(300)
    ]
    taken = [each.subscribe(timeout=PATIENCE) for each in rules]
    with channel.supplier("S") as source:
        for number in range(100):
            source.publish(number)
        source.publish_batch(list(range(100, 300)))
        for n, events in enumerate(taken):
            assert [next(iter(events)).content for _ in range(n, 300)] == [*range(n, 300)]
        assert broker.num_threads() - before <= (os.cpu_count() or 1) + 10


RECORD = "installed_here.py,sha256=x,1\ninstalled_here-1.0.dist-info/RECORD,,\n"
SUPPLIER = """
with ab.connect(sys.argv[1], name="exchange") as fabric:
    with fabric.channel("numbers").supplier("S") as supplier:
        say("ready")
        sys.stdin.readline()
        supplier.publish_batch(list(range(20)))
        sys.stdin.readline()
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One of the user's own, and one that was installed: where no other process looks."""
    own, site = tmp_path / "own", tmp_path / "site"
    (site / "installed_here-1.0.dist-info").mkdir(parents=True)
    (site / "installed_here-1.0.dist-info" / "METADATA").write_text(
        "Name: installed_here\nVersion: 1.0\n"
    )
    (site / "installed_here-1.0.dist-info" / "RECORD").write_text(RECORD)
    own.mkdir()
    for name, folder in (("own_here", own), ("installed_here", site)):
        (folder / f"{name}.py").write_text("def odd(number):\n    return hash(number) % 2 == 1\n")
        monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    yield
    for name in ("own_here", "installed_here"):
        sys.modules.pop(name, None)


def test_modules_that_brokers_lack(
    modules: None, brokers: Brokers, joined: ab.Fabric, programs: Programs
) -> None:
    """The user's own go with a filter; for others it runs where they are, and only its predicate
    with the supplier, which is refused for nothing."""
    import installed_here
    import own_here

    numbers = joined.channel("numbers", object)
    with pytest.raises(PayloadRefused, match=r"'dallas' cannot run it.*'installed_here'"):
        numbers.derive(lambda n: n > 5 and installed_here.odd(n), at="dallas")
    own = numbers.derive(lambda n: n > 5 and own_here.odd(n), at="dallas")
    other = numbers.derive(lambda n: n > 5 and installed_here.odd(n), name="other")
    with own.subscribe(timeout=PATIENCE) as some, other.subscribe(timeout=PATIENCE) as rest:
        exchange = programs.run(SUPPLIER, brokers.address)
        assert exchange.line() == "ready"
        exchange.tell()
        expected = list(range(7, 20, 2))
        for events in (some, rest):
            assert [next(iter(events)).content for _ in expected] == expected
        shown = channel_of(joined, "other")
        assert {each["node"] for each in shown["stages"]} == {joined.node}
        assert "exchange" in str(shown["instead"])
        (taken,) = {
            each["taken_events"]
            for each in joined.status()["nodes"][joined.node]["stages"]
            if each["channel"] == "other"
        }
        assert taken == 14, "its predicate goes before it"
        exchange.tell()
        assert exchange.finish() == (0, "", "")
