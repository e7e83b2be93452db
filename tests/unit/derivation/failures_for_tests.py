"""A derivation in which parties are lost and deadlines pass, any number and at any time.

Who is left learns of a loss by and by: each node by itself, in any order, and once more from the
directory when that has learnt of it. What follows a stream that was lost before its end would
follow a gap, and is not taken.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from parties_for_tests import CONSUMER, DIRECTORY, WAITING, Derivation

from derivation import initiator, origin, protocol


class FailingDerivation(Derivation):
    def __init__(
        self, sources: int, origins: int, destinations: int, saves: bool, events: int
    ) -> None:
        self.gone: dict[str, list[str]] = {}  # by place: of whose loss it has learnt
        self.broken = False  # whether an output of an origin was lost before its end
        self._prepared: list[str] = []
        super().__init__(sources, origins, destinations, saves, events)

    @property
    def lost(self) -> tuple[str, ...]:
        return tuple(name for name in (*self.sources, *self.places) if name in self._lost)

    @property
    def left(self) -> tuple[str, ...]:
        """The sources, origins and destinations that are not lost."""
        return tuple(name for name in (*self.sources, *self.places) if name not in self._lost)

    @property
    def deadline(self) -> bool:
        """Whether one is set."""
        return self._deadline

    def pass_deadline(self) -> None:
        self._deadline = False
        self._answer(initiator.DeadlinePassed())

    def lose(self, party: str) -> None:
        """What it has not sent, and what was on its way to it and from it, will not arrive."""
        self._lost.add(party)
        self.streams = {key: each for key, each in self.streams.items() if party not in key[:2]}
        for at in (DIRECTORY, CONSUMER, *self.places):
            self._post((at, at, f"loss of {party}"), partial(self._learn, at, party))

    def _learn(self, at: str, party: str) -> None:
        if at == DIRECTORY:
            for other in (CONSUMER, *self.places):
                self._post((DIRECTORY, other, "control"), partial(self._learn, other, party))
            self._answer(protocol.PartyLost(party))
        elif at == CONSUMER:
            if party in self._outputs_open:
                self.broken = True
                self._held.clear()
        elif at in self.plan.origins:
            self.gone.setdefault(at, []).append(party)
            self._ack_for_the_gone(at)
        elif at in self._prepared:
            self._give(at, protocol.PartyLost(party))

    def _ack_for_the_gone(self, at: str) -> None:
        machine = self.places[at].machine
        assert isinstance(machine, origin.Origin)
        for swap in self.swaps.values():
            waits = machine.state in WAITING
            if waits and swap.source in self.gone.get(at, ()) and swap.old[0] in machine.awaited:
                self._give(at, origin.EndMarkerReceived(swap.old[0], lost=True))

    def _receive(self, to: str, message: Any) -> None:
        super()._receive(to, message)
        if isinstance(message, protocol.Prepare):
            self._prepared.append(to)
            if to in self.plan.origins:
                self._ack_for_the_gone(to)

    def _forwarded(self, name: str, event: tuple[str, int, int]) -> None:
        if not (self.broken and name in self.plan.destinations):
            super()._forwarded(name, event)

    def _perform(self, at: str, effects: list[protocol.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, protocol.MergeBuffer):
                gaps = [s.source for s in self.swaps.values() if s.old[0] in effect.hand_over.lost]
                inbox = self.places[at].inbox
                whole = [(source, number) for source, number in inbox if source not in gaps]
                inbox.clear()
                inbox.extend(whole)
            super()._perform(at, [effect])
