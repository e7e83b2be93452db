"""Gives a node frames that nobody would send: `python frames_for_tests.py SEED COUNT`.

The node keeps the directory; a good peer publishes to a subscription there and through a relay to
one of its own, a bad one sends messages of all kinds, with any values of their types, most of them
with changed bytes. All that the good one sends has to arrive. Prints how many frames were taken.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import random
import sys
import types
import typing
from collections import Counter
from typing import Any, get_args, get_origin

import msgspec
from batches_for_tests import PREDICATES, QUOTES, Quote
from mutants_for_tests import Memory, mutant

from activebroker.core.errors import ProtocolError
from activebroker.events import (
    EventType,
    TypeDescription,
    TypeRegistry,
    describe,
    dump,
)
from activebroker.events import (
    encode as encode_events,
)
from activebroker.filters import Envelope
from activebroker.node.effects import (
    Deliver,
    DrainSupplier,
    Effect,
    EndSubscription,
    FrameArrived,
    InletOpened,
    Input,
    LoadStage,
    StageLoaded,
    SupplierDrained,
    TimerFired,
    Transmit,
)
from activebroker.node.links.link import Link
from activebroker.node.node import Node
from activebroker.protocol.flows import (
    Acknowledged,
    CreditReturned,
    Events,
    FlowOpened,
    TypeAnnounced,
)
from activebroker.protocol.frame import PROTOCOL_VERSION, Frame, decode, encode
from activebroker.protocol.messages import Body, Call, CallBody, Expelled
from activebroker.protocol.specs import FlowSpec, Member, StageSpec

QUOTE = EventType.of(Quote)
GOOD, BAD, HERE = "a-good-publisher", "bad", "here"
# The good one's numbers are not among those that the bad one draws, or comes to by a change.
PORT, RELAY, FLOW, OUTLET, OUT = (
    3_333_333_331,
    3_333_333_332,
    3_333_333_333,
    3_333_333_334,
    3_333_333_335,
)
NUMBERS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 20, 100, -1, 2**31, 2**62]
TEXTS = [
    "",
    "bad",
    "here",
    "x",
    "inlet 7",
    "0/1",
    "supplier",
    "consumer",
    "nobody",
    "\x00",
    "é" * 300,
]
WANTED = [each.to_json() for each in PREDICATES[Quote]]
BUFFERS = [bytes(dump(encode_events(QUOTE, QUOTES[:rows], "S", 0, 1))[0]) for rows in (3, 40)]
KINDS = [*get_args(Body), *[None] * 12]  # None: a call
CALLS = get_args(CallBody)


@functools.cache
def _hints(of: type) -> dict[str, Any]:
    """The types of its fields; those of a generic one, with what is given for its variables."""
    made = get_origin(of) or of
    given = dict(zip(getattr(made, "__parameters__", ()), get_args(of), strict=True))
    hints = typing.get_type_hints(made, include_extras=True)
    return {
        name: hint[tuple(map(given.get, hint.__parameters__))]
        if getattr(hint, "__parameters__", ())
        else hint
        for name, hint in hints.items()
    }


class Drawn:
    """Any value of a type."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def value(self, of: Any, depth: int = 0) -> Any:
        draw, origin = self._draw, get_origin(of)
        if origin in (typing.Union, types.UnionType):
            return self.value(draw.choice(get_args(of)), depth)
        if origin is typing.Annotated:
            return self.value(get_args(of)[0], depth)
        if origin is typing.Literal:
            return draw.choice(get_args(of))
        few = range(draw.choice([0, 0, 1, 1, 2, 3]) if depth < 6 else 0)
        if origin is tuple:
            items = get_args(of)
            if items[-1] is Ellipsis:
                return tuple(self.value(items[0], depth + 1) for _ in few)
            return tuple(self.value(item, depth + 1) for item in items)
        if origin in (list, dict):
            parts = [[self.value(item, depth + 1) for item in get_args(of)] for _ in few]
            return dict(parts) if origin is dict else [part[0] for part in parts]
        return self._plain(of, depth)

    def _plain(self, of: Any, depth: int) -> Any:
        draw = self._draw
        if of is TypeDescription and draw.random() < 0.8:
            return describe(QUOTE)
        if of is Envelope and draw.random() < 0.5:
            made = self._struct(of, depth)
            return msgspec.structs.replace(made, version=Envelope.__struct_defaults__[0])
        made = get_origin(of) or of
        if isinstance(made, type) and (
            issubclass(made, msgspec.Struct) or dataclasses.is_dataclass(made)
        ):
            return self._struct(of, depth)
        match of:
            case _ if of is int:
                return draw.choice(NUMBERS)
            case _ if of is float:
                return draw.choice([0.0, 0.5, -1.0, 1e300, float("nan")])
            case _ if of is bool:
                return draw.random() < 0.5
            case _ if of is str:
                return draw.choice([*TEXTS, QUOTE.fingerprint])
            case _ if of is bytes:
                return draw.choice([b"", b"x", draw.randbytes(20), *BUFFERS])
            case _ if of is types.NoneType:
                return None
            case typing.Any:
                return draw.choice([None, 1, "x", [], {}, [1, "x"], {"x": [1, 2]}, True])
        raise NotImplementedError(of)

    def _struct(self, of: Any, depth: int) -> Any:
        hints = _hints(of)
        made = get_origin(of) or of
        names = made.__struct_fields__ if issubclass(made, msgspec.Struct) else hints
        values = {name: self.value(hints[name], depth + 1) for name in names}
        if "predicate" in values:
            values["predicate"] = self._draw.choice(WANTED)
        return of(**values)

    def body(self) -> Any:
        kind = self._draw.choice(KINDS)
        if kind is None or kind is Call:
            return Call(self._draw.choice(NUMBERS), self.value(self._draw.choice(CALLS)))
        return self.value(kind)


class Trial:
    """The node, and who talks to it."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now = 0.0
        self.node = Node(Member(HERE, HERE, True, 7), HERE, TypeRegistry())
        self.good = Link(GOOD, 1, HERE, 0.0)
        self.counts: Counter[str] = Counter()
        self.bad = 1  # its incarnation
        self.published = self.delivered = self.relayed = 0
        self.frames: list[bytes] = [b"\x98\x08"]
        self._inputs: list[Input] = []
        node = self.node
        node.peers.members[GOOD] = Member(GOOD, None, False, 1)
        self.handle(InletOpened(PORT))
        stage = node.stages.open(StageSpec(RELAY, "x", "python", None, GOOD))
        node.stages.start(stage)
        node.outlets.open_flow(FlowSpec(OUT, RELAY, HERE, OUT, GOOD, subscriber=f"inlet {OUT}"))
        self.say(TypeAnnounced(describe(QUOTE)))
        self.say(FlowOpened(FLOW, PORT, OUTLET, ()))
        self.say(FlowOpened(FLOW + 9, RELAY, OUTLET, (), supplier="N"))

    def handle(self, input: Input) -> None:
        """Handle an input, and what comes of it, as the runtime does."""
        self._inputs.append(input)
        while self._inputs:
            for effect in self.node.handle(self._inputs.pop(0), self.now):
                self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Deliver(inlet, _, batch, _) if inlet == PORT:
                self.delivered += len(batch)
            case EndSubscription(inlet) if inlet == PORT:
                raise AssertionError(f"the good subscription ended: {effect}")
            case LoadStage(spec):
                self._inputs.append(StageLoaded(spec.id, self.draw.choice([None, "refused"])))
            case DrainSupplier(outlet, finished):
                self._inputs.append(SupplierDrained(outlet, finished))
            case Transmit(peer, _, frames) if peer == GOOD:
                for head, buffers in frames:
                    for body, parts in self.good.receive(decode(head), buffers, self.now):
                        if isinstance(body, Events) and any(inlet == OUT for _, inlet in body.to):
                            self.relayed += len(parts) and body.upto[1] - self.relayed

    def say(self, *said: Any) -> None:
        """The good one sends something, and what its link has to."""
        for body in said:
            self.good.send(*body if isinstance(body, tuple) else (body,))
        self.good.tick(self.now)
        for head, buffers in self.good.take_outgoing(self.now):
            self.handle(FrameArrived(head, [bytes(each) for each in buffers], GOOD))

    def publish(self) -> None:
        """Some good events, to both; and the room for more."""
        count = self.draw.choice([3, 20])
        batch = encode_events(QUOTE, QUOTES[:count], "N", self.published, 1)
        self.published += count
        buffers, upto = dump(batch), (1, self.published)
        for flow, inlet in ((FLOW, PORT), (FLOW + 9, RELAY)):
            self.say((Events(((flow, inlet),), "N", QUOTE.fingerprint, True, upto), buffers))
        self.say(
            CreditReturned(OUT, RELAY, batch.nbytes),
            Acknowledged(RELAY, f"inlet {OUT}", {"N": upto}),
        )
        self.now += 0.2
        self.handle(TimerFired("tick"))
        assert (self.delivered, self.relayed) == (self.published, self.published), (
            self.published,
            self.delivered,
            self.relayed,
        )

    def attack(self) -> None:
        """One frame of the bad one's."""
        draw, link = self.draw, self.node.peers.links.get(BAD)
        if (BAD, self.bad) in self.node.peers._gone:
            self.bad += 1
        seq = 1 if link is None or link.peer_incarnation != self.bad else link._received + 1
        body = Drawn(draw).body()
        missing = Drawn(draw).value(tuple[tuple[int, int], ...])
        if isinstance(body, Expelled) and draw.random() < 0.9:
            return
        ack = draw.choice([0, 0, 1, 5, 2**40])
        frame = Frame(PROTOCOL_VERSION, BAD, self.bad, draw.choice([0, 7]), seq, ack, missing, body)
        head = encode(frame)
        self.frames = [*self.frames[-20:], head]
        buffers = draw.choice([[], [], [draw.choice(BUFFERS)], BUFFERS])
        if draw.random() < 0.7:
            head = mutant(head, draw, head=60, others=self.frames)
        if buffers and draw.random() < 0.3:
            buffers = [mutant(each, draw, head=1500, others=BUFFERS) for each in buffers]
        try:
            self.handle(FrameArrived(head, buffers, BAD))
        except ProtocolError as error:
            self.counts["refused" if error.__cause__ is None else "not decoded"] += 1
        else:
            self.counts["taken"] += 1


def main(seed: int, count: int) -> None:
    logging.disable(logging.CRITICAL)
    trial = Trial(seed)
    memory = Memory()
    for number in range(count):
        try:
            trial.attack()
            if number % 50 == 0:
                trial.publish()
        except BaseException:
            print(f"frame {number} of seed {seed}", flush=True)
            raise
    trial.publish()
    memory.check()
    print(f"{dict(trial.counts)}, {trial.published} good events")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
