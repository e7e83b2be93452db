"""A move or an offload, planned on the graph and carried out by the initiator's machine."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from activebroker.directory.context import Context
from activebroker.directory.graph import Graph
from activebroker.directory.parts import Derived, Flow, Inlet, Made, Outlet, Relay, Root, Stage
from activebroker.matching import union
from activebroker.protocol.messages import PrepareMove, SwapFlows
from activebroker.protocol.requests import Move, Offload
from activebroker.protocol.specs import FlowSpec, StageSpec
from derivation.initiator import Begun, DeadlinePassed, GivenUp, Initiator
from derivation.protocol import (
    Cancel,
    CancelDeadline,
    End,
    Finish,
    Output,
    PartyLost,
    Plan,
    Prepare,
    Prepared,
    Proceed,
    Refused,
    RequestSwap,
    Send,
    SetDeadline,
    Started,
    Swap,
)

Input = Begun | Prepared | Refused | Started | PartyLost | DeadlinePassed | GivenUp


@dataclass(slots=True)
class PlannedMove:
    """A move or an offload: its plan, the machine that carries it out, and the picture after it."""

    channel: Made
    plan: Plan
    stages: dict[str, StageSpec]  # by destination
    old_stages: dict[str, int]  # by origin, which gives it up
    sources: dict[int, tuple[Outlet, FlowSpec]]  # by the new flow of a swap
    outputs: dict[str, list[FlowSpec]]  # by destination
    new_flows: list[Flow]
    retained_at: list[str]  # nodes that retain events for the filter: it sends acknowledgements
    commit: Callable[[Graph], None]  # puts the new parts into the graph
    request: Move | Offload
    machine: Initiator = field(init=False)

    def __post_init__(self) -> None:
        self.machine = Initiator(self.plan, self.request.patience)

    def pairs(self) -> list[tuple[str, str]]:
        """The (source, target) nodes that need a link between them: for the new flows, the
        hand-overs, failures and acknowledgements."""
        flows = [(flow.outlet.node, flow.inlet.node) for flow in self.new_flows]
        flows += itertools.product(self.plan.destinations, [self.channel.owner, *self.retained_at])
        return [*flows, *itertools.product(self.plan.origins, self.plan.destinations)]

    def handle(self, input: Input, context: Context) -> Finish | None:
        """Give an input to the machine, and carry out its effects. Returns how the move ended, when
        it has; and once before, if it becomes overdue."""
        finish: Finish | None = None
        for effect in self.machine.handle(input, context.now):
            match effect:
                case Send(to, Prepare() as message):
                    stage, outputs = self.stages.get(to), tuple(self.outputs.get(to, ()))
                    context.tell(to, PrepareMove(message, self.old_stages.get(to), stage, outputs))
                case Send(to, RequestSwap() as message):
                    outlet, spec = self.sources[message.swap.new]
                    context.tell(to, SwapFlows(message, outlet.id, spec))
                case Send(to, Proceed() | Cancel() | End() as message):
                    context.tell(to, message)
                case SetDeadline(at):
                    context.set_timer("move", self.plan.move, at - context.now)
                case CancelDeadline():
                    context.set_timer("move", self.plan.move, None)
                case Finish():
                    finish = effect
        return finish


def plan_move(
    graph: Graph, me: str, channel: Derived, nodes: list[str], engine: str, request: Move
) -> PlannedMove:
    """Plan to move the filter of a derived channel to `nodes`; at "supplier" these are the nodes of
    the outlets that feed it."""
    parent = channel.parent
    old = list(channel.stages.values())
    old_outlets = [channel.outlets[stage.id] for stage in old]
    local = request.to == "supplier"
    new = [Stage(graph.new_id(), node, engine) for node in nodes]
    by_node = {stage.node: stage for stage in new}

    recovered = channel.recovers
    stays = local and not parent.recovers  # it will be lost with its suppliers
    swaps, inputs = [], []
    sources: dict[int, tuple[Outlet, FlowSpec]] = {}
    suppliers: list[tuple[str, str]] = []
    for outlet, before in graph.feeds(channel):
        stage = by_node[outlet.node] if local else new[0]
        inlet = Inlet(stage.id, stage.node, channel.predicate, makes=channel, recovers=True)
        flow = Flow(graph.new_id(), parent, outlet, inlet)
        inputs.append(flow)
        after = tuple(each.id for each in before)
        swaps.append(
            Swap(
                source=outlet.node,
                old=after,
                new=flow.id,
                destination=stage.node,
                origin=before[0].inlet.node if before else None,
            )
        )
        sources[flow.id] = outlet, flow.spec(after)
        suppliers += [(supplier, stage.node) for supplier in graph.suppliers(outlet)]

    new_outlets = {stage.node: Outlet(stage.id, stage.node) for stage in new}
    old_flows = [flow for outlet in old_outlets for flow in graph.out_of(outlet.id)]
    outputs: dict[str, list[FlowSpec]] = {node: [] for node in new_outlets}
    out_flows: list[Flow] = []
    for node, outlet in new_outlets.items():
        for inlet in channel.inlets.values():
            flow = Flow(graph.new_id(), channel, outlet, inlet)
            out_flows.append(flow)
            after = tuple(each.id for each in old_flows if each.inlet.id == inlet.id)
            outputs[node].append(flow.spec(after))

    plan = Plan(
        move=graph.new_id(),
        channel=channel.name,
        initiator=me,
        origins=tuple(stage.node for stage in old),
        destinations=tuple(stage.node for stage in new),
        swaps=tuple(swaps),
        outputs=tuple(Output(flow.outlet.node, flow.id) for flow in old_flows),
        suppliers=tuple(suppliers) if local else (),
        saves=not recovered,
    )
    if not recovered:
        channel.checkpoint, channel.fresh = None, not old  # without a stage it has done nothing yet

    def commit(graph: Graph) -> None:
        for stage in old:
            graph.displace(channel, stage.id)
        channel.left |= {each.id: each for each in old_outlets if not each.drained}
        channel.at = channel.asked = request.to
        channel.instead = ""
        channel.returning = stays
        for stage in new:
            channel.stages[stage.id] = stage
            channel.outlets[stage.id] = new_outlets[stage.node]
            graph.input(channel, stage)
        for flow in inputs:
            flow.inlet = parent.inlets[flow.inlet.id]
        for flow in (*inputs, *out_flows):
            graph.flows[flow.id] = flow

    return PlannedMove(
        channel=channel,
        plan=plan,
        stages={stage.node: channel.stage_spec(stage, recovers=True) for stage in new},
        old_stages={stage.node: stage.id for stage in old},
        sources=sources,
        outputs=outputs,
        new_flows=[*inputs, *out_flows],
        retained_at=[each.node for each in graph.retaining(parent, channel.name)],
        commit=commit,
        request=request,
    )


def plan_offload(
    graph: Graph,
    me: str,
    channel: Root,
    own: Outlet,
    moved: list[Flow],
    node: str,
    request: Offload,
) -> PlannedMove:
    """Plan to hand the flows `moved` of a supplier's outlet `own` over to a relay at `node`."""
    stage = Stage(graph.new_id(), node)
    wanted = union(flow.inlet.predicate for flow in moved)
    relay = Relay(f"relay {stage.id}", channel, request.supplier, own, node, wanted)
    outlet = Outlet(stage.id, node, own.supplier)
    inlet = Inlet(stage.id, node, wanted, relay, recovers=True)
    feed = Flow(graph.new_id(), channel, own, inlet)
    out_flows = [Flow(graph.new_id(), channel, outlet, flow.inlet) for flow in moved]
    plan = Plan(
        move=graph.new_id(),
        channel=channel.name,
        initiator=me,
        origins=(),
        destinations=(node,),
        swaps=(
            Swap(
                source=own.node,
                old=tuple(flow.id for flow in moved),
                new=feed.id,
                destination=node,
            ),
        ),
    )

    def commit(graph: Graph) -> None:
        for flow in moved:
            del graph.flows[flow.id]
        for flow in (feed, *out_flows):
            graph.flows[flow.id] = flow
        graph.relays[relay.name] = relay
        relay.stages[stage.id] = stage
        relay.outlets[stage.id] = outlet
        relay.subscribers = {flow.inlet.subscriber: {} for flow in moved}
        channel.inlets[stage.id] = inlet
        if request.consumers is None:
            for each in graph.relays_of(channel, own.supplier):
                each.newcomers = each is relay

    return PlannedMove(
        channel=relay,
        plan=plan,
        stages={node: relay.stage_spec(stage, True)},
        old_stages={},
        sources={feed.id: (own, feed.spec())},
        outputs={
            node: [
                flow.spec(after=(before.id,)) for flow, before in zip(out_flows, moved, strict=True)
            ]
        },
        new_flows=[feed, *out_flows],
        retained_at=[],
        commit=commit,
        request=request,
    )
