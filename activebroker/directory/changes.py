"""Carries out changes of the fabric, one at a time, in the order in which they were asked for.

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
from activebroker.directory.migration import Migration
from activebroker.protocol.messages import Body, CallBody
from derivation.protocol import Finish, Outcome

log = logging.getLogger(__name__)

Calls = list[tuple[str, CallBody]]
PATIENCE = 10.0  # seconds that a node may take to carry out a call


@dataclass(frozen=True, slots=True)
class Attempt:
    """Calls to nodes that may be gone: None is the answer of one that is, or does not answer
    within `patience` seconds."""

    calls: Calls
    patience: float = PATIENCE


Change = Generator[Calls | Attempt | Migration, Any, Any]
Done = Callable[[Any, ActiveBrokerError | None], None]
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


class Changes:
    """`call(node, body, patience, done)` asks a node for something, `tell(node, body)` tells it.

    `ended(migration, finish)` is called when a migration ends, `ended_late` with the same
    besides when its change was told before that it is overdue. `changed()` is called after each
    change.
    """

    def __init__(
        self,
        call: Callable[[str, CallBody, float, Done], None],
        tell: Callable[[str, Body], None],
        set_deadline: Callable[[int, float | None], None],
        now: Callable[[], float],
        ended: Callable[[Migration, Finish], None],
        ended_late: Callable[[Migration, Finish], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._call = call
        self._tell = tell
        self._set_deadline = set_deadline
        self._now = now
        self._ended = ended
        self._ended_late = ended_late
        self._changed = changed
        self._happened: deque[Change] = deque()
        self._queue: deque[Waiting] = deque()
        self._busy = False
        self._migration: Migration | None = None  # that the current change waits for
        self._migrations: dict[int, Migration] = {}  # with those that are overdue

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
        for migration in list(self._migrations.values()):
            migration.lost(node)

    def migration(self, derivation: int) -> Migration | None:
        """A third-party derivation that has not ended."""
        return self._migrations.get(derivation)

    def migration_of(self, name: str) -> Migration | None:
        """The derivation of a channel, or of a relay, that is under way, if one is."""
        mine = (each for each in self._migrations.values() if each.channel.name == name)
        return next(mine, None)

    def under_way(self) -> list[Migration]:
        """The migrations that have not ended."""
        return list(self._migrations.values())

    def overdue(self) -> list[Migration]:
        """The migrations that go on behind the change that began them."""
        return [each for each in self._migrations.values() if each is not self._migration]

    def go_on(self) -> None:
        """Carry out the next change whose way is clear."""
        if self._busy:
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
                waiting.held_since = self._now()

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
            elif since is not None and since + waiting.patience < self._now():
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
                    self._migration = self._migrations[step.plan.derivation] = step
                    ended = partial(self._migrated, then)
                    step.begin(self._tell, self._set_deadline, ended, self._now)
                case Attempt(calls, patience):
                    self._ask(calls, patience, (Unreachable, DeadlineExceeded), then)
                case calls:
                    self._ask(calls, PATIENCE, (), then)

    def _end(self, done: Done, result: Any, error: ActiveBrokerError | None) -> None:
        self._busy = False
        self._changed()
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
            self._call(node, body, patience, answered(index))

    def _migrated(self, then: Done, migration: Migration, finish: Finish) -> None:
        over = finish.outcome is not Outcome.OVERDUE
        if over:
            del self._migrations[migration.plan.derivation]
            self._ended(migration, finish)
        if migration is self._migration:
            self._migration = None
            then(finish, None)
        elif over:
            self._ended_late(migration, finish)
        self.go_on()
