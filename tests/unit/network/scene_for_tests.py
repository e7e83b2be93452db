"""A scene to play a fault in: a few hosts, and the users' requests in one line each."""

from __future__ import annotations

import itertools
import random
from typing import Any

from msgspec.structs import replace

from activebroker.core.errors import ActiveBrokerError
from activebroker.directory.directory import Directory
from activebroker.directory.parts import Derived
from activebroker.events import Event, encode
from activebroker.events.wire import describe
from activebroker.filters import FIFOFilter
from activebroker.node.effects import InletClosed
from activebroker.protocol.messages import CallBody
from activebroker.protocol.requests import (
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
from activebroker.simulation.checkers import nothing_left
from activebroker.simulation.host import Answered, Host, Intake
from activebroker.simulation.reference import ITEM, Item, envelope_of
from activebroker.simulation.scenario import Options
from activebroker.simulation.world import World

FOUND_LOST = 20.0  # seconds after which a death is known, and what it took with it goes on
COUNTED = ["0/1", "1/2", "2/3", "3/4", "4/5", "5/6"]  # what Count makes of six events


class Source:
    """A supplier of channel x."""

    def __init__(self, host: Host, name: str, outlet: int) -> None:
        self.host, self.name, self.outlet = host, name, outlet
        self.supply = host.open_supply(outlet, lambda batch: None)
        self.published = 0

    def publish(self, *groups: int, blob: int = 0) -> None:
        """Publish one batch, an event for each group."""
        first = self.published
        self.published += len(groups)
        contents = [Item(first + i, group, "", bytes(blob)) for i, group in enumerate(groups)]
        self.host.publish(self.outlet, encode(ITEM, contents, self.name, first, 0))


class Sink:
    """A subscription."""

    def __init__(self, host: Host, channel: str, inlet: int, intake: Intake) -> None:
        self.host, self.channel, self.inlet, self.intake = host, channel, inlet, intake

    @property
    def traces(self) -> list[str]:
        """What came, as `number/what filters made of it`."""
        return [_shown(event) for batch in self.intake.batches for event in batch.events()]

    def of(self, supplier: str) -> list[str]:
        """The traces of one supplier's events."""
        mine = (batch for batch in self.intake.batches if batch.supplier == supplier)
        return [_shown(event) for batch in mine for event in batch.events()]


def _shown(event: Event) -> str:
    return f"{event.content.n}{event.content.trace}"


class Scene:
    """Hosts hub (keeps the directory), east, west, atlanta and dallas (brokers); a channel x."""

    def __init__(self, seed: int = 0, patience: float = 20.0) -> None:
        names = ("east", "west", "atlanta", "dallas")
        options = Options(slowest=0.05, jitter=1.0, work=0.02)
        self.net = World(random.Random(seed), names, brokers=("atlanta", "dallas"), options=options)
        self.net.begin()
        self.patience = patience
        self._inlets = itertools.count(1_000_000)
        self.ask("hub", OpenChannel("x", describe(ITEM)))

    def host(self, name: str) -> Host:
        return self.net.hosts[name]

    @property
    def directory(self) -> Directory:
        directory = self.host("hub").node.directory
        assert directory is not None
        return directory

    def hub_takes_no_filters(self) -> None:
        """It keeps the directory, and is no broker."""
        self.directory.members["hub"] = replace(self.directory.members["hub"], is_broker=False)

    def begin(self, host: str, body: CallBody) -> Answered:
        """Ask for something and do not wait."""
        return self.host(host).request(body)

    def ask(self, host: str, body: CallBody) -> Any:
        """Ask for something and return the result; raises the error."""
        answer = self.begin(host, body)
        self.net.run_until(lambda: answer.done)
        if answer.error is not None:
            raise answer.error
        return answer.result

    def supplier(self, host: str, name: str) -> Source:
        return Source(self.host(host), name, self.ask(host, OpenSupplier("x", name, host)))

    def close_supplier(self, source: Source) -> None:
        self.ask(source.host.name, CloseSupplier("x", source.name))

    def subscribe(self, host: str, channel: str, pace: float | None = None) -> Sink:
        inlet = next(self._inlets)
        intake = self.host(host).open_inlet(inlet, pace)
        try:
            self.ask(host, Subscribe(channel, host, inlet))
        except ActiveBrokerError:
            self.host(host).give(InletClosed(inlet))
            raise
        return Sink(self.host(host), channel, inlet, intake)

    def unsubscribe(self, sink: Sink) -> None:
        sink.host.give(InletClosed(sink.inlet))
        self.ask(sink.host.name, Unsubscribe(sink.channel, sink.inlet))

    def derive(
        self,
        filter: type[FIFOFilter],
        at: str,
        parent: str = "x",
        host: str = "west",
        name: str = "",
        lease: float | None = None,
    ) -> str:
        name = name or f"{parent}.{filter.__name__}"
        self.ask(host, Derive(parent, name, envelope_of(filter), at, host, lease))
        return name

    def begin_move(self, channel: str, to: str, host: str = "west") -> Answered:
        return self.begin(host, Move(channel, to, host, self.patience))

    def move(self, channel: str, to: str, host: str = "west") -> None:
        self.ask(host, Move(channel, to, host, self.patience))

    def offloading(
        self, source: Source, to: str, consumers: tuple[str, ...] | None = None
    ) -> Offload:
        return Offload("x", source.name, to, self.patience, consumers)

    def begin_offload(self, source: Source, to: str) -> Answered:
        return self.begin(source.host.name, self.offloading(source, to))

    def offload(self, source: Source, to: str, *consumers: str) -> None:
        """Offload what is at `consumers`, or all."""
        self.ask(source.host.name, self.offloading(source, to, consumers or None))

    def close(self, channel: str = "x") -> None:
        self.ask("hub", CloseChannel(channel))

    def settle(self) -> None:
        self.net.settle()

    def derived(self, name: str) -> Derived:
        """A derived channel in the directory's picture."""
        channel = self.directory.graph.channels[name]
        assert isinstance(channel, Derived)
        return channel

    def places(self, channel: str) -> list[str]:
        """Where a derived channel's filter runs."""
        return [stage.node for stage in self.derived(channel).stages.values()]

    def finish(self, *sinks: Sink) -> None:
        """End it all: subscriptions that were not lost with their process end without an error."""
        self.close()
        self.settle()
        for sink in sinks:
            assert sink.intake.ended and sink.intake.error is None
        self.check_nothing_left()

    def check_nothing_left(self) -> None:
        """All that was made is gone from every node."""
        for host in self.net.alive():
            assert not list(nothing_left(host))
