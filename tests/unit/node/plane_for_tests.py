"""The data plane of a node without the node: what it sends and asks for is in lists."""

from __future__ import annotations

from typing import Any

from chunks_for_tests import NOTE, chunk

from activebroker.events import EventType, TypeRegistry
from activebroker.node.context import Context
from activebroker.node.dataplane.inlets import Inlets
from activebroker.node.dataplane.outlets import Outlets
from activebroker.node.dataplane.plane import Plane
from activebroker.node.dataplane.stages import Stages
from activebroker.protocol.messages import Body
from activebroker.protocol.specs import FlowSpec, StageSpec


class Parts:
    """`sent` are the messages to others, each with who gets it."""

    def __init__(self) -> None:
        registry = TypeRegistry()
        registry.register(NOTE)
        self.sent: list[tuple[str, Body]] = []
        self.announced: list[tuple[str, str]] = []
        self.context = Context("here", "hub", registry, self._send, self._announce)
        self.plane = Plane(self.context)
        self.outlets = Outlets(self.plane)
        self.inlets = Inlets(self.plane)
        self.stages = Stages(self.plane, self.outlets, self.inlets)

    def _send(self, peer: str, body: Body, buffers: Any) -> None:
        self.sent.append((peer, body))

    def _announce(self, peer: str, type: EventType) -> None:
        self.announced.append((peer, type.name))

    def take(self) -> list[tuple[str, Body]]:
        """What was sent since this was asked."""
        sent, self.sent = self.sent, []
        return sent

    def supplier(self, id: int = 1) -> None:
        self.outlets.open(id, "notes", "A")

    def publish(self, *groups: int, first: int, outlet: int = 1, size: int = 0) -> None:
        self.outlets.publish(outlet, chunk(*groups, first=first, size=size))
        self.outlets.send_events()

    def stage(self, envelope: Any = None) -> Any:
        stage = self.stages.open(StageSpec(7, "notes.Late", "python", envelope, "owner"))
        self.stages.start(stage)
        return stage


def flow(id: int, target: str, outlet: int = 1, inlet: int = 9, **more: Any) -> FlowSpec:
    more.setdefault("subscriber", f"inlet {inlet} at {target}")
    return FlowSpec(id, outlet, "here", inlet, target, **more)
