"""What flows and stages at a node share: their tables, and what an input has still to lead to."""

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
    """A flow into a stage begins: the mark of a third-party derivation."""

    stage: int
    flow: int


@dataclass(frozen=True, slots=True)
class InputEnded:
    """A flow into a stage ended behind its last event, or its source is `lost`: the ACK of a
    third-party derivation."""

    stage: int
    flow: int
    lost: bool


@dataclass(frozen=True, slots=True)
class FilterSaved:
    """The filter of a stage can go on elsewhere; or there is nothing to save any more."""

    stage: int


@dataclass(frozen=True, slots=True)
class FilterChanged:
    """The filter of a stage has other parameters, or could not get them."""

    stage: int
    outcome: bool | str  # as `ChangeStage` is answered


Fact = InputBegan | InputEnded | FilterSaved | FilterChanged


class Plane:
    """The outlets, inlets and stages of a node, each by its number; a stage has that of its inlet
    and its outlet.

    `under_way` is what parts of this node sent each other, `facts` what others at this node have to
    know, `touched` the outlets, and stages, that may be able to go on. All three are worked off
    before an input is over, in this order: who does so is the node.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.outlets: dict[int, Outlet] = {}
        self.inlets: dict[int, Inlet] = {}
        self.stages: dict[int, Stage] = {}
        self.stopped: dict[int, Error] = {}  # outlets whose filter was stopped, and why
        self.under_way: deque[Body | Arrival] = deque()
        self.facts: deque[Fact] = deque()
        self.touched: dict[int, None] = {}

    def touch(self, id: int) -> None:
        """The outlet, and the stage, of this number may be able to go on, or may have ended."""
        self.touched[id] = None

    def tell(self, node: str, body: Body) -> None:
        """Say something about a flow to the node of its other end, which may be this one."""
        if node == self.context.here:
            self.under_way.append(body)
        else:
            self.context.send(node, body, ())
