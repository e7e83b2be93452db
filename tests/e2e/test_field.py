"""Kills and freezes of every party of a derivation, in each of its phases, on three Ray nodes.

A filter moves from atlanta to dallas while two suppliers publish; the directory is at hub, on a
third node. The filter is held in the phase, the phase is seen in the fabric's status, then the
party is killed (SIGKILL) or frozen (SIGSTOP, and SIGCONT later) and the filter let go. Each
survivor must then keep the contract, and so must all that goes on afterwards.

Each test run plays three cells. The whole table, ten rounds a cell, is played by
`pytest tests/e2e/test_field.py -n 0 -s --rounds 10`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import field_for_tests as f
import pytest
from brokers_for_tests import OnRay
from rich.console import Console
from rich.table import Table

from activebroker.core.errors import ActiveBrokerError
from ray_deploy import Placement, RayFabric

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("nothing_left")]

PARTIES = ("supplier", "consumer", "origin", "destination", "directory")
PHASES = ("preparing", "awaiting end markers", "capturing", "restoring", "completed")
FAULTS = {"kill": ("kill",), "freeze": ("short freeze", "long freeze")}  # in turns
ALWAYS = (
    ("origin", "capturing", "kill"),
    ("supplier", "preparing", "kill"),
    ("destination", "restoring", "long freeze"),
)
AT_ONCE = 5  # fabrics, while a whole table is played
SHORT = 1.0  # seconds of a freeze that all survive
OVERDUE = 3.0  # seconds that a move gives a phase


class Field:
    """A fabric of three brokers, each on a node of its own, and one move in it after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.fabric = RayFabric(
            {
                "hub": Placement(resources={"head": 0.01}),
                "atlanta": Placement(resources={"east": 0.01}),
                "dallas": Placement(resources={"west": 0.01}),
            }
        )
        self._numbers = itertools.count(1)

    def close(self) -> None:
        self.fabric.close()

    def broker(self, name: str) -> int:
        """The pid of a broker, once it is a member, and its actor no longer restarts."""
        import ray

        def pid() -> int | None:
            if name not in self.members():
                return None
            call = self.fabric._ray._actors[name].__ray_call__.remote(lambda self: os.getpid())
            try:
                return int(ray.get(call, timeout=f.PATIENCE))
            except ray.exceptions.ActorUnavailableError:
                return None

        return int(f.until(pid, f"{name} is a member"))

    def members(self) -> list[str]:
        return [member["name"] for member in self.fabric.status()["members"]]

    def play(self, party: str, phase: str, fault: str) -> str:
        """One round; returns how the move ended. Raises AssertionError for what broke the
        contract."""
        folder = self.folder / f"gates {next(self._numbers)}"
        folder.mkdir()
        with contextlib.ExitStack() as stack:
            stack.callback(f.Gates(str(folder)).open)
            return Round(self, stack, folder).play(party, phase, fault)


class Round:
    def __init__(self, field: Field, stack: contextlib.ExitStack, folder: Path) -> None:
        self.field, self.fabric = field, field.fabric
        self.gates = f.Gates(str(folder))
        self.name = folder.name
        self.held: int | None = None
        self.brokers = {name: field.broker(name) for name in ("hub", "atlanta", "dallas")}
        self.readings = self.fabric.channel(self.name, f.Reading)
        self.counted = self.readings.derive(
            (f.Count, self.gates), at="atlanta", name=f"counted {self.name}"
        )
        where = self.fabric.address, self.fabric.key

        def start(role: Callable[..., None], channel: str, name: str) -> f.Party:
            party = f.Party(role, *where, channel, name)
            stack.callback(party.end)
            return party

        self.consumers = [start(f.consume, self.counted.name, name) for name in ("first", "other")]
        self.suppliers = {name: start(f.supply, self.name, name) for name in ("first", "other")}
        self.seen(self.consumers[1], dict.fromkeys(self.suppliers, 5 * f.PAGE))

    def play(self, party: str, phase: str, fault: str) -> str:
        victims = {
            "supplier": self.suppliers["first"].pid,
            "consumer": self.consumers[0].pid,
            "origin": self.brokers["atlanta"],
            "destination": self.brokers["dallas"],
            "directory": self.brokers["hub"],
        }
        with self.held_in(phase) as outcome:
            self.strike(victims[party], fault)
        ended = outcome()
        if party == "directory" and fault != "short freeze":
            self.check_end()
            return "the fabric ended"
        self.check(party if fault != "short freeze" else None)
        return ended

    # --- the phase ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def held_in(self, phase: str) -> Iterator[Callable[[], str]]:
        """Move the filter and hold it in a phase; yields what waits for the outcome."""
        gate = {"preparing": "load", "capturing": "snapshot", "restoring": "restore"}.get(phase)
        if gate is not None:
            self.gates.shut(gate)
        if phase == "awaiting end markers":
            self.held = self.suppliers["other"].pid
            f.freeze(self.held)
        outcome: list[str] = []

        def move() -> None:
            try:
                self.counted.move("dallas", timeout=OVERDUE)
                outcome.append("completed")
            except ActiveBrokerError as error:
                outcome.append(str(error))

        moving = threading.Thread(target=move)
        moving.start()
        try:
            f.until(lambda: self.phase() == phase, f"the move is {phase}")
            yield lambda: self.outcome(outcome)
        finally:
            self.go_on()
            moving.join(f.PATIENCE)
        assert not moving.is_alive()

    def go_on(self) -> None:
        """Let go of what holds the move in its phase; none of it may be found lost for that."""
        self.gates.open()
        if self.held is not None:
            f.thaw(self.held)
            self.held = None

    def phase(self) -> str:
        """Of the last move, as the status and the story of the fabric tell."""
        status = self.fabric.status()
        for move in status["moves"]:
            if move["channel"] == self.counted.name:
                if move["phase"] == "preparing":
                    return "preparing"
                parts = [part for each in status["nodes"].values() for part in each["moves"]]
                mine = [part for part in parts if part["move"] == move["move"]]
                return next((part["phase"] for part in mine if part["role"] == "origin"), "")
        for move in status["ended_moves"]:
            if move["channel"] == self.counted.name and move["outcome"] == "completed":
                return "completed" if self.gates_open() else "restoring"
        return ""

    def gates_open(self) -> bool:
        return not any(Path(self.gates.folder).iterdir())

    def outcome(self, told: list[str]) -> str:
        """How the move ended; one that was overdue, or whose end nobody could be told, ends too."""

        def ended() -> str:
            try:
                return str(self.fabric.story(self.counted.name).get("outcome", ""))
            except ActiveBrokerError:
                return f"unknown: {told}"

        return str(f.until(ended, f"the move has ended, of which was told {told}"))

    # --- the fault ------------------------------------------------------------------------------

    def strike(self, pid: int, fault: str) -> None:
        if fault == "kill":
            f.kill(pid)
            self.go_on()
            return
        f.freeze(pid)
        try:
            self.go_on()
            if fault == "short freeze":
                time.sleep(SHORT)
            elif pid == self.brokers["hub"]:
                self.until_ended()
            else:
                before = set(self.field.members())
                f.until(lambda: before - set(self.field.members()), "it is found lost")
        finally:
            f.thaw(pid)

    # --- what must hold -------------------------------------------------------------------------

    def seen(self, consumer: f.Party, least: dict[str, int]) -> f.Seen:
        """What a consumer has seen, once it is so much."""

        def enough() -> f.Seen | None:
            seen: f.Seen = consumer.ask("what")
            assert not seen.broken, seen.broken
            assert not seen.ended, f"its subscription has ended: {seen.error}"
            return seen if all(seen.counts.get(n, 0) >= k for n, k in least.items()) else None

        found: f.Seen = f.until(enough, f"a consumer has seen {least}")
        return found

    def check(self, gone: str | None) -> None:
        """Whoever is not gone has published, or seen, every event once and in order."""
        suppliers = dict(self.suppliers)
        if gone == "supplier":
            del suppliers["first"]
        consumers = self.consumers[1:] if gone == "consumer" else self.consumers
        before = self.seen(consumers[-1], {}).counts
        grown = {name: before.get(name, 0) + 5 * f.PAGE for name in suppliers}
        for consumer in consumers:
            self.seen(consumer, grown)
        published = {}
        for name, supplier in suppliers.items():
            published[name], error = supplier.ask("stop")
            assert error is None, f"supplier {name}: {error}"
        for consumer in consumers:
            seen = self.seen(consumer, published)
            assert {name: seen.counts[name] for name in published} == published
        self.readings.close()
        for consumer in consumers:
            last: f.Seen = f.until(
                lambda consumer=consumer: (seen := consumer.ask("what")).ended and seen,
                "the end of the channel has come",
            )
            assert (last.error, last.broken) == (None, [])
            assert {name: last.counts[name] for name in published} == published

    def until_ended(self) -> list[f.Seen]:
        """What consumers have seen when their subscriptions have ended."""
        return [
            f.until(
                lambda consumer=consumer: (seen := consumer.ask("what")).ended and seen,
                "a subscription has ended",
            )
            for consumer in self.consumers
        ]

    def check_end(self) -> None:
        """Without the directory the fabric ends: everybody is told, and nothing was broken."""
        for seen in self.until_ended():
            assert not seen.broken, seen.broken
            assert (seen.error or "").startswith("Unreachable: "), seen.error
        for supplier in self.suppliers.values():
            _, error = supplier.ask("stop")
            assert error is None or error.startswith(("Closed: ", "Unreachable: ")), error


@pytest.mark.timeout(300)
def test_survivors_keep_the_contract(ray_cluster: Any, tmp_path: Path) -> None:
    """Also after a test that fails amid a move. That nothing is left, the fixture sees."""
    with contextlib.closing(Field(tmp_path)) as field, OnRay(field.fabric).lost_after(5.0):
        for party, phase, fault in ALWAYS:
            field.play(party, phase, fault)
        folder = tmp_path / "gates"
        folder.mkdir()
        with (
            pytest.raises(ZeroDivisionError),
            contextlib.ExitStack() as stack,
            Round(field, stack, folder).held_in("capturing"),
        ):
            raise ZeroDivisionError


@pytest.mark.table
@pytest.mark.timeout(7200)  # ten rounds take an hour on a machine that does nothing else
def test_the_whole_table(ray_cluster: Any, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    rounds = pytestconfig.getoption("rounds")
    cells = list(itertools.product(PARTIES, PHASES, FAULTS))
    outcomes: dict[tuple[str, ...], Counter[str]] = {cell: Counter() for cell in cells}
    broken: list[str] = []

    def play(cell: tuple[str, str]) -> None:
        """All rounds of a party in a phase, in one fabric for as long as it lives."""
        party, phase = cell
        with contextlib.ExitStack() as stack:
            field: Field | None = None
            for fault in FAULTS:
                for number, how in zip(range(rounds), itertools.cycle(FAULTS[fault]), strict=False):
                    try:
                        if field is None:
                            field = Field(tmp_path / f"{party} {phase} {how} {number}")
                            stack.callback(field.close)
                        outcome = field.play(party, phase, how)
                    except (AssertionError, ActiveBrokerError) as failure:
                        outcome = "VIOLATED"
                        broken.append(f"{party}, {phase}, {how}: {failure!r}")
                        print(broken[-1], flush=True)
                    outcomes[party, phase, fault][outcome] += 1
                    print(f"{party}, {phase}, {how}: {outcome}", flush=True)
                    if outcome in ("VIOLATED", "the fabric ended"):
                        stack.close()
                        field = None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(play, itertools.product(PARTIES, PHASES)))
    table = Table("party", "phase", "fault", "rounds", "outcomes")
    for cell, counted in outcomes.items():
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counted.items()))
        table.add_row(*cell, str(counted.total()), told)
    Console(width=120).print(table)
    assert not broken, "\n".join(broken)
