"""Filters that move by themselves, as a policy decides, until a block ends."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

from activebroker.balancing.loads import broker_loads
from activebroker.balancing.placed import Placed
from activebroker.core.errors import ActiveBrokerError, Closed, Unreachable
from activebroker.fabric.bound import Bound
from activebroker.fabric.closing import Closing, time_left
from activebroker.fabric.membership import Membership
from activebroker.protocol.status import Status
from derivation.balance import Decision, Policy

log = logging.getLogger(__name__)
PATIENCE = 10.0  # seconds for a status
REST = 300.0  # seconds that a filter stays where it is after a move of it has failed


@dataclass(frozen=True, slots=True)
class Moved:
    """A move that balancing has asked for."""

    at: float  # when, in seconds since the Unix epoch
    channel: str
    to: str
    reason: str
    error: str | None = None  # why it failed, if it did


class Balancing(Closing, Bound):
    """A thread that looks at a fabric every `period` seconds and carries out what a policy decides.

    It ends with `close`, or with the fabric. A move that fails is counted and logged; the other
    moves of the same decision are not made, and its filter stays for `REST` seconds.
    """

    def __init__(
        self, membership: Membership, policy: Policy, period: float, timeout: float
    ) -> None:
        if not 0 < period <= threading.TIMEOUT_MAX:
            raise ValueError(f"the period must be more than 0 seconds, not {period}")
        if not callable(getattr(policy, "decide", None)):
            raise TypeError(
                f"a policy has a method decide(now, brokers), as Balance; got {policy!r}"
            )
        self._membership = membership
        self._policy = policy
        self._period = period
        self._timeout = timeout
        self._moves: list[Moved] = []
        self._stays: dict[str, float] = {}  # by channel whose move has failed: until when
        self._latest: tuple[float, Status] | None = None
        self._reason = ""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="balancing", daemon=True)
        self._thread.start()

    @property
    def moves(self) -> tuple[Moved, ...]:
        """The moves that were made or tried, in order."""
        return tuple(self._moves)

    @property
    def failed(self) -> int:
        """How many of the moves have failed."""
        return sum(move.error is not None for move in self.moves)

    @property
    def active(self) -> bool:
        """Whether the thread is still running."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End balancing. Waits for a move that is under way, for as long as a move may take."""
        self._closing.set()
        self._thread.join(time_left(2 * self._timeout + PATIENCE))
        if self._thread.is_alive():
            log.warning("a move is still under way: balancing ends when it has")

    @property
    def _address(self) -> str | None:
        return self._membership.address

    def _loop(self) -> None:
        while not self._closing.wait(self._period):
            try:
                self._look()
            except (Closed, Unreachable) as error:
                log.info("balancing has ended with its fabric: %s", error)
                return
            except ActiveBrokerError as error:
                log.warning("balancing looks again later: %s", error)
                self._latest = None
            except Exception:
                log.exception("the policy could not decide; balancing goes on")

    def _look(self) -> None:
        status, now = self._membership.status(PATIENCE), time.monotonic()
        latest, self._latest = self._latest, (now, status)
        if latest is None:
            return
        self._stays = {channel: until for channel, until in self._stays.items() if now < until}
        loads = broker_loads(status, latest[1], now - latest[0], self._stays)
        decision = self._policy.decide(now, loads)
        if decision.moves:
            self._carry_out(decision, Placed(status))
            self._latest = None  # what filters do during a move says nothing about their load
        elif decision.reason and decision.reason != self._reason:
            log.warning("%s", decision.reason)
        self._reason = decision.reason

    def _carry_out(self, decision: Decision, placed: Placed) -> None:
        """Make the moves one after the other; stop at the first that fails."""
        for move in placed.with_those_beside(decision.moves):
            if self._closing.is_set():
                return
            at, error = time.time(), None
            try:
                self._membership.move(move.channel, move.to, self._timeout)
                log.info("moved %r to %r: %s", move.channel, move.to, decision.reason)
            except Closed:
                raise
            except ActiveBrokerError as failure:
                error = str(failure)
                log.warning("%r did not move to %r: %s", move.channel, move.to, error)
                self._stays[move.channel] = time.monotonic() + REST
            self._moves.append(Moved(at, move.channel, move.to, decision.reason, error))
            if error is not None:
                return
