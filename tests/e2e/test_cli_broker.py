"""Brokers and `status` as a user runs them: processes, signals, exit codes."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import activebroker as ab

PATIENCE = 60.0  # seconds; a deadline for slow machines, no pace

Process = subprocess.Popen[str]


@dataclass(frozen=True)
class Trade:
    name: str
    price: float


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Process]]:
    """Starts `activebroker ARGUMENTS`, with a key file of its own; none outlives the test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("ACTIVEBROKER_KEY", raising=False)
    with ExitStack() as stack:

        def start(*arguments: str) -> Process:
            process = subprocess.Popen(
                [Path(sys.executable).with_name("activebroker"), *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"COLUMNS": "200", "NO_COLOR": "1", "FORCE_COLOR": ""},
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


def address_of(broker: Process) -> str:
    """The address that a broker prints when it is ready."""
    assert broker.stdout is not None
    with selectors.DefaultSelector() as ready:
        ready.register(broker.stdout, selectors.EVENT_READ)
        assert ready.select(PATIENCE), "the broker said nothing"
    line = broker.stdout.readline()
    found = re.search(r"tcp://127\.0\.0\.1:\d+", line)
    assert found, line + (broker.stderr.read() if broker.stderr and broker.poll() else "")
    return found.group()


def finish(process: Process) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def faults(log: str) -> list[str]:
    """The lines that tell of no ordinary thing."""
    ordinary = (" INFO ", " WARNING ")
    return [line for line in log.splitlines() if not any(each in line for each in ordinary)]


def eventually(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_brokers_serve_and_end_in_good_order(start: Callable[..., Process]) -> None:
    first = start("broker", "--listen", "tcp://127.0.0.1:*", "--name", "atlanta")
    address = address_of(first)
    second = start("broker", "--listen", "tcp://127.0.0.1:*", "--name", "dallas", "--join", address)
    dallas = address_of(second)
    with ab.connect(address, name="exchange") as fabric:
        trades = fabric.channel("trades", Trade)
        dear = trades.derive(lambda trade: trade.price > 100, at="dallas", name="dear")
        events = dear.subscribe(timeout=PATIENCE)
        trades.supplier("NYSE").publish_batch([Trade("IBM", 60.0 * n) for n in range(4)])
        assert next(iter(events)).content.price == 120.0

        code, out, err = finish(start("status", dallas))
        assert (code, err) == (0, "")
        for expected in ("atlanta", "dallas", "exchange", "price > 100", "NYSE at exchange"):
            assert expected in out

        code, out, err = finish(start("status", address, "--json"))
        assert (code, err) == (0, "")
        report: dict[str, Any] = json.loads(out)
        assert [node["name"] for node in report["nodes"]] == ["atlanta", "dallas", "exchange"]
        assert [channel["name"] for channel in report["channels"]] == ["trades", "dear"]
        (flow,) = [each for each in report["flows"] if each["channel"] == "trades"]
        assert (flow["offered_events"], flow["sent_events"], flow["target"]) == (4, 2, "dallas")
        assert flow["per_second"]["sent_events"] == 0.0

        dear.move(to="atlanta")
        code, out, err = finish(start("story", dallas, "dear"))
        assert (code, err) == (0, "")
        assert "dear: dallas → atlanta, completed after" in out
        code, out, err = finish(start("story", dallas, "dear", "--json"))
        assert (code, err) == (0, "")
        assert json.loads(out)["destinations"] == ["atlanta"]
        code, out, err = finish(start("story", address, "deer"))
        assert code == 2 and "'dear'" in err

        cheap = trades.derive(lambda trade: trade.price < 100, at="dallas", name="cheap")
        code, out, err = finish(start("explain", "cheap", "--fabric", dallas))
        assert (code, err) == (0, "")
        for line in (r"price < 100", r"asked for +dallas", r"runs at +dallas \('dallas'\)"):
            assert re.search(line, out)
        code, out, err = finish(start("explain", "trades", "--fabric", dallas))
        assert code == 2 and "no derived channel 'trades'" in err

        second.send_signal(signal.SIGTERM)
        code, _, err = finish(second)
        assert (code, faults(err)) == (0, [])
        eventually(lambda: len(fabric.status()["members"]) == 2)
        with cheap.subscribe(timeout=PATIENCE):
            code, out, err = finish(start("explain", "cheap", "--fabric", address, "--json"))
        assert (code, err) == (0, "")
        (told,) = json.loads(out)
        assert (told["asked"], told["at"]) == ("dallas", "atlanta")
        assert told["instead"] == "The process at 'dallas', where it ran, is gone."
        trades.close()
    first.send_signal(signal.SIGINT)
    code, _, err = finish(first)
    assert (code, faults(err)) == (0, [])


def test_watching_ends_with_ctrl_c(start: Callable[..., Process]) -> None:
    broker = start("broker", "--listen", "tcp://127.0.0.1:*")
    watch = start("status", address_of(broker), "--watch", "0.1", "--json")
    assert watch.stdout is not None
    reports = [json.loads(watch.stdout.readline()) for _ in range(3)]
    assert reports[0]["at"] < reports[1]["at"] < reports[2]["at"]
    watch.send_signal(signal.SIGINT)
    code, _, err = finish(watch)
    assert (code, err) == (130, "")
    broker.send_signal(signal.SIGTERM)
    assert finish(broker)[0] == 0


def test_balancing_ends_with_ctrl_c_or_with_the_fabric(start: Callable[..., Process]) -> None:
    broker = start("broker", "--listen", "tcp://127.0.0.1:*")
    address = address_of(broker)
    balances = [start("balance", address, "--limit", "0.5", "--period", "0.2") for _ in range(2)]
    for balance in balances:
        assert balance.stdout is not None
        assert balance.stdout.readline() == (
            f"Balancing {address}: no broker's filters over 0.50 CPUs. Ctrl-C ends it.\n"
        )
    first, second = balances
    first.send_signal(signal.SIGINT)
    assert finish(first) == (0, "", "")
    broker.send_signal(signal.SIGTERM)
    assert finish(broker)[0] == 0
    code, _, err = finish(second)
    assert (code, err) == (2, "Error: The fabric has ended, and balancing with it.\n")


def test_a_broker_that_was_taken_for_lost_or_has_died_is_back_at_its_port(
    start: Callable[..., Process],
) -> None:
    first = start("broker", "--listen", "tcp://127.0.0.1:*", "--name", "atlanta")
    address = address_of(first)
    arguments = ("--name", "dallas", "--join", address)
    second = start("broker", "--listen", "tcp://127.0.0.1:*", *arguments)
    port = address_of(second)

    with ab.connect(address, name="looker") as fabric:

        def there() -> bool:
            return "dallas" in [member["name"] for member in fabric.status()["members"]]

        second.send_signal(signal.SIGSTOP)
        eventually(lambda: not there())
        second.send_signal(signal.SIGCONT)
        eventually(there)
        trades = fabric.channel("trades", Trade)
        kept = trades.derive(lambda trade: trade.price > 100, at="dallas", name="kept")

        second.kill()
        second.wait(PATIENCE)
        third = start("broker", "--listen", port, *arguments)
        assert address_of(third) == port
        assert there()
        kept.move(to="dallas")
    for broker in (third, first):
        broker.send_signal(signal.SIGTERM)
        code, _, err = finish(broker)
        assert (code, faults(err)) == (0, [])
