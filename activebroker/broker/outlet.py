"""An outlet: where a node's events leave for all who want them.

A supplier has one, and so has every stage for its derived channel. Each flow out of it has a
credit in bytes that its port gives back as it consumes; events wait here when it is used up, and
while any wait the outlet is not ready and its producer pauses. So a slow consumer slows its
suppliers, and each flow holds at most a window and one emission.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from activebroker.broker.messages import FlowEnded, StreamEnded
from activebroker.matching import Parcel, parse, select
from activebroker.routing import FlowSpec
from predicate_extract import Predicate

WINDOW = 4 << 20  # bytes of a flow that may be under way

Item = Parcel | StreamEnded | FlowEnded
Carry = Callable[["OutFlow", Item], None]


@dataclass(slots=True)
class OutFlow:
    """The sending end of a flow, with its counters."""

    spec: FlowSpec
    predicate: Predicate
    credit: int = WINDOW
    since: int = 0  # the first sequence number that it wants
    ending: bool = False  # its end is behind what waits; nothing more is for it
    waiting: deque[Item] = field(default_factory=deque)
    offered_events: int = 0
    offered_bytes: int = 0
    sent_events: int = 0
    sent_bytes: int = 0


class Outlet:
    """Selects each batch for each flow and hands it to `carry` as credit allows."""

    def __init__(self, id: int, channel: str, supplier: str | None, carry: Carry) -> None:
        self.id = id
        self.channel = channel
        self.supplier = supplier
        self.flows: dict[int, OutFlow] = {}
        self.emitted_events = 0
        self.ended = False
        self.error: str | None = None  # why it ended, if its filter was stopped
        self._carry = carry
        self._last: Parcel | None = None

    @property
    def position(self) -> int:
        """The sequence number that comes next, at the outlet of one supplier."""
        return 0 if self._last is None else int(self._last.batch.seqs[-1]) + 1

    @property
    def ready(self) -> bool:
        """Whether no flow waits for credit."""
        return not any(flow.waiting for flow in self.flows.values())

    @property
    def drained(self) -> bool:
        """Whether nothing more will leave."""
        return self.ended and not self.flows

    def open(self, spec: FlowSpec) -> None:
        self.flows[spec.id] = OutFlow(spec, parse(spec.predicate), since=spec.since)

    def set_predicate(self, flow_id: int, predicate: str | None) -> None:
        if (flow := self.flows.get(flow_id)) is not None:
            flow.predicate = parse(predicate)

    def close(self, flow_id: int) -> None:
        """Stop at once: the port is gone."""
        self.flows.pop(flow_id, None)

    def emit(self, parcel: Parcel) -> None:
        """Send a batch to every flow that wants some of it."""
        rows, nbytes = parcel.batch.num_rows, parcel.nbytes
        self.emitted_events += rows
        self._last = parcel
        selected: dict[Predicate, Parcel | None] = {}
        for flow in self._open():
            if flow.predicate not in selected:
                selected[flow.predicate] = select(parcel, flow.predicate)
            flow.offered_events += rows
            flow.offered_bytes += nbytes
            part = selected[flow.predicate]
            if part is not None and flow.since:
                part = _skip(part, flow)
            if part is not None:
                flow.sent_events += part.batch.num_rows
                flow.sent_bytes += part.nbytes
                self._put(flow, part)

    def end_stream(self, supplier: str) -> None:
        """Tell all flows that a supplier's stream is complete."""
        for flow in self._open():
            self._put(flow, StreamEnded(flow.spec.id, flow.spec.port, supplier))

    def end_flow(
        self, flow_id: int, followers: int = 0, finished: bool = False, error: str | None = None
    ) -> None:
        """End one flow behind what it has been given; it leaves the table when that is sent."""
        if (flow := self.flows.get(flow_id)) is not None and not flow.ending:
            flow.ending = True
            self._put(flow, FlowEnded(flow_id, flow.spec.port, followers, finished, error))

    def end(self, finished: bool = False, error: str | None = None) -> None:
        """End all flows; the outlet is drained when they have gone."""
        self.ended, self.error = True, error
        for flow_id in list(self.flows):
            self.end_flow(flow_id, finished=finished, error=error)

    def return_credit(self, flow_id: int, nbytes: int) -> None:
        """The port consumed `nbytes`; send what waited for it."""
        if (flow := self.flows.get(flow_id)) is None:
            return
        flow.credit += nbytes
        while flow.waiting and (flow.credit > 0 or not isinstance(flow.waiting[0], Parcel)):
            self._send(flow, flow.waiting.popleft())

    def _open(self) -> list[OutFlow]:
        return [flow for flow in self.flows.values() if not flow.ending]

    def _put(self, flow: OutFlow, item: Item) -> None:
        if flow.waiting or (flow.credit <= 0 and isinstance(item, Parcel)):
            flow.waiting.append(item)
        else:
            self._send(flow, item)

    def _send(self, flow: OutFlow, item: Item) -> None:
        if isinstance(item, Parcel):
            flow.credit -= item.nbytes
        elif isinstance(item, FlowEnded):
            del self.flows[flow.spec.id]
        self._carry(flow, item)


def _skip(parcel: Parcel, flow: OutFlow) -> Parcel | None:
    """Leave out what comes before the flow's first sequence number."""
    wanted = parcel.batch.seqs >= flow.since
    if not wanted.any():
        return None
    flow.since = 0
    return parcel if wanted.all() else Parcel(parcel.batch.filter(wanted), parcel.certain)
