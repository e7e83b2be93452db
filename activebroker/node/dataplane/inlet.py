"""An inlet: where flows arrive at a subscription or a stage.

A flow that follows others is held until those have ended here. This alone preserves the order when
a filter moves. What is held counts against the flow's credit.

A flow that is lost with its source may leave a gap. The flows that follow it are *broken*: they are
not taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from activebroker.core.errors import Unreachable, flatten
from activebroker.matching import Chunk, split
from activebroker.protocol.flows import FlowEnded, StreamEnded
from activebroker.protocol.specs import NOWHERE, Offset, Offsets
from derivation.protocol import Error

LOST = flatten(
    Unreachable(
        "A place that ran the channel's filter was lost when the channel had been closed already."
    )
)

Item = Chunk | StreamEnded | FlowEnded


@dataclass(slots=True)
class InFlow:
    """The receiving end of a flow."""

    id: int
    source: str  # node
    outlet: int
    after: set[int]  # the flows whose end it still waits for
    supplier: str | None = None  # None if it comes from a filter
    recovers: bool = False  # it comes from a filter that is replaced if it is lost
    repeats: bool = False  # some of its events may be here already
    begun: bool = True  # False: only the directory's notice of it has come
    lost: bool = False  # its source is gone
    held: list[Item] = field(default_factory=list)
    consumed: int = 0  # bytes consumed but not yet given back as credit

    @property
    def all_here(self) -> bool:
        """Whether the flow is held with its end."""
        return bool(self.held) and isinstance(self.held[-1], FlowEnded)


class Inlet:
    """Orders what arrives. Methods that take or free items return the (flow, item) pairs that can
    go on."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.flows: dict[int, InFlow] = {}
        self.error: Error | None = None
        self.received: Offsets = {}  # how far the items that went on have come
        # By outlet, (node, subscriber): the outlets that wait for acknowledgements.
        self.sources: dict[int, tuple[str, str]] = {}
        # Those of them whose flow has ended, with what had come by then.
        self.leaving: dict[int, Offsets] = {}
        self.direct = False  # fed by suppliers themselves, or by a log
        self.ends = False  # with its flow, though the channel goes on
        self.had: Offsets = {}  # how far the subscription had come at the node before
        self.came: Offsets = {}  # how far the filter had come at the node before
        self.holes: dict[int, None] = {}  # outlets whose flows were lost and not replaced yet
        self.since: Offsets = {}  # where streams began here
        self.anew = False  # its filter begins anew; an earlier filter may have had the name
        self.announced: dict[str, int] = {}  # supplier -> the first outlet that was to feed it
        self._ended: set[int] = set()  # flows, for those that follow them and open later
        self._finished: set[int] = set()
        self._lost: set[int] = set()
        self._broken: list[InFlow] = []
        self._repeated: list[tuple[InFlow, int]] = []
        self._released: dict[int, None] = {}  # outlets that will be replaced
        self._awaited: frozenset[int] | None = None  # set when the channel closes

    @property
    def quiet(self) -> bool:
        """Whether no flow can bring anything."""
        return not any(flow.begun for flow in self.flows.values())

    @property
    def closing(self) -> bool:
        """Whether the channel was closed: no more flows will be opened."""
        return self._awaited is not None

    @property
    def complete(self) -> bool:
        """Whether the channel was closed and every flow has brought all its events."""
        if self.ends and self._finished:
            return True
        if self._awaited is None or self.flows:
            return False
        return self._awaited <= self._finished | self._lost

    @property
    def failure(self) -> Error | None:
        """Why the inlet ends before the channel's end, if it does."""
        return self.error or (LOST if self.holes else None)

    def close(self, flows: Iterable[int]) -> None:
        """The channel was closed: the inlet is complete when `flows` have finished."""
        self._awaited = frozenset(flows)

    def expect(
        self,
        flow: int,
        source: str,
        outlet: int,
        supplier: str | None = None,
        recovers: bool = False,
    ) -> None:
        """The directory gives notice of a flow. Otherwise an inlet whose channel is closed would be
        complete while a short-lived supplier's events are still on their way."""
        if supplier is not None:
            self.announced.setdefault(supplier, outlet)
        over = flow in self._ended or flow in self._lost or outlet in self._released
        if flow not in self.flows and not over:
            self.flows[flow] = InFlow(
                flow, source, outlet, set(), supplier, recovers=recovers, begun=False
            )

    def opened(
        self,
        flow_id: int,
        source: str,
        outlet: int,
        after: Iterable[int],
        supplier: str | None = None,
        subscriber: str = "",
        recovers: bool = False,
        follows: bool = False,
        begins: Offset | None = None,
        began: Offset | None = None,
    ) -> None:
        """A flow begins; the arguments are the fields of `FlowOpened`.

        A flow that was on its way when its outlet was released is not taken.
        """
        if outlet in self._released:
            return
        if subscriber:
            self.sources[outlet] = source, subscriber
            self.leaving.pop(outlet, None)
        flow = self.flows[flow_id] = InFlow(flow_id, source, outlet, set(), supplier, recovers)
        self.direct |= supplier is not None
        if supplier is not None:
            goes_on = not self.anew or self.announced.setdefault(supplier, outlet) != outlet
            if began is not None and (goes_on or begins is None):
                self._begin(supplier, began)
            if begins is not None:
                flow.repeats = True
                came = self.came.pop(supplier, begins)
                self._begin(supplier, came if came[0] == begins[0] else begins)
                if self.received.get(supplier, NOWHERE)[0] != begins[0]:
                    self.received[supplier] = self.since[supplier]
        for earlier in after:
            if earlier in self._lost:
                self._break(flow)
            elif earlier not in self._ended:
                flow.after.add(earlier)
        if follows:
            flow.after |= {
                each.id
                for each in self.flows.values()
                if each.supplier == supplier and each.outlet != outlet
            }

    def arrived(self, flow_id: int, item: Item) -> list[tuple[InFlow, Item]]:
        """Take the next item of a flow; an end may free other flows."""
        flow = self.flows.get(flow_id)
        if flow is None or flow.all_here:
            return []  # closed here, or broken, while the item was under way
        if flow.after:
            flow.held.append(item)
            return []
        return self._pass(flow, [item])

    def ended_elsewhere(
        self, flow_ids: Iterable[int], lost: Iterable[int]
    ) -> list[tuple[InFlow, Item]]:
        """These flows ended, or were lost, at the inlet from which this one took over."""
        for flow_id in lost:
            self._lose(flow_id)
        free: list[tuple[InFlow, Item]] = []
        for flow_id in flow_ids:
            free += self._release(flow_id)
        return free

    def missed(self, supplier: str, so_far: Offset, served: bool) -> int:
        """How many events of a stream a subscription has missed: those from where it had come at
        the node before to `so_far`. None are missed if it was `served` all the time."""
        had = self.had.pop(supplier, None)
        if had is None or had[0] != so_far[0] or served:
            return 0
        self.received[supplier] = so_far
        return so_far[1] - had[1]

    def take_repeated(self) -> list[tuple[InFlow, int]]:
        """The repeated items that were dropped since the last call, as (flow, bytes)."""
        repeated, self._repeated = self._repeated, []
        return repeated

    def take_broken(self) -> list[InFlow]:
        """The flows that were broken since the last call."""
        broken, self._broken = self._broken, []
        return broken

    def took(self, upto: Offsets) -> None:
        """Events up to these offsets came another way, with a hand-over."""
        for supplier, at in upto.items():
            self.received[supplier] = max(at, self.received.get(supplier, at))

    def release(self, outlets: Iterable[int]) -> Offsets:
        """Drop the flows of these outlets, which will be replaced; return how far the inlet has
        come."""
        for outlet in outlets:
            self._released[outlet] = None
            self.sources.pop(outlet, None)
            self.leaving.pop(outlet, None)
            self.holes.pop(outlet, None)
            for flow in [flow for flow in self.flows.values() if flow.outlet == outlet]:
                del self.flows[flow.id]
        return self.received

    def leave(self, upto: Offsets) -> None:
        """Forget the outlets whose flow has ended, once all their events are acknowledged."""
        for outlet, came in list(self.leaving.items()):
            if all(upto.get(supplier, (-1, 0)) >= at for supplier, at in came.items()):
                del self.leaving[outlet]
                self.sources.pop(outlet, None)

    def lost(self, source: str, unopened: bool = False) -> list[tuple[InFlow, Item]]:
        """A node is gone: its flows end with what has arrived. `unopened`: only flows that have not
        begun end; the others are from the node's successor."""
        if not unopened:
            self.sources = {id: each for id, each in self.sources.items() if each[0] != source}
        free: list[tuple[InFlow, Item]] = []
        gone = [flow for flow in self.flows.values() if flow.source == source]
        for flow in gone:
            if unopened and flow.begun:
                continue
            if flow.all_here:
                continue
            flow.lost = True
            if flow.recovers:
                self.holes[flow.outlet] = None
            free += self.arrived(flow.id, FlowEnded(flow.id, self.id))
        return free

    def _begin(self, supplier: str, at: Offset) -> None:
        """Note where a stream began, unless that is known already."""
        if self.since.get(supplier, NOWHERE)[0] != at[0]:
            self.since[supplier] = at

    def _pass(self, flow: InFlow, items: list[Item]) -> list[tuple[InFlow, Item]]:
        free: list[tuple[InFlow, Item]] = []
        for item in items:
            if flow.repeats and isinstance(item, Chunk):
                known, new = split(item, self.received[item.batch.supplier], by_seq=True)
                if known is not None:
                    self._repeated.append((flow, known.nbytes))
                if new is None:
                    continue
                item = new
            free.append((flow, item))
            if not isinstance(item, FlowEnded):
                self.received[supplier_of(item)] = item.upto
            else:
                del self.flows[flow.id]
                if flow.outlet in self.sources:
                    self.leaving[flow.outlet] = dict(self.received)
                if item.finished:
                    self._finished.add(flow.id)
                if item.error is not None:
                    self.error = item.error
                if flow.lost:
                    self._lose(flow.id)
                else:
                    free += self._release(flow.id)
        return free

    def _lose(self, flow_id: int) -> None:
        self._lost.add(flow_id)
        for flow in list(self.flows.values()):
            if flow_id in flow.after:
                self._break(flow)

    def _break(self, flow: InFlow) -> None:
        if self.flows.pop(flow.id, None) is not None:
            self._broken.append(flow)
            self._lose(flow.id)

    def _release(self, ended: int) -> list[tuple[InFlow, Item]]:
        free: list[tuple[InFlow, Item]] = []
        self._ended.add(ended)
        for flow in list(self.flows.values()):
            if ended in flow.after:
                flow.after.discard(ended)
                if not flow.after:
                    held, flow.held = flow.held, []
                    free += self._pass(flow, held)
        return free


def supplier_of(item: Chunk | StreamEnded) -> str:
    return item.batch.supplier if isinstance(item, Chunk) else item.supplier
