"""Calls: messages that are answered, within a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

import activebroker.core.errors as errors
from activebroker.core.errors import ActiveBrokerError
from activebroker.protocol.messages import ANSWERS, CallBody

OnAnswer = Callable[[Any, ActiveBrokerError | None], None]


@dataclass(frozen=True, slots=True)
class PendingCall:
    to: str
    what: str
    answer: Any  # the type of its answer
    patience: float
    on_answer: OnAnswer


class Calls:
    """The calls of this node that have no answer yet."""

    def __init__(self) -> None:
        self._next = 1
        self._pending: dict[int, PendingCall] = {}

    def add(self, to: str, body: CallBody, patience: float, on_answer: OnAnswer) -> int:
        call_id = self._next
        self._next += 1
        what, answer = type(body).__name__, ANSWERS.get(type(body), Any)
        self._pending[call_id] = PendingCall(to, what, answer, patience, on_answer)
        return call_id

    def answered(
        self, source: str, call_id: int, result: Any, error: tuple[str, str] | None
    ) -> None:
        """An answer has come. Raises ProtocolError if another node was asked."""
        call = self._pending.get(call_id)
        if call is None:
            return
        if call.to != source:
            raise errors.ProtocolError(f"{source!r} answered what {call.to!r} was asked.")
        del self._pending[call_id]
        if error is not None:
            call.on_answer(None, errors.revive(error))
            return
        try:
            result = msgspec.convert(result, call.answer)
        except msgspec.ValidationError as wrong:
            text = f"{source!r} gave no answer to {call.what}: {wrong}."
            call.on_answer(None, errors.ProtocolError(text))
        else:
            call.on_answer(result, None)

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
