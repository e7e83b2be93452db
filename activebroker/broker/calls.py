"""Calls: a message that wants an answer, within a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import activebroker.core.errors as errors
from activebroker.core.errors import ActiveBrokerError

OnAnswer = Callable[[Any, ActiveBrokerError | None], None]


@dataclass(frozen=True, slots=True)
class PendingCall:
    to: str
    what: str
    patience: float
    on_answer: OnAnswer


class Calls:
    """The calls this node has made and not yet seen answered."""

    def __init__(self) -> None:
        self._next = 1
        self._pending: dict[int, PendingCall] = {}

    def add(self, to: str, what: str, patience: float, on_answer: OnAnswer) -> int:
        call_id = self._next
        self._next += 1
        self._pending[call_id] = PendingCall(to, what, patience, on_answer)
        return call_id

    def answered(self, call_id: int, result: Any, error: tuple[str, str] | None) -> None:
        if (call := self._pending.pop(call_id, None)) is not None:
            call.on_answer(result, None if error is None else revive(error))

    def expired(self, call_id: int) -> None:
        if (call := self._pending.pop(call_id, None)) is not None:
            message = f"{call.to!r} did not answer {call.what} within {call.patience:g} s."
            call.on_answer(None, errors.DeadlineExceeded(message))

    def lost(self, peer: str) -> None:
        """The peer will not answer any more."""
        for call_id, call in list(self._pending.items()):
            if call.to == peer:
                del self._pending[call_id]
                message = f"{peer!r} went away before it answered {call.what}."
                call.on_answer(None, errors.Unreachable(message))


def revive(error: tuple[str, str]) -> ActiveBrokerError:
    """The error that a peer sent as (class name, text)."""
    cls = getattr(errors, error[0], None)
    if isinstance(cls, type) and issubclass(cls, ActiveBrokerError):
        return cls(error[1])
    return ActiveBrokerError(f"{error[0]}: {error[1]}")


def flatten(error: ActiveBrokerError) -> tuple[str, str]:
    return type(error).__name__, str(error)
