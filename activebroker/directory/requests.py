"""The queue of requests: changes of the fabric, one at a time, in the order of their requests.

A change is a generator. It yields calls to nodes, or an `Attempt` at some, and is resumed with
their answers; or it yields a move, and is resumed with its outcome. So it reads in the order
in which things happen.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

from activebroker.core.errors import ActiveBrokerError, DeadlineExceeded, Unreachable
from activebroker.directory.context import PATIENCE, Context, Done
from activebroker.directory.planning import Input, PlannedMove
from activebroker.protocol.messages import CallBody
from derivation.initiator import Begun, DeadlinePassed, GivenUp
from derivation.protocol import Finish, Outcome, PartyLost, Prepared, Refused, Started

log = logging.getLogger(__name__)

Calls = list[tuple[str, CallBody]]


@dataclass(frozen=True, slots=True)
class Attempt:
    """Calls to nodes that may be gone. The answer is None for a node that is gone, or does not
    answer within `patience` seconds."""

    calls: Calls
    patience: float = PATIENCE


Change = Generator[Calls | Attempt | PlannedMove, Any, Any]
Obstacle = Callable[[], str | None]


@dataclass(slots=True, eq=False)
class Waiting:
    """A change in the queue. `held_since`: since when its obstacle has held it up."""

    change: Change
    done: Done
    obstacle: Obstacle
    patience: float
    held_since: float | None = None


@dataclass(frozen=True, slots=True)
class ChangeEnded:
    """The picture of the fabric may be another."""


@dataclass(frozen=True, slots=True)
class MoveEnded:
    """A move or an offload has ended."""

    planned: PlannedMove
    finish: Finish
    late: bool  # it was overdue, and its change has ended before


Fact = ChangeEnded | MoveEnded


class RequestQueue:
    """The changes that wait, the one that is carried out, and the moves under way."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.facts: deque[Fact] = deque()  # for the directory, which takes them and calls `go_on`
        self._happened: deque[Change] = deque()
        self._queue: deque[Waiting] = deque()
        self._busy = False
        self.planned: dict[int, PlannedMove] = {}  # by their numbers, with those that are overdue
        self._awaited: tuple[PlannedMove, Done] | None = None  # by the current change

    def submit(
        self,
        change: Change,
        done: Done,
        obstacle: Obstacle = lambda: None,
        patience: float = PATIENCE,
    ) -> None:
        """Queue a change; `done` gets its result or its error.

        `obstacle` returns what the change has to wait for, if anything; others may overtake it
        meanwhile. It is refused once its obstacle has held it up for `patience` seconds.
        """
        self._queue.append(Waiting(change, done, obstacle, patience))
        self.go_on()

    def submit_first(self, change: Change) -> None:
        """Queue a change for what has happened already, before all requests."""
        self._happened.appendleft(change)
        self.go_on()

    def catch_up(self) -> Change:
        """Within a change, carry out the changes for what has happened since it began. Returns
        whether there were any."""
        more = bool(self._happened)
        while self._happened:
            yield from self._happened.popleft()
        return more

    def lost(self, node: str) -> None:
        """A member fell silent: tell the moves that it takes part in."""
        for planned in list(self.planned.values()):
            if node in planned.plan.involved:
                self._handle(planned, PartyLost(node))

    def move_on(self, move: int, input: Prepared | Refused | Started | DeadlinePassed) -> None:
        """Give a move a message, or its timer."""
        if (planned := self.planned.get(move)) is not None:
            self._handle(planned, input)

    def give_up(self, planned: PlannedMove, reason: str) -> None:
        """Let a move fail: the filter that it moves has to be recovered."""
        self._handle(planned, GivenUp(reason))

    def move_of(self, name: str) -> PlannedMove | None:
        """The move of a channel or a relay that is under way, if there is one."""
        mine = (each for each in self.planned.values() if each.channel.name == name)
        return next(mine, None)

    def under_way(self) -> list[PlannedMove]:
        """The moves that have not ended."""
        return list(self.planned.values())

    def overdue(self) -> list[PlannedMove]:
        """The moves under way whose change has ended."""
        awaited = None if self._awaited is None else self._awaited[0]
        return [each for each in self.planned.values() if each is not awaited]

    def go_on(self) -> None:
        """Carry out the next change without an obstacle, unless the directory has facts to handle
        first."""
        if self._busy or self.facts:
            return
        if self._happened:
            self._begin(self._happened.popleft(), lambda result, error: None)
            return
        for index, waiting in enumerate(self._queue):
            if waiting.obstacle() is None:
                del self._queue[index]
                self._begin(waiting.change, waiting.done)
                return
            if waiting.held_since is None:
                waiting.held_since = self._context.now

    def _begin(self, change: Change, done: Done) -> None:
        self._busy = True
        self._resume(change, done, None, None)

    def expire(self) -> None:
        """Refuse the changes that their obstacles have held up for too long."""
        for waiting in list(self._queue):
            if waiting not in self._queue:
                continue  # the refusal of another change has let it run
            since, obstacle = waiting.held_since, waiting.obstacle()
            if obstacle is None:
                waiting.held_since = None
            elif since is not None and since + waiting.patience < self._context.now:
                self._queue.remove(waiting)
                waiting.change.close()
                waiting.done(None, DeadlineExceeded(f"{obstacle}, for more than {PATIENCE:g} s."))

    def _resume(
        self, change: Change, done: Done, value: Any, error: ActiveBrokerError | None
    ) -> None:
        try:
            step = change.throw(error) if error is not None else change.send(value)
        except StopIteration as stop:
            self._end(done, stop.value, None)
        except ActiveBrokerError as failure:
            self._end(done, None, failure)
        except Exception as failure:
            # A fault of ours: the request gets an error, and others are still served.
            log.exception("a change of the fabric failed")
            self._end(done, None, ActiveBrokerError(f"The directory failed: {failure!r}"))
        else:
            then = partial(self._resume, change, done)
            match step:
                case PlannedMove():
                    self.planned[step.plan.move] = step
                    self._awaited = step, then
                    self._handle(step, Begun())
                case Attempt(calls, patience):
                    self._ask(calls, patience, (Unreachable, DeadlineExceeded), then)
                case calls:
                    self._ask(calls, PATIENCE, (), then)

    def _end(self, done: Done, result: Any, error: ActiveBrokerError | None) -> None:
        self._busy = False
        self.facts.append(ChangeEnded())
        done(result, error)
        self.go_on()

    def _ask(
        self, calls: Calls, patience: float, minor: tuple[type[Exception], ...], then: Done
    ) -> None:
        """Make calls; `then` gets their answers, and the first error that is not `minor`."""
        answers: list[Any] = [None] * len(calls)
        missing = len(calls)
        failure: ActiveBrokerError | None = None
        if not calls:
            then(answers, None)
            return

        def answered(index: int) -> Done:
            def keep(result: Any, error: ActiveBrokerError | None) -> None:
                nonlocal missing, failure
                answers[index] = result
                if not isinstance(error, minor):
                    failure = failure or error
                missing -= 1
                if not missing:
                    then(answers, failure)

            return keep

        for index, (node, body) in enumerate(calls):
            self._context.call(node, body, patience, answered(index))

    def _handle(self, planned: PlannedMove, input: Input) -> None:
        finish = planned.handle(input, self._context)
        if finish is None:
            return
        over = finish.outcome is not Outcome.OVERDUE
        late = self._awaited is None or self._awaited[0] is not planned
        if over:
            del self.planned[planned.plan.move]
            self.facts.append(MoveEnded(planned, finish, late))
        if self._awaited is not None and not late:
            (_, then), self._awaited = self._awaited, None
            then(finish, None)
        self.go_on()
