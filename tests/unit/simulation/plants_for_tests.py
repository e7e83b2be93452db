"""Faults planted into the core: what the checkers must find, or they check nothing.

`python plants_for_tests.py` prints how many seeds it takes to find each.
"""

from __future__ import annotations

import plants_between_nodes_for_tests as between_nodes
import plants_in_logs_for_tests as in_logs
import plants_in_moves_for_tests as in_moves
import plants_in_recovery_for_tests as in_recovery
from planting_for_tests import Plant, found
from rich.console import Console
from rich.table import Table

from activebroker.simulation.drawing import draw
from activebroker.simulation.run import hush

PLANTS: dict[str, Plant] = (
    in_moves.PLANTS | in_recovery.PLANTS | between_nodes.PLANTS | in_logs.PLANTS
)
SEEDS = 2000  # in which each is to be found


def main() -> None:
    hush()
    console = Console()
    table = Table("planted fault", "seed", "kind of violation")
    for name, plant in PLANTS.items():
        with console.status(name):
            hits = ((seed, what) for seed in range(SEEDS) if (what := found(draw(seed), plant)))
            seed, what = next(hits, (None, f"not in {SEEDS:,} seeds"))
        table.add_row(name, "" if seed is None else str(seed), what)
    console.print(table)


if __name__ == "__main__":
    main()
