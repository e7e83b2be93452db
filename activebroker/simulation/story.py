"""Frames, batches and deadlocks in words, for the history of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activebroker.events import Batch, load
from activebroker.node.node import Node
from activebroker.protocol.flows import CreditReturned, Events, FlowEnded, FlowOpened, TypeAnnounced
from activebroker.protocol.frame import decode
from activebroker.protocol.messages import Answer, Call, Heard, PrepareMove, SwapFlows
from activebroker.simulation.edge import NONSENSE
from activebroker.simulation.reference import ITEM
from derivation.protocol import Plan


class Flows:
    """Knows which move a flow belongs to, from the plans that it was shown."""

    def __init__(self) -> None:
        self._moves: dict[int, int] = {}

    def know(self, plan: Plan) -> None:
        flows = [flow for swap in plan.swaps for flow in (*swap.old, swap.new)]
        for flow in (*flows, *(output.flow for output in plan.outputs)):
            self._moves[flow] = plan.move

    def describe(self, frame: tuple[bytes, Any]) -> tuple[str, int | None]:
        """What a frame says, and in which move; nothing for what is not worth a line."""
        head = decode(frame[0])
        match head.body:
            case Heard() | TypeAnnounced() | CreditReturned():
                return "", None
            case Events(to, supplier, fingerprint):
                flows = ", ".join(str(flow) for flow, _ in to)
                if fingerprint == ITEM.fingerprint:
                    if list(frame[1]) == [NONSENSE]:
                        return f"nonsense of {supplier}", None
                    batch = load(ITEM, supplier, frame[1])
                    return f"{summary(batch)} in flow {flows}", None
                return f"events of {supplier} in flow {flows}", None
            case FlowOpened(flow, after=after):
                behind = f" after {', '.join(map(str, after))}" if after else ""
                return f"begin of flow {flow}{behind}", self._moves.get(flow)
            case FlowEnded(flow):
                return f"end of flow {flow}", self._moves.get(flow)
            case PrepareMove(prepare):
                return f"PrepareMove {prepare.plan.channel}", prepare.plan.move
            case SwapFlows(request):
                return "SwapFlows", request.move
            case Call(number, body):
                return f"{type(body).__name__}, call {number}", None
            case Answer(number, _, error):
                return f"answer to {number}" + (f": {error[0]}" if error else ""), None
            case body:
                return type(body).__name__, getattr(body, "move", None)


def summary(batch: Batch) -> str:
    seqs = batch.seqs
    if len(seqs) == 1:
        return f"event of {batch.supplier} {seqs[0]}"
    return f"events of {batch.supplier} {seqs[0]}..{seqs[-1]}"


def stuck(nodes: Mapping[str, Node], now: float) -> str:
    """What everybody waits for."""
    lines = [f"nothing more happens, or too late, at {now:.3f} s"]
    for name, node in nodes.items():
        unacknowledged = {
            peer: link.unacknowledged
            for peer, link in node.peers.links.items()
            if link.unacknowledged
        }
        lines.append(f"{name}: links {unacknowledged} moves {node.moves.under_way()}")
        for outlet in node.plane.outlets.values():
            for flow in outlet.flows.values():
                lines.append(f"  {flow.spec} credit {flow.credit} waiting {len(flow.waiting)}")
        for inlet in node.plane.inlets.values():
            for into in inlet.flows.values():
                lines.append(f"  inlet {inlet.id}: flow {into.id} waits for {into.after}")
    return "\n".join(lines)
