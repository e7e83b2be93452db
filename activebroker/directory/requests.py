"""The queue of requests: changes of the fabric, one at a time, in the order of their requests.

A change is a generator: it yields calls to nodes (or an attempt at some) and is resumed with their
answers, or a migration and is resumed with its outcome; so it reads in the order in which it
happens. The calls are few (events never pass here).
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
from activebroker.directory.migration import Input, Migration
from activebroker.protocol.messages import CallBody
from derivation.initiator import Begun, DeadlinePassed, GivenUp
from derivation.protocol import Finish, Outcome, PartyLost, Prepared, Refused, Started

log = logging.getLogger(__name__)

Calls = list[tuple[str, CallBody]]


@dataclass(frozen=True, slots=True)
class Attempt:
    """Calls to nodes that may be gone: None is the answer of one that is, or does not answer
    within `patience` seconds."""

    calls: Calls
    patience: float = PATIENCE


Change = Generator[Calls | Attempt | Migration, Any, Any]
Obstacle = Callable[[], str | None]


@dataclass(slots=True, eq=False)
class Waiting:
    """`held_since`: when it was first passed over because its way was not clear, which it has not
    been since."""

    change: Change
    done: Done
    obstacle: Obstacle
    patience: float
    held_since: float | None = None


@dataclass(frozen=True, slots=True)
class ChangeEnded:
    """The picture of the fabric may be another."""


@dataclass(frozen=True, slots=True)
class MigrationEnded:
    """`late`: its change had gone on before, when it was overdue."""

    migration: Migration
    finish: Finish
    late: bool


Fact = ChangeEnded | MigrationEnded


class RequestQueue:
    """`facts` are what others have to learn of what has come to pass: they take them, and call
    `go_on`. `migrations` are those that have not ended, by derivation."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.facts: deque[Fact] = deque()
        self._happened: deque[Change] = deque()
        self._queue: deque[Waiting] = deque()
        self._busy = False
        self.migrations: dict[int, Migration] = {}  # with those that are overdue
        self._awaited: tuple[Migration, Done] | None = None  # for which the current change waits

    def submit(
        self,
        change: Change,
        done: Done,
        obstacle: Obstacle = lambda: None,
        patience: float = PATIENCE,
    ) -> None:
        """Queue a change; `done` gets its result or its error.

        `obstacle` tells what it has to wait for, if anything; others do not wait with it. After
        `patience` seconds of that, while nothing else keeps it waiting, it is refused.
        """
        self._queue.append(Waiting(change, done, obstacle, patience))
        self.go_on()

    def submit_first(self, change: Change) -> None:
        """Queue what has happened already, before all that is only asked for."""
        self._happened.appendleft(change)
        self.go_on()

    def catch_up(self) -> Change:
        """Within a change: carry out what has happened since it began. Returns whether there was
        anything."""
        behind = bool(self._happened)
        while self._happened:
            yield from self._happened.popleft()
        return behind

    def lost(self, node: str) -> None:
        """A member fell silent: tell the migrations in which it has a part."""
        for migration in list(self.migrations.values()):
            if node in migration.plan.involved:
                self._handle(migration, PartyLost(node))

    def move_on(
        self, derivation: int, input: Prepared | Refused | Started | DeadlinePassed
    ) -> None:
        """A message for a migration, or the time for which it has waited."""
        if (migration := self.migrations.get(derivation)) is not None:
            self._handle(migration, input)

    def give_up(self, migration: Migration, reason: str) -> None:
        """What a migration moves cannot wait for it any more: it fails."""
        self._handle(migration, GivenUp(reason))

    def migration_of(self, name: str) -> Migration | None:
        """The derivation of a channel, or of a relay, that is under way, if one is."""
        mine = (each for each in self.migrations.values() if each.channel.name == name)
        return next(mine, None)

    def under_way(self) -> list[Migration]:
        """The migrations that have not ended."""
        return list(self.migrations.values())

    def overdue(self) -> list[Migration]:
        """The migrations that go on behind the change that began them."""
        awaited = None if self._awaited is None else self._awaited[0]
        return [each for each in self.migrations.values() if each is not awaited]

    def go_on(self) -> None:
        """Carry out the next change whose way is clear, unless the facts are still to be learned:
        what is done about them comes first."""
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
        """Refuse what has waited too long for its way to be clear."""
        for waiting in list(self._queue):
            if waiting not in self._queue:
                continue  # whoever was told has set it free
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
            # A fault of ours: the one who asked is told, and the others are served.
            log.exception("a change of the fabric failed")
            self._end(done, None, ActiveBrokerError(f"The directory failed: {failure!r}"))
        else:
            then = partial(self._resume, change, done)
            match step:
                case Migration():
                    self.migrations[step.plan.derivation] = step
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

    def _handle(self, migration: Migration, input: Input) -> None:
        finish = migration.handle(input, self._context)
        if finish is None:
            return
        over = finish.outcome is not Outcome.OVERDUE
        late = self._awaited is None or self._awaited[0] is not migration
        if over:
            del self.migrations[migration.plan.derivation]
            self.facts.append(MigrationEnded(migration, finish, late))
        if self._awaited is not None and not late:
            (_, then), self._awaited = self._awaited, None
            then(finish, None)
        self.go_on()
