"""A program of users, drawn from a seed: what they do, and whether they got what they must."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from reference_for_tests import (
    FILTERS,
    ITEM,
    CountAll,
    HoldBack,
    Item,
    Reference,
    envelope_of,
    violations,
)
from virtual_network_for_tests import HUB, Answered, Host, Intake, Supply, VirtualNetwork

from activebroker.broker.effects import PortClosed
from activebroker.broker.messages import (
    CloseChannel,
    CloseSupplier,
    Derive,
    Move,
    Offload,
    OpenChannel,
    OpenSupplier,
    Subscribe,
    Unsubscribe,
)
from activebroker.core.errors import ActiveBrokerError, Unreachable
from activebroker.events import encode
from activebroker.events.wire import describe

BROKERS = ("atlanta", "dallas")
OTHERS = ("east", "west", "home")
PATIENCE = 100.0


@dataclass
class Channel:
    name: str
    reference: Reference
    root: str
    parent: Channel | None = None
    closed: bool = False


@dataclass
class Supplier:
    channel: Channel
    name: str
    host: Host
    outlet: int = 0
    supply: Supply | None = None  # when it is open
    closed: bool = False  # by its user
    cut: bool = False  # its process is gone
    relays: list[str] = field(default_factory=list)  # brokers that may have its fan-out
    lost_relay: bool = False
    next_seq: int = 0

    @property
    def closed_by_loss(self) -> bool:
        """Whether the fabric closed it, because the broker that served its consumers is gone."""
        closed = self.closed or self.channel.closed
        return self.supply is not None and self.supply.closed is not None and not closed

    @property
    def over(self) -> bool:
        return self.closed or self.cut or self.channel.closed or self.closed_by_loss


@dataclass
class Consumer:
    channel: Channel
    host: Host
    port: int
    intake: Intake
    subscribed: bool = False
    left: bool = False
    latest_start: dict[str, int] = field(default_factory=dict)


class Script:
    """`play` does random things; `finish` ends everything and checks it."""

    def __init__(
        self, seed: int, *, loss: float = 0.0, duplication: float = 0.0, kills: int = 0
    ) -> None:
        self.random = random.Random(seed)
        self.net = VirtualNetwork(
            self.random,
            (*BROKERS, *OTHERS),
            brokers=(HUB, *BROKERS),
            undialable=("home",) if self.random.random() < 0.5 else (),
            loss=loss,
            duplication=duplication,
            slowest=self.random.choice((0.002, 0.05, 0.3)),
        )
        self.channels: list[Channel] = []
        self.suppliers: list[Supplier] = []
        self.consumers: list[Consumer] = []
        self.log: list[str] = []
        self.answers: list[tuple[str, Host, Answered]] = []
        self.done: Counter[str] = Counter()
        self._kills, self._may_fail = kills, kills > 0
        # The reference cannot know what a filter still holds back of a stream that was cut.
        self._filters = [each for each in FILTERS if each is not HoldBack or not kills]
        self._blob = self.random.choice((0, 0, 0, 500_000))
        self._ports = itertools.count(1_000_000)
        self._numbers = itertools.count(1)

    # --- what users do ------------------------------------------------------------------------

    def play(self, steps: int) -> None:
        for name in ("x", "y")[: self.random.choice((1, 1, 2))]:
            self.open_channel(name)
        for _ in range(self.random.choice((1, 2, 3))):
            self.open_supplier()
        moves = (
            (self.publish, 12),
            (self.let_time_pass, 6),
            (self.subscribe, 4),
            (self.derive, 4),
            (self.move, 6),
            (self.offload, 1),
            (self.unsubscribe, 1),
            (self.open_supplier, 1),
            (self.close_supplier, 1),
            (self.close_derived, 0.3),
            (self.close_root, 0.15),
            (self.kill, 2 if self._kills else 0),
        )
        actions, weights = zip(*moves, strict=True)
        for action in self.random.choices(actions, weights, k=steps):
            action()

    def open_channel(self, name: str) -> None:
        answer = self._any_host().request(OpenChannel(name, describe(ITEM)))
        self.net.run_until(lambda: answer.done)
        assert answer.error is None
        self.channels.append(Channel(name, Reference(), name))

    def open_supplier(self) -> None:
        if (channel := self._pick(self._roots())) is None:
            return
        name = self.random.choice("ABCD")
        if any(
            each.name == name and each.channel is channel and not each.over
            for each in self.suppliers
        ):
            return
        # A name that is used again goes on counting, so that each event is told from all others.
        before = [s for s in self.suppliers if s.name == name and s.channel is channel]
        host = before[0].host if before else self._any_host()
        if not host.alive:
            return
        next_seq = before[-1].next_seq if before else 0
        supplier = Supplier(channel, name, host, next_seq=next_seq)
        self.suppliers.append(supplier)

        def opened(outlet: int) -> None:
            supplier.outlet = outlet
            supplier.supply = host.supplies[outlet] = Supply(channel.reference.publish)

        def refused() -> None:
            supplier.closed = True

        what = f"{host.name} opens supplier {name} of {channel.name}"
        self._ask(what, host, OpenSupplier(channel.name, name, host.name), opened, refused)

    def publish(self) -> None:
        """Every supplier publishes a few times, soon or while other things happen."""
        for supplier in self.suppliers:
            spread = self.random.choice((0.0, 0.05, 0.5))
            for _ in range(self.random.choice((0, 1, 1, 2, 8))):
                due = spread * self.random.random()
                self.net.soon(due, partial(self._publish, supplier, self.random.choice((1, 1, 3))))

    def _publish(self, supplier: Supplier, count: int) -> None:
        if supplier.supply is None or supplier.over or len(supplier.supply.waiting) > 3:
            return
        first = supplier.next_seq
        contents = [
            Item(n, self.random.randrange(4), "", bytes(self._blob))
            for n in range(first, first + count)
        ]
        supplier.next_seq += count
        self.log.append(f"{self.net.now:.4f} {supplier.name} publishes {first}, {count} events")
        supplier.host.publish(supplier.outlet, encode(ITEM, contents, supplier.name, first, first))

    def let_time_pass(self) -> None:
        self.net.run_for(self.random.choice((0.001, 0.01, 0.1, 1.0)) * self.random.random())

    def subscribe(self) -> None:
        derived = [each for each in self._open() if each.parent is not None]
        if (channel := self._pick(self.random.choice((derived, self._open())))) is None:
            return
        host, port = self._any_host(), next(self._ports)
        intake = host.open_port(port, self.random.choice((None, None, 0.01, 0.2)))
        consumer = Consumer(channel, host, port, intake)
        self.consumers.append(consumer)

        def subscribed(_: object) -> None:
            consumer.subscribed = True
            consumer.latest_start = channel.reference.lengths()

        def closed() -> None:
            host.give(PortClosed(port))

        request = Subscribe(channel.name, host.name, port)
        self._ask(f"{host.name} subscribes to {channel.name}", host, request, subscribed, closed)

    def unsubscribe(self) -> None:
        consumer = self._pick(
            [each for each in self.consumers if each.subscribed and not each.left]
        )
        if consumer is not None:
            self._leave(consumer)

    def derive(self) -> None:
        parent = self._pick(self._open())
        if parent is None or len(self.channels) > 8:
            return
        self._calm()
        filter = self.random.choice(self._filters)
        places = ["consumer", *BROKERS, HUB] + ([] if filter is CountAll else ["supplier"] * 2)
        at, host = self.random.choice(places), self._any_host()
        name = f"{parent.name}.{filter.__name__}{next(self._numbers)}"
        child = Channel(name, Reference(filter), parent.root, parent)
        request = Derive(parent.name, name, envelope_of(filter), at, host.name)
        answer = self._ask(f"{host.name} derives {name} at {at}", host, request)
        self.net.run_until(lambda: answer.done)
        if answer.error is None:
            parent.reference.children.append(child.reference)
            self.channels.append(child)

    def move(self) -> None:
        channel = self._pick([each for each in self._open() if each.parent is not None])
        if channel is not None:
            self.publish()  # a move that nothing crosses proves little
            host = self._any_host()
            to = self.random.choice(("supplier", "consumer", *BROKERS, HUB))
            request = Move(channel.name, to, host.name, PATIENCE)
            self._ask(f"{host.name} moves {channel.name} to {to}", host, request)

    def offload(self) -> None:
        supplier = self._pick([each for each in self.suppliers if not each.over])
        if supplier is not None and supplier.supply is not None:
            to = self.random.choice(BROKERS)
            supplier.relays.append(to)
            request = Offload(supplier.channel.name, supplier.name, to, PATIENCE)
            self._ask(f"{supplier.name} offloads to {to}", supplier.host, request)

    def close_supplier(self) -> None:
        supplier = self._pick([each for each in self.suppliers if not each.over])
        if supplier is None or supplier.supply is None or self._waits(supplier):
            return
        supplier.closed = True
        supplier.channel.reference.end(supplier.name)
        request = CloseSupplier(supplier.channel.name, supplier.name)
        self._ask(f"{supplier.name} of {supplier.channel.name} closes", supplier.host, request)

    def close_derived(self) -> None:
        channel = self._pick([each for each in self._open() if each.parent is not None])
        if channel is not None:
            self._calm()
            self._close(channel)

    def close_root(self) -> None:
        if (channel := self._pick(self._roots())) is not None and not self._waiting(channel):
            self._close(channel)

    def kill(self) -> None:
        """A process is gone, at a random moment; the others find out."""
        if self._kills == 0:
            return
        self._kills -= 1
        host = self._any_host()
        if host.name == HUB:
            return
        if self.random.random() < 0.7:
            self.move()
        self.net.run_for(self.random.random() * self.random.choice((0.01, 0.1, 0.3)))
        self.log.append(f"{self.net.now:.4f} {host.name} is killed")
        self.net.kill(host.name)
        for supplier in self.suppliers:
            supplier.cut = supplier.cut or supplier.host is host
            supplier.lost_relay = supplier.lost_relay or host.name in supplier.relays

    # --- the end ------------------------------------------------------------------------------

    def finish(self) -> None:
        """Close everything; AssertionError where the contract is broken or something is left."""
        self._calm()
        while self.random.random() < 0.5:
            self.close_supplier()
            self.let_time_pass()
        for channel in self._roots():
            self._close(channel)
        self.net.settle()
        for what, host, answer in self.answers:
            assert answer.done or not host.alive, f"no answer: {what}"
            if answer.error is not None:
                assert self._expected(answer.error), f"{what}: {answer.error!r}"
                self.done["refused"] += 1
        for consumer in self.consumers:
            self._check(consumer)
        self.net.settle()
        for host in self.net.alive():
            assert_nothing_left(host)

    def _check(self, consumer: Consumer) -> None:
        if not consumer.subscribed:
            return
        channel, intake = consumer.channel, consumer.intake
        where = f"consumer {consumer.port} of {channel.name} at {consumer.host.name}"
        there = not consumer.left and consumer.host.alive
        if there:
            assert intake.ended, f"{where} was not told of the end"
            if intake.error is not None:
                assert self._may_fail and isinstance(intake.error, Unreachable), (
                    f"{where}: {intake.error!r}"
                )
                self.done["cut off"] += 1
        cut = {each.name for each in self.suppliers if self._is_cut(each, channel)}
        to_the_end = there and intake.error is None
        broken = list(
            violations(
                intake,
                channel.reference,
                consumer.latest_start,
                lambda supplier: to_the_end and supplier not in cut,
            )
        )
        assert not broken, f"{where}:\n" + "\n".join(broken)
        self.done["seen"] += sum(batch.num_rows for batch in intake.batches)
        if there:
            self._leave(consumer)

    def _is_cut(self, supplier: Supplier, channel: Channel) -> bool:
        """Whether part of what the supplier handed over may be lost."""
        return supplier.channel.name == channel.root and (supplier.cut or supplier.lost_relay)

    def story(self) -> str:
        return "\n".join(self.log)

    # --- inside -------------------------------------------------------------------------------

    def _ask(  # type: ignore[no-untyped-def]
        self, what: str, host: Host, body, on_result=lambda _: None, on_error=lambda: None
    ) -> Answered:
        self.log.append(f"{self.net.now:.4f} {what}")
        self.done[type(body).__name__] += 1
        answer = host.request(body, on_result, on_error)
        self.answers.append((what, host, answer))
        return answer

    def _expected(self, error: ActiveBrokerError) -> bool:
        """Whether a refusal is one that these scripts provoke."""
        if self._may_fail:
            return type(error) is not ActiveBrokerError  # which would be a fault of the directory
        return any(
            part in str(error)
            for part in (
                "was closed",
                "is shared",
                "has no supplier",
                "first.",  # a channel derived from it at 'supplier' has to move first
                "has handed its fan-out",
            )
        )

    def _calm(self) -> None:
        """Let all that is under way arrive."""
        self.net.run_until(
            lambda: self.net.quiet() and not any(map(self._waiting, self.channels)),
        )

    def _waiting(self, channel: Channel) -> bool:
        return any(self._waits(each) for each in self.suppliers if each.channel is channel)

    def _waits(self, supplier: Supplier) -> bool:
        """Whether a supplier waits for its outlet, or for room in it."""
        return not supplier.over and (supplier.supply is None or bool(supplier.supply.waiting))

    def _close(self, channel: Channel) -> None:
        channel.reference.close()
        for each in self.channels:
            each.closed = each.reference.closed
        if channel.parent is None:
            for supplier in self.suppliers:
                if supplier.channel is channel and not supplier.over:
                    supplier.closed = True
                    channel.reference.end(supplier.name)
        host = self._any_host()
        answer = self._ask(f"close {channel.name}", host, CloseChannel(channel.name))
        self.net.run_until(lambda: answer.done)

    def _leave(self, consumer: Consumer) -> None:
        consumer.left = True
        self.log.append(f"consumer {consumer.port} leaves {consumer.channel.name}")
        consumer.host.give(PortClosed(consumer.port))
        request = Unsubscribe(consumer.channel.name, consumer.port)
        self.answers.append(("unsubscribe", consumer.host, consumer.host.request(request)))

    def _roots(self) -> list[Channel]:
        return [each for each in self._open() if each.parent is None]

    def _open(self) -> list[Channel]:
        return [each for each in self.channels if not each.closed]

    def _any_host(self) -> Host:
        return self.random.choice(self.net.alive())

    def _pick(self, choices):  # type: ignore[no-untyped-def]
        return self.random.choice(choices) if choices else None


def assert_nothing_left(host: Host) -> None:
    """All that the program had made is gone from a node."""
    node = host.node
    exchange = node.exchange
    left = {
        "outlets": exchange.outlets,
        "ports": exchange.ports,
        "stages": exchange.stages,
        "moves": node.moves.under_way(),
        "blocked": exchange._blocked,
        "calls": node._calls._pending,
        "deploying": node._deploying,
        "runners": host._runners,
    }
    if node.directory is not None:
        graph = node.directory.graph
        left["flows"] = graph.flows
        for channel in graph.channels.values():
            for part in ("outlets", "ports", "stages", "relayed"):
                left[f"{part} of {channel.name}"] = getattr(channel, part)
    for what, value in left.items():
        assert not value, f"{what} left at {host.name}: {value}"
