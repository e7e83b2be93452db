"""Which kinds of derivations have been carried out, with how many suppliers, and which not yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from rich import box
from rich.table import Table
from rich.text import Text

from activebroker.directory.parts import CONSUMER, SUPPLIER, Derived
from activebroker.directory.planning import PlannedMove
from activebroker.node.node import Node
from activebroker.protocol.requests import Move, Offload
from activebroker.simulation.machines import planned
from activebroker.simulation.outcome import Carried
from activebroker.simulation.reference import FILTERS, KEYED, RAISING, RECONFIGURED
from activebroker.simulation.scenario import BROKER_NAMES, HUB

BROKER = "broker"
SPLIT = "split"
OFFLOAD, OFFLOAD_OF_SOME = "offload", "offload of some"
MOVES = (
    "consumer to broker",
    "consumer to consumer",
    "consumer to supplier",
    "broker to broker",
    "broker to consumer",
    "broker to supplier",
    "supplier to broker",
    "supplier to consumer",
    "supplier to supplier",  # where some have left, or come
    SPLIT,
)
OFFLOADS = (OFFLOAD, OFFLOAD_OF_SOME)
DEPTHS = ("depth 1", "depth 2", "depth 3, more")  # of the channel whose filter moved
UNDONE = {"ROLLED_BACK": "undone", "FAILED": "failed"}
COLUMNS = (*map(str, range(1, 9)), *UNDONE.values())

Cell = tuple[str, str, bool]  # row, column, whether of stateful filters

_STATEFUL = {
    cls.__name__
    for cls in (*FILTERS, *RECONFIGURED, *RAISING, *KEYED)
    if vars(cls()).keys() - {"_forwarded", *cls.parameters}
}


class Kinds:
    """Sees what a move is when it begins, and counts it when it has ended.

    `splits`: the moves that users asked for to split a broker.
    """

    def __init__(self) -> None:
        self.carried: Counter[Carried] = Counter()
        self.splits: dict[Move, None] = {}
        self._begun: dict[int, Carried] = {}

    def entered(self, node: Node, move: int, state: str) -> None:
        """The initiator of a move, at `node`, is in another state."""
        if state == "COMPLETED" or state in UNDONE:
            self.carried[self._begun.pop(move)._replace(outcome=state)] += 1
        elif move not in self._begun and (found := planned(node, move)) is not None:
            self._begun[move] = self._seen(found)

    def _seen(self, planned: PlannedMove) -> Carried:
        request, made = planned.request, planned.channel
        depth, each = int(isinstance(made, Derived)), made.parent
        while isinstance(each, Derived):
            depth, each = depth + 1, each.parent
        suppliers = len({outlet.supplier for outlet in made.root.outlets.values()})
        if isinstance(request, Offload):
            kind = OFFLOAD if request.consumers is None else OFFLOAD_OF_SOME
        elif request in self.splits:
            kind = SPLIT
        else:
            kind = f"{_sort(made.at)} to {_sort(request.to)}"
        stateful = isinstance(made, Derived) and made.envelope.name in _STATEFUL
        return Carried(kind, depth, suppliers, stateful, "")


def _sort(place: str) -> str:
    """A filter that was recovered is at a node, be that a broker or not."""
    if place == SUPPLIER:
        return SUPPLIER
    return BROKER if place in (*BROKER_NAMES, HUB) else CONSUMER


def kept_in(row: str) -> tuple[bool, ...]:
    """Whether filters are stateful, as far as a row tells them apart: an offload has none."""
    return (False,) if row in OFFLOADS else (False, True)


def cells() -> Iterator[Cell]:
    """All that can be met."""
    for row in (*MOVES, *OFFLOADS, *DEPTHS):
        for column in COLUMNS:
            yield from ((row, column, stateful) for stateful in kept_in(row))


def met(carried: Mapping[Carried, int]) -> Counter[Cell]:
    """How often each cell was met; a move is in two, that of its kind and that of its depth.

    Completed ones are told apart by the number of suppliers; the table leaves those without any
    out.
    """
    found: Counter[Cell] = Counter()
    for each, times in carried.items():
        column = UNDONE.get(each.outcome, str(each.suppliers))
        found[each.kind, column, each.stateful] += times
        if each.depth:
            row = DEPTHS[min(each.depth, len(DEPTHS)) - 1]
            found[row, column, each.stateful] += times
    return found


def missing(carried: Mapping[Carried, int]) -> tuple[Cell, ...]:
    """The cells that no run has met."""
    found = met(carried)
    return tuple(cell for cell in cells() if not found[cell])


def unforeseen(carried: Mapping[Carried, int]) -> tuple[Cell, ...]:
    """What runs have met and the table does not hold."""
    known = set(cells())
    return tuple(cell for cell in met(carried) if cell not in known and cell[1] != "0")


def kinds_table(carried: Mapping[Carried, int]) -> Table:
    """Kind by number of suppliers. A red 0 is a cell that is missing."""
    found = met(carried)
    total = sum(1 for _ in cells())
    table = Table(
        title="Moves completed, by suppliers, of stateless/stateful filters: "
        f"{total - len(missing(carried))} of {total} cells",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("kind", no_wrap=True)
    for column in COLUMNS:  # 100 columns are enough for each; with less they fold
        table.add_column(column, justify="right", overflow="fold")
    for rows in (MOVES, OFFLOADS, DEPTHS):
        table.add_section()
        for row in rows:
            table.add_row(row, *(_shown(found, row, column) for column in COLUMNS))
    return table


def _shown(found: Counter[Cell], row: str, column: str) -> Text:
    return Text("/").join(_count(found[row, column, kept]) for kept in kept_in(row))


def _count(count: int) -> Text:
    short = f"{count // 1000}k" if count > 999 else str(count)  # ten columns fit a terminal
    return Text(short, style="" if count else "bold red")
