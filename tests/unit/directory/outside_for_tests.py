"""The directory, or a part of it, without a node: what it says to nodes is in lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from activebroker.core.errors import ActiveBrokerError
from activebroker.directory.context import Context, Done, Outside
from activebroker.directory.requests import Change
from activebroker.protocol.messages import Body, CallBody
from activebroker.protocol.specs import Member


@dataclass
class Asked:
    """A call that waits for its answer."""

    node: str
    body: CallBody
    done: Done


class Fabric:
    """`hub` keeps the directory, `b1` and `b2` are brokers, `a` and `c` are processes."""

    def __init__(self) -> None:
        self.calls: list[Asked] = []
        self.told: list[tuple[str, Body]] = []
        self.expelled: list[str] = []
        self.timers: dict[str, float] = {}
        self.incarnations = dict.fromkeys(("hub", "b1", "b2", "a", "c"), 1)
        self.time = 0.0
        self.outside = Outside(
            call=lambda node, body, patience, done: self.calls.append(Asked(node, body, done)),
            tell=lambda node, body: self.told.append((node, body)),
            expel=self.expelled.append,
            incarnation=lambda node: self.incarnations.get(node, 0),
            set_timer=self._set_timer,
            now=lambda: self.time,
        )
        self.context = Context(self.member("hub"), self.outside)
        for name in ("b1", "b2", "a", "c"):
            self.context.members[name] = self.member(name)

    def member(self, name: str, incarnation: int = 1) -> Member:
        return Member(name, f"tcp://{name}", name in ("hub", "b1", "b2"), incarnation)

    def _set_timer(self, key: str, after: float | None) -> None:
        if after is None:
            self.timers.pop(key, None)
        else:
            self.timers[key] = self.time + after

    def take(self) -> list[tuple[str, CallBody]]:
        """What is asked of whom and not answered yet."""
        return [(each.node, each.body) for each in self.calls]

    def answer(self, result: Any = None, error: ActiveBrokerError | None = None) -> Asked:
        """Answer the oldest call."""
        asked = self.calls.pop(0)
        asked.done(result, error)
        return asked


def steps(change: Change, *answers: Any) -> tuple[list[Any], Any]:
    """What a change asks for, step by step, if it is answered so; and what it returns.

    Raises what the change raises. An answer that is an error is raised in the change.
    """
    asked: list[Any] = []
    reply = iter((None, *answers))
    try:
        while True:
            match next(reply):
                case ActiveBrokerError() as error:
                    asked.append(change.throw(error))
                case answer:
                    asked.append(change.send(answer))
    except StopIteration as end:
        return asked, end.value
