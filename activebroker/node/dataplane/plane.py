"""What a node's flows and stages share: their tables, and the consequences of an input so far."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from activebroker.node.context import Context
from activebroker.node.dataplane.inlet import Inlet
from activebroker.node.dataplane.outlet import Item, Outlet
from activebroker.node.dataplane.stage import Stage
from activebroker.protocol.messages import Body
from derivation.protocol import Error


class Arrival(NamedTuple):
    """An item of a flow that ends at the node where it begins."""

    inlet: int
    flow: int
    item: Item


@dataclass(frozen=True, slots=True)
class InputBegan:
    """A flow into a stage begins: in a move, the begin marker."""

    stage: int
    flow: int


@dataclass(frozen=True, slots=True)
class InputEnded:
    """A flow into a stage ended after its last event: in a move, the end marker."""

    stage: int
    flow: int
    lost: bool  # it ended because its source is lost


@dataclass(frozen=True, slots=True)
class FilterSaved:
    """The filter of a stage can be recovered elsewhere, or there is nothing to save any more; with
    an `error`, that has stopped it."""

    stage: int
    error: Error | None = None


@dataclass(frozen=True, slots=True)
class FilterChanged:
    """The filter of a stage has other parameters, or could not get them."""

    stage: int
    outcome: bool | str  # the answer to `ChangeStage`


Fact = InputBegan | InputEnded | FilterSaved | FilterChanged


class Plane:
    """The outlets, inlets and stages of a node, by id. A stage, its inlet and its outlet have the
    same id.

    The node works off `under_way`, `facts` and `touched`, in this order, before an input is over.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.outlets: dict[int, Outlet] = {}
        self.inlets: dict[int, Inlet] = {}
        self.stages: dict[int, Stage] = {}
        self.stopped: dict[int, Error] = {}  # outlets whose filter was stopped, and why
        self.under_way: deque[Body | Arrival] = deque()  # between two parts of this node
        self.facts: deque[Fact] = deque()  # for other parts of this node
        self.touched: dict[int, None] = {}  # outlets and stages that may be able to go on

    def touch(self, id: int) -> None:
        """The outlet and the stage with this id may be able to go on, or may have ended."""
        self.touched[id] = None

    def tell(self, node: str, body: Body) -> None:
        """Send a message about a flow to the node at its other end, which may be this one."""
        if node == self.context.here:
            self.under_way.append(body)
        else:
            self.context.send(node, body, ())
