"""Parts of the directory without a node: what they say to nodes is in lists."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from activebroker.core.errors import ActiveBrokerError, Unreachable
from activebroker.directory.channels import Channels
from activebroker.directory.checkpoints import Checkpoints
from activebroker.directory.context import Context, Done, Outside
from activebroker.directory.deaths import Budget
from activebroker.directory.endings import Endings
from activebroker.directory.leases import Leases
from activebroker.directory.membership import Membership
from activebroker.directory.moves import Moves
from activebroker.directory.placing import Placing
from activebroker.directory.recoveries import Recoveries
from activebroker.directory.requests import Change, RequestQueue
from activebroker.directory.stories import Stories
from activebroker.directory.wiring import Wiring
from activebroker.protocol.messages import Body, CallBody
from activebroker.protocol.specs import Member


@dataclass
class Asked:
    """A call that waits for its answer."""

    node: str
    body: CallBody
    patience: float
    done: Done


@dataclass
class Ending:
    """What has become of a request: `done` once there is an answer, or an error."""

    done: bool = False
    result: Any = None
    error: ActiveBrokerError | None = None

    def set(self, result: Any, error: ActiveBrokerError | None) -> None:
        assert not self.done, "one answer"
        self.done, self.result, self.error = True, result, error


class Fabric:
    """`hub` keeps the directory, `b1` and `b2` are brokers, `a` and `c` are processes.

    `asked` are all calls so far, those in `calls` have no answer yet. `answer_all` gives each what
    `replies` has for a node and a kind of call: an error, or what a function does and returns; and
    no offsets where it has nothing.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, CallBody]] = []
        self.calls: list[Asked] = []
        self.replies: dict[tuple[str, type[CallBody]], Any] = {}
        self.told: list[tuple[str, Body]] = []
        self.expelled: list[str] = []
        self.timers: dict[str, float] = {}
        self.incarnations = dict.fromkeys(("hub", "b1", "b2", "a", "c"), 1)
        self.time = 0.0
        self.budget = Budget()
        self.outside = Outside(
            call=self._call,
            tell=lambda node, body: self.told.append((node, body)),
            expel=self.expel,
            incarnation=lambda node: self.incarnations.get(node, 0),
            set_timer=self._set_timer,
            now=lambda: self.time,
        )
        self.context = Context(self.member("hub"), self.outside)
        self.graph, self.members = self.context.graph, self.context.members
        for name in ("b1", "b2", "a", "c"):
            self.members[name] = self.member(name)

    def member(self, name: str, incarnation: int = 1) -> Member:
        return Member(name, f"tcp://{name}", name in ("hub", "b1", "b2"), incarnation)

    def dials_out_only(self, *nodes: str) -> None:
        for name in nodes:
            self.members[name] = replace(self.members[name], address=None)

    def gone(self, *nodes: str) -> Unreachable:
        """These are no members any more; returns what a call to one of them gets."""
        for name in nodes:
            del self.members[name]
        return Unreachable(f"{' and '.join(nodes)} went away")

    def expel(self, node: str) -> None:
        self.expelled.append(node)

    def _call(self, node: str, body: CallBody, patience: float, done: Done) -> None:
        self.asked.append((node, body))
        self.calls.append(Asked(node, body, patience, done))

    def _set_timer(self, key: str, after: float | None) -> None:
        if after is None:
            self.timers.pop(key, None)
        else:
            self.timers[key] = self.time + after

    def answer(self, result: Any = None, error: ActiveBrokerError | None = None) -> Asked:
        """Answer the oldest call."""
        asked = self.calls.pop(0)
        asked.done(result, error)
        return asked

    def answer_all(self) -> None:
        while self.calls:
            oldest = self.calls[0]
            reply = self.replies.get((oldest.node, type(oldest.body)), {})
            if callable(reply):
                reply = reply()
            error = reply if isinstance(reply, ActiveBrokerError) else None
            self.answer(None if error else reply, error)

    # --- changes, one after the other ---------------------------------------------------------

    def begin(self, change: Change) -> Ending:
        """Go on with a change as far as answers to calls take it."""
        ending = Ending()
        self.queue.submit(change, ending.set)
        self.go_on()
        return ending

    def go_on(self) -> None:
        """Answer what is asked, and do what is left to do, as the directory does."""
        self.answer_all()
        while self.queue.facts:
            self.queue.facts.clear()
            self.queue.go_on()
            self.answer_all()

    def carry_out(self, change: Change) -> Any:
        """Returns what the change returns, raises what it raises."""
        ending = self.begin(change)
        assert ending.done
        if ending.error is not None:
            raise ending.error
        return ending.result

    # --- the parts: each is made with those below it, when a test uses it ---------------------

    @cached_property
    def queue(self) -> RequestQueue:
        return RequestQueue(self.context)

    @cached_property
    def wiring(self) -> Wiring:
        return Wiring(self.context)

    @cached_property
    def leases(self) -> Leases:
        return Leases(self.context)

    @cached_property
    def stories(self) -> Stories:
        return Stories(self.context, self.queue)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.context, self.wiring, self.queue)

    @cached_property
    def recoveries(self) -> Recoveries:
        return Recoveries(self.context, self.wiring, self.checkpoints, self.budget)

    @cached_property
    def endings(self) -> Endings:
        return Endings(self.context, self.wiring, self.queue, self.checkpoints, self.recoveries)

    @cached_property
    def moves(self) -> Moves:
        return Moves(self.context, self.wiring, self.queue, self.checkpoints, self.endings)

    @cached_property
    def placing(self) -> Placing:
        parts = self.wiring, self.queue, self.moves, self.endings, self.recoveries
        return Placing(self.context, *parts)

    @cached_property
    def channels(self) -> Channels:
        return Channels(self.context, self.wiring, self.endings, self.placing, self.leases)

    @cached_property
    def membership(self) -> Membership:
        return Membership(self.context, self.queue, self.endings, self.leases)
