"""What the directory tells of moves and offloads: those under way, and the last that have ended.

Each party has its own part of a story, by its own clock. Its times are converted to the directory's
clock, to within half the time that question and answer take.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import asdict

from activebroker.core.errors import ActiveBrokerError, UnknownChannel, suggestion
from activebroker.directory.context import Context, Done
from activebroker.directory.planning import PlannedMove
from activebroker.directory.requests import RequestQueue
from activebroker.protocol.orders import ReportStory
from activebroker.protocol.status import EndedMove, MoveStatus
from derivation.protocol import Finish, Outcome, Party, Plan
from derivation.story import Step

log = logging.getLogger(__name__)
KEPT = 100  # moves and offloads that have ended
SHOWN = 10  # of these, in a status
PATIENCE = 2.0  # seconds for a party to tell its part


@dataclass(frozen=True, slots=True)
class Told:
    """The initiator's part in a move, and how the move goes or went."""

    plan: Plan
    steps: tuple[Step, ...]
    how: MoveStatus | EndedMove


class Stories:
    def __init__(self, context: Context, queue: RequestQueue) -> None:
        self._context = context
        self._queue = queue
        self._ended: deque[Told] = deque(maxlen=KEPT)
        self._outcomes: deque[EndedMove] = deque(maxlen=SHOWN)

    def ended(self, planned: PlannedMove, finish: Finish) -> None:
        """Remember how a move went."""
        outcome, reason = finish.outcome.value, finish.reason
        if finish.outcome is not Outcome.COMPLETED:
            plan = planned.plan
            to = ", ".join(plan.destinations)
            log.warning("channel %r: going to %s %s: %s", plan.channel, to, outcome, reason)
        ended = EndedMove(*self._common(planned), outcome, reason)
        self._outcomes.append(ended)
        self._ended.append(Told(planned.plan, planned.machine.story(), ended))

    def under_way(self) -> list[MoveStatus]:
        return [self._going(each) for each in self._queue.under_way()]

    def last_ended(self) -> list[EndedMove]:
        return list(self._outcomes)

    def tell(self, channel: str, done: Done) -> None:
        """Gather the story of a channel's last move from all its parties."""
        going = [
            Told(each.plan, each.machine.story(), self._going(each))
            for each in self._queue.under_way()
        ]
        told = [each for each in (*self._ended, *going) if each.plan.channel == channel]
        if not told:
            known = (each.plan.channel for each in self._ended)
            error = UnknownChannel(
                f"No move of a channel {channel!r} is known. The stories of the last {KEPT} moves "
                "and offloads are kept." + suggestion(channel, known)
            )
            done(None, error)
            return
        plan, own, how = told[-1].plan, told[-1].steps, told[-1].how
        began = own[0].at
        lines = list(_lines(self._context.me, "initiator", map(Step._asdict, own), -began))
        silent: dict[Party, str] = {}
        missing = len(plan.involved)

        def answered(party: Party, asked: float) -> Done:
            def keep(result: Any, error: ActiveBrokerError | None) -> None:
                nonlocal missing
                if error is not None:
                    silent[party] = str(error)
                else:
                    ahead = (asked + self._context.now) / 2 - result["now"]
                    for part in result["parts"]:
                        lines.extend(_lines(party, part["role"], part["steps"], ahead - began))
                missing -= 1
                if not missing:
                    lines.sort(key=lambda line: line["at"])  # stable: each party's own order
                    done({**asdict(how), "lines": lines, "silent": silent}, None)

            return keep

        for party in plan.involved:
            body = ReportStory(plan.move)
            self._context.call(party, body, PATIENCE, answered(party, self._context.now))

    def _going(self, planned: PlannedMove) -> MoveStatus:
        machine = planned.machine
        phase = machine.state.name.lower()
        return MoveStatus(*self._common(planned), phase, list(machine.waiting_for))

    def _common(self, planned: PlannedMove) -> tuple[int, str, list[str], list[str], float]:
        plan = planned.plan
        return (
            plan.move,
            plan.channel,
            list(plan.origins or [swap.source for swap in plan.swaps]),
            list(plan.destinations),
            self._context.now - planned.machine.story()[0].at,
        )


def _lines(
    party: Party, role: str, steps: Iterable[dict[str, Any]], ahead: float
) -> Iterator[dict[str, Any]]:
    for step in steps:
        yield {**step, "at": step["at"] + ahead, "party": party, "role": role}
