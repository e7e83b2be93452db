"""Which fault has met which state of which machine, and which has not yet.

The states are those of the tables in `derivation`, the faults those of `scenario`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich import box
from rich.table import Table
from rich.text import Text

from activebroker.simulation.outcome import Covered
from activebroker.simulation.scenario import FAULT_KINDS, MACHINES

ANY = "*"
NEVER = "·"

# Cells that cannot happen, and why. Faults come between a node's inputs: a machine that is made,
# or dropped, within one input is in no state of that input.
IMPOSSIBLE: dict[Covered, str] = {
    ("initiator", "IDLE", ANY): "begins in the input that makes it",
    ("initiator", "COMPLETED", ANY): "is dropped when it ends",
    ("initiator", "FAILED", ANY): "is dropped when it ends",
    ("initiator", "ROLLED_BACK", ANY): "is dropped when it ends",
    ("initiator", ANY, "crash"): "the hub, which keeps the directory, is not crashed",
    ("origin", "RUNNING", ANY): "is prepared by the input that makes it",
    ("origin", "CANCELLED", ANY): "is dropped when it is cancelled",
}


def states(machine: str) -> tuple[str, ...]:
    """The names of a machine's states, in their order."""
    return tuple(state.name for state in MACHINES[machine])


def impossible(cell: Covered) -> str | None:
    """Why a cell cannot happen; None where it can."""
    machine, state, fault = cell
    for entry in ((machine, state, fault), (machine, state, ANY), (machine, ANY, fault)):
        if entry in IMPOSSIBLE:
            return IMPOSSIBLE[entry]
    return None


def cells() -> Iterator[Covered]:
    """Every (machine, state, fault) that can happen."""
    for machine in MACHINES:
        for state in states(machine):
            for fault in FAULT_KINDS:
                if impossible((machine, state, fault)) is None:
                    yield machine, state, fault


def missing(covered: Mapping[Covered, int]) -> tuple[Covered, ...]:
    """The cells that no run has hit."""
    return tuple(cell for cell in cells() if not covered.get(cell))


def unforeseen(covered: Mapping[Covered, int]) -> tuple[Covered, ...]:
    """What runs have hit and the table does not hold: the lists here are wrong, or `covered` is."""
    known = set(cells())
    return tuple(cell for cell, count in covered.items() if count and cell not in known)


def coverage_table(covered: Mapping[Covered, int]) -> Table:
    """State by fault. A red 0 is a cell that is missing, a dot one that cannot happen."""
    total, absent = sum(1 for _ in cells()), len(missing(covered))
    table = Table(
        title=f"Faults met by state: {total - absent} of {total} cells",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("in state", no_wrap=True)
    for fault in FAULT_KINDS:
        table.add_column(fault, justify="right")
    for machine in MACHINES:
        table.add_section()
        table.add_row(Text(machine, style="bold"))
        for state in states(machine):
            row = [_cell(covered, (machine, state, fault)) for fault in FAULT_KINDS]
            if any(cell.plain != NEVER for cell in row):
                table.add_row(f"  {state}", *row)
    return table


def _cell(covered: Mapping[Covered, int], cell: Covered) -> Text:
    if impossible(cell) is not None:
        return Text(NEVER, style="dim")
    count = covered.get(cell, 0)
    short = f"{count // 1000}k" if count > 9999 else str(count)  # nine columns fit a terminal
    return Text(short, style="" if count else "bold red")
