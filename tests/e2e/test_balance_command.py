"""`activebroker balance` shows each move as it happens."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import activebroker as ab
from activebroker.cli import app
from activebroker.cli import balance as command
from activebroker.fabric import serve
from derivation.balance import BrokerLoad, Decision
from derivation.split import MoveTo


class Planned:
    """Made instead of the default policy: one move that cannot be, and one that can."""

    def __init__(self, limit: float, low: float) -> None:
        assert (limit, low) == (0.4, 0.1)
        self.targets = ["nowhere", "dallas"]

    def decide(self, now: float, brokers: Sequence[BrokerLoad]) -> Decision:
        names = {each.channel: self.targets for broker in brokers for each in broker.filters}
        if not self.targets or not names:
            return Decision()
        return Decision((MoveTo("[b]all[/b]", self.targets.pop(0)),), "planned")


@pytest.fixture
def fabric() -> Iterator[ab.Fabric]:
    """With two brokers that listen."""
    handler = signal.getsignal(signal.SIGTERM)
    key = ab.generate_key()
    atlanta = serve("atlanta", "tcp://127.0.0.1:*", key)
    address = atlanta.transport.address
    assert address is not None
    dallas = serve("dallas", "tcp://127.0.0.1:*", key, join_address=address)
    try:
        with ab.connect(address, key) as fabric:
            fabric.key = key  # type: ignore[attr-defined]
            yield fabric
    finally:
        dallas.stop()
        atlanta.stop()
        signal.signal(signal.SIGTERM, handler)


def test_each_move_is_shown_with_its_reason(
    fabric: ab.Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = fabric.channel("readings", object)
    readings.derive(lambda reading: True, at="atlanta", name="[b]all[/b]")
    shown: list[str] = []
    line = command._line

    def until_both(moved: ab.fabric.Moved) -> object:  # type: ignore[name-defined]
        shown.append(moved.channel)
        if len(shown) == 2:
            ctrl_c.append(True)
        return line(moved)

    ctrl_c: list[bool] = []

    def sleep(seconds: float) -> None:
        if ctrl_c:
            raise KeyboardInterrupt
        real.sleep(0.01)

    real = command.time
    fake = SimpleNamespace(sleep=sleep, strftime=real.strftime, localtime=real.localtime)
    monkeypatch.setattr(command, "Balance", Planned)
    monkeypatch.setattr(command, "_line", until_both)
    monkeypatch.setattr(command, "time", fake)
    address, key = fabric.address, fabric.key  # type: ignore[attr-defined]
    options = ["--key", key, "--limit", "0.4", "--period", "0.1"]
    result = CliRunner().invoke(app, ["balance", address, *options])
    assert result.exit_code == 0, result.output
    first, failed, moved = result.stdout.splitlines()
    assert first == f"Balancing {address}: no broker's filters over 0.40 CPUs. Ctrl-C ends it."
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d \[b\]all\[/b\] did not move to nowhere: .*'nowhere'.*", failed
    )
    assert re.fullmatch(r"\d\d:\d\d:\d\d \[b\]all\[/b\] moved to dallas: planned", moved)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--limit", "0"], "the limit must be more than 0"),
        (["--low", "0.7"], "low must be from 0 to half the limit"),
        (["--period", "0"], "0.1"),
    ],
)
def test_numbers_that_make_no_sense(options: list[str], message: str) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    result = CliRunner().invoke(app, ["balance", "tcp://127.0.0.1:1", *options])
    signal.signal(signal.SIGTERM, handler)
    assert result.exit_code == 2
    assert message in result.output
