from __future__ import annotations

from collections import Counter
from io import StringIO

import pytest
from rich.console import Console

from activebroker.simulation.coverage import (
    ANY,
    IMPOSSIBLE,
    cells,
    coverage_table,
    impossible,
    missing,
    states,
    unforeseen,
)
from activebroker.simulation.outcome import Covered
from activebroker.simulation.scenario import FAULT_KINDS, MACHINES
from derivation.destination import Destination
from derivation.initiator import Initiator
from derivation.machine import Machine
from derivation.origin import Origin
from derivation.source import Source

HIT: Covered = ("origin", "CAPTURING", "drop")
ALL = Counter(dict.fromkeys(cells(), 1))


def shown(covered: Counter[Covered]) -> str:
    console = Console(width=200, file=StringIO())
    with console.capture() as capture:
        console.print(coverage_table(covered))
    return capture.get()


@pytest.mark.parametrize("machine", [Initiator, Source, Origin, Destination])
def test_the_states_are_those_of_the_tables(machine: type[Machine]) -> None:
    named = states(machine.__name__.lower())
    assert {state.name for state, _ in machine.table} <= set(named)


def test_what_cannot_happen_is_about_machines_states_and_faults_that_exist() -> None:
    for machine, state, fault in IMPOSSIBLE:
        assert state in (*states(machine), ANY)
        assert fault in (*FAULT_KINDS, ANY)


def test_what_cannot_happen_is_neither_a_cell_nor_missing() -> None:
    assert impossible(("initiator", "IDLE", "crash")) is not None
    assert ("initiator", "IDLE", "crash") not in missing({})
    assert impossible(HIT) is None


def test_a_cell_is_missing_until_it_is_hit() -> None:
    assert HIT in missing(Counter())
    assert HIT in missing(Counter({HIT: 0}))
    assert HIT not in missing(Counter({HIT: 1}))
    assert missing(ALL) == ()


def test_a_hit_that_cannot_happen_is_told() -> None:
    never = ("initiator", "IDLE", "crash")
    unknown = ("origin", "CAPTURING", "fire")
    assert unforeseen(ALL) == ()
    assert unforeseen(ALL + Counter({never: 1, unknown: 2})) == (never, unknown)


def test_the_table_shows_counts_what_is_missing_and_what_cannot_be() -> None:
    lines = shown(Counter({HIT: 12345})).splitlines()
    total = len(ALL)
    assert f"1 of {total} cells" in lines[0]
    (row,) = (line.split() for line in lines if "CAPTURING" in line)
    assert row == ["CAPTURING", "12k", *"0" * (len(FAULT_KINDS) - 1)]
    assert "IDLE" not in shown(ALL)
    assert f"{total} of {total} cells" in shown(ALL)


def test_every_machine_of_a_derivation_is_covered() -> None:
    assert {machine for machine, _, _ in cells()} == set(MACHINES)
