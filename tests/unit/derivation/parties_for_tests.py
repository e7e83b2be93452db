"""A whole derivation in miniature: the machines, FIFO streams between them, numbered events.

Several sources feed a filter at one or more origins; it moves to one or more destinations while
they publish to one consumer. Whatever happens next stands at the head of a stream: a message, an
event in a flow, a publication, a piece of the filter's work. A test chooses which stream goes on.
The filter counts: of each event the consumer gets (number, how many its supplier had till then).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from derivation import destination, initiator, origin, protocol
from derivation.destination import Destination
from derivation.initiator import Initiator
from derivation.origin import Origin
from derivation.protocol import Output, Plan, Swap
from derivation.source import Source

DIRECTORY, CONSUMER = "directory", "consumer"
WAITING = origin.OriginState.SAVING, origin.OriginState.AWAITING_END_MARKERS

Stream = tuple[str, str, object]  # from, to, and what it is


@dataclass
class Place:
    """A party that runs the filter. `inbox` is what has arrived and is not filtered yet."""

    machine: Origin | Destination
    running: bool
    inbox: deque[tuple[str, int]] = field(default_factory=deque)
    counts: dict[str, int] = field(default_factory=dict)


class Derivation:
    """Source n feeds origin n modulo their number, and after the move a destination likewise."""

    def __init__(
        self, sources: int, origins: int, destinations: int, saves: bool, events: int
    ) -> None:
        self.swaps = {
            f"source-{n}": Swap(
                source=f"source-{n}",
                old=(n,),
                new=100 + n,
                destination=f"destination-{n % destinations}",
                origin=f"origin-{n % origins}",
            )
            for n in range(sources)
        }
        self.plan = Plan(
            move=1,
            channel="channel",
            initiator=DIRECTORY,
            origins=tuple(f"origin-{n}" for n in range(origins)),
            destinations=tuple(f"destination-{n}" for n in range(destinations)),
            swaps=tuple(self.swaps.values()),
            outputs=tuple(Output(f"origin-{n}", 200 + n) for n in range(origins)),
            suppliers=tuple((swap.source, swap.destination) for swap in self.swaps.values()),
            saves=saves,
        )
        self.initiator = Initiator(self.plan, patience=5.0)
        self.sources = {name: Source() for name in self.swaps}
        self.places = {name: Place(Origin(self.plan, name), True) for name in self.plan.origins}
        for name in self.plan.destinations:
            self.places[name] = Place(Destination(self.plan, name), False)
        self.streams: dict[Stream, deque[Callable[[], None]]] = {}
        self.delivered: dict[str, list[tuple[int, int]]] = {name: [] for name in self.swaps}
        self.outcomes: list[protocol.Finish] = []
        self.refuses: str | None = None  # a destination that cannot load the filter
        self._lost: set[str] = set()
        self._swapped: set[str] = set()
        self._deadline = False
        self._outputs_open = {*self.plan.origins}
        self._held: list[tuple[str, int, int]] = []
        for name in self.swaps:
            for number in range(events):
                self._post((name, name, "publish"), partial(self._publish, name, number))
        self._perform(DIRECTORY, self.initiator.handle(initiator.Begun(), 0.0))

    def ready(self) -> list[Stream]:
        """The streams that can go on, in a fixed order."""
        return [key for key, stream in self.streams.items() if stream]

    def go_on(self, stream: Stream) -> None:
        self.streams[stream].popleft()()

    # --- faults -------------------------------------------------------------------------------

    def pass_deadline(self) -> None:
        if self._deadline:
            late = initiator.DeadlinePassed()
            self._perform(DIRECTORY, self.initiator.handle(late, 5.0))

    def lose(self, party: str) -> None:
        """What it has not sent, and what was on its way to it, will not arrive."""
        self._lost.add(party)
        self.streams = {key: each for key, each in self.streams.items() if party not in key[:2]}
        if party in self.plan.origins:
            self._output_ended(party)
        for name in self.plan.destinations:
            if name not in self._lost:
                self._give(name, protocol.PartyLost(party))
        if (swap := self.swaps.get(party)) is not None and swap.origin not in self._lost:
            at = self.places[str(swap.origin)].machine
            if isinstance(at, Origin) and swap.old[0] in at.awaited:
                self._post(
                    (at.here, at.here, "lost"),
                    partial(self._ack_for_the_lost, at, swap.old[0]),
                )
        lost = protocol.PartyLost(party)
        self._perform(DIRECTORY, self.initiator.handle(lost, 0.0))

    def _ack_for_the_lost(self, at: Origin, flow: int) -> None:
        if at.state in WAITING and flow in at.awaited:
            self._give(at.here, origin.EndMarkerReceived(flow))

    # --- what happens -------------------------------------------------------------------------

    def _post(self, stream: Stream, action: Callable[[], None]) -> None:
        if self._lost.isdisjoint(stream[:2]):
            self.streams.setdefault(stream, deque()).append(action)

    def _publish(self, source: str, number: int) -> None:
        swap = self.swaps[source]
        moved = source in self._swapped
        place = swap.destination if moved else str(swap.origin)
        flow = swap.new if moved else swap.old[0]
        self._post((source, place, flow), partial(self._arrived, place, source, number))

    def _arrived(self, name: str, source: str, number: int) -> None:
        self.places[name].inbox.append((source, number))
        self._post((name, name, "filter"), partial(self._filter, name))

    def _filter(self, name: str) -> None:
        place = self.places[name]
        if not place.running or not place.inbox:
            return  # what is here waits for the hand-over, or was handed over
        source, number = place.inbox.popleft()
        place.counts[source] = place.counts.get(source, 0) + 1
        event = (source, number, place.counts[source])
        self._post((name, CONSUMER, "output"), partial(self._forwarded, name, event))

    def _forwarded(self, name: str, event: tuple[str, int, int]) -> None:
        if name in self.plan.destinations and self._outputs_open:
            self._held.append(event)  # it follows the outputs of the origins
        else:
            self.delivered[event[0]].append(event[1:])

    def _output_ended(self, name: str) -> None:
        self._outputs_open.discard(name)
        if not self._outputs_open:
            for source, *event in self._held:
                self.delivered[source].append((event[0], event[1]))
            self._held.clear()

    def _saved(self, name: str) -> None:
        if self.places[name].machine.state is origin.OriginState.SAVING:  # not cancelled meanwhile
            self._give(name, origin.FilterSaved())

    def _captured(self, name: str) -> None:
        place = self.places[name]
        place.running = False
        state = {source: str(count).encode() for source, count in place.counts.items()}
        buffer = tuple((source, (source, number)) for source, number in place.inbox)
        self._give(name, origin.StateCaptured(state, buffer))

    # --- the machines -------------------------------------------------------------------------

    def _give(self, name: str, input: object) -> None:
        self._perform(name, self.places[name].machine.handle(input, 0.0))

    def _receive(self, to: str, message: Any) -> None:
        match message:
            case protocol.Prepare() if to in self.plan.destinations:
                failed = destination.LoadFailed("it cannot be loaded")
                loaded = failed if self.refuses == to else destination.Loaded()
                self._post((to, to, "load"), partial(self._give, to, loaded))
            case protocol.RequestSwap():
                self._perform(to, self.sources[to].handle(message, 0.0))
            case protocol.Prepared() | protocol.Refused() | protocol.Started():
                self._answer(message)
            case protocol.End():
                pass  # which a node takes, to forget its machine
            case _:
                self._give(to, message)

    def _answer(self, input: object) -> None:
        self._perform(DIRECTORY, self.initiator.handle(input, 0.0))

    def _perform(self, at: str, effects: list[protocol.Effect]) -> None:
        for effect in effects:
            match effect:
                case protocol.Send(to, message):
                    self._post((at, to, "control"), partial(self._receive, to, message))
                case protocol.EndFlow(flow) if at in self.sources:
                    to = str(self.swaps[at].origin)
                    self._post(
                        (at, to, flow), partial(self._give, to, origin.EndMarkerReceived(flow))
                    )
                case protocol.EndFlow():
                    self._post((at, CONSUMER, "output"), partial(self._output_ended, at))
                case protocol.OpenFlow(flow):
                    self._swapped.add(at)
                    to, mark = self.swaps[at].destination, destination.BeginMarkerReceived(flow)
                    self._post((at, to, flow), partial(self._give, to, mark))
                case protocol.SaveFilter():
                    self._post((at, at, "save"), partial(self._saved, at))
                case protocol.CaptureState():
                    self._post((at, at, "capture"), partial(self._captured, at))
                case protocol.RestoreState(state):
                    counts = {source: int(count) for source, count in state.items()}
                    self.places[at].counts.update(counts)
                case protocol.MergeBuffer(hand_over):
                    self.places[at].inbox.extendleft(reversed(hand_over.buffer))
                case protocol.StartFilter():
                    self.places[at].running = True
                    for _ in self.places[at].inbox:
                        self._post((at, at, "filter"), partial(self._filter, at))
                case protocol.RemoveFilter():
                    self.places[at].running = False
                case protocol.SetDeadline() | protocol.CancelDeadline():
                    self._deadline = isinstance(effect, protocol.SetDeadline)
                case protocol.Finish():
                    self.outcomes.append(effect)
