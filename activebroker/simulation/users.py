"""The users of a scenario: what they ask for, what they were promised, and what they got."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from activebroker.balancing.splitting import split_moves
from activebroker.core.errors import (
    Closed,
    InvalidFilter,
    ReconfigurationFailed,
    UnknownPlace,
    Unreachable,
)
from activebroker.events import Batch
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
    Reconfigure,
    ReportStatus,
    Subscribe,
    Unsubscribe,
)
from activebroker.protocol.specs import LogSpec, Since
from activebroker.protocol.status import Status
from activebroker.simulation import reference, rows
from activebroker.simulation.contents import Change, Content
from activebroker.simulation.host import Answered, Host, Intake, Supply
from activebroker.simulation.machines import is_member, served_by, suppliers_of
from activebroker.simulation.reference import (
    FILTERS,
    GROUPS,
    ITEM,
    All,
    Deadly,
    Grouped,
    Some,
    Twice,
    envelope_of,
)
from activebroker.simulation.scenario import (
    BROKER_NAMES,
    DEADLY,
    FROM_ITS_BEGIN,
    HUB,
    KEYED,
    LOGGED,
    RAISING,
    RECONFIGURED,
    TOUCHY,
    Options,
    Step,
)
from activebroker.simulation.world import World
from derivation.split import MoveTo

MOST_CHANNELS = 6
MOST_CHANGES = 2  # of the parameters of a filter: each may have come at many places
MOST_SUPPLIERS = 8
MOST_WAITING = 3  # batches of a supplier; its user does not publish more before they are gone

T = TypeVar("T")


@dataclass(eq=False)
class Channel:
    name: str
    content: Content
    parent: Channel | None = None
    closed: bool = False  # has been asked for
    ended: bool = False  # and been answered, at a root
    relayed: bool = False  # or may be: a supplier was asked to hand over what it serves
    owner: Host | None = None  # that derived it
    absent: dict[str, Host] = field(default_factory=dict)  # suppliers out of reach then, if lost
    request: Derive | None = None  # with which

    @property
    def root(self) -> Channel:
        return self if self.parent is None else self.parent.root

    def made_by(self, filter: type[FIFOFilter]) -> bool:
        """Whether a filter of this class has had a hand in it."""
        if self.parent is None:
            return False
        return self.content.filter is filter or self.parent.made_by(filter)


@dataclass(eq=False)
class Supplier:
    channel: Channel
    name: str
    host: Host
    outlet: int = 0
    supply: Supply | None = None  # when it is open
    closed: bool = False  # by its user
    next_seq: int = 0

    @property
    def over(self) -> bool:
        ended = self.supply is not None and self.supply.closed is not None
        return self.closed or ended or not self.host.alive or self.channel.closed

    @property
    def can_return(self) -> bool:
        """Whether there may be another of its name: it lost nothing."""
        return self.closed and self.outlet > 0 and self.host.alive and not self.host.expelled

    @property
    def waits(self) -> bool:
        """For its outlet, or for room in it."""
        return not self.over and (self.supply is None or bool(self.supply.waiting))


@dataclass(eq=False)
class Consumer:
    channel: Channel
    host: Host
    inlet: int
    intake: Intake
    subscribed: bool = False
    left: bool = False
    latest_start: dict[str, int] = field(default_factory=dict)
    absent: dict[str, Host] = field(default_factory=dict)  # suppliers out of reach then, if lost
    gaps: int = 0  # how often its process has joined again
    back: dict[str, int] = field(default_factory=dict)  # how far all were when it last had

    @property
    def there(self) -> bool:
        return self.waits and self.host.alive

    @property
    def waits(self) -> bool:
        """For events, or to be told of their end."""
        return self.subscribed and not self.left


class Users:
    def __init__(self, world: World, options: Options) -> None:
        self.world = world
        self.options = options
        self.brokers = [*BROKER_NAMES[: options.brokers], HUB]
        self.channels: list[Channel] = []
        self.suppliers: list[Supplier] = []
        self.consumers: list[Consumer] = []
        self.requests: list[tuple[str, Host, Answered]] = []
        self._last_inlet = 1_000_000

    def open_roots(self) -> None:
        for name in ("x", "y")[: self.options.roots]:
            self.ask("opens", self.world.hosts[HUB], OpenChannel(name, describe(ITEM)))
            self.channels.append(Channel(name, Content()))
        self.world.settle()

    def do(self, step: Step, _: object = None) -> None:
        """Carry a step out; where what it needs is not there, nothing is done."""
        host = _pick([host for host in self.world.alive() if host.has_users], step.host)
        if host is None or host.paused:
            return
        match step.do:
            case "open supplier":
                self._open_supplier(host, step)
            case "publish":
                if (supplier := _pick(self._ready(), step.object)) is not None:
                    for number in range(step.times):
                        due = step.over * number / step.times
                        self.world.soon(due, lambda _: self._publish(supplier, step.choice))
            case "subscribe":
                self._subscribe(host, step)
            case "unsubscribe":
                if (consumer := _pick([c for c in self.consumers if c.there], step.object)) is None:
                    return
                self.leave(consumer)
            case "derive":
                self._derive(host, step)
            case "move":
                if (channel := _pick(self._derived(), step.object)) is not None:
                    to = _pick(["supplier", "consumer", *self.brokers], step.place)
                    assert to is not None
                    move = Move(channel.name, to, host.name, self.options.patience)
                    self.ask(f"moves {channel.name} to {to}", host, move)
            case "offload":
                self._offload(step)
            case "split":
                self._split(host, step)
            case "reconfigure":
                self._reconfigure(host, step)
            case "close supplier":
                self._close_supplier(step)
            case "close derived":
                if (channel := _pick(self._derived(), step.object)) is not None:
                    self._close_derived(host, channel)
            case "close root":
                if (channel := _pick(self.roots(), step.object)) is not None:
                    self.close_root(host, channel)

    def moved(self, before: Host, host: Host) -> None:
        """A process goes on with another node."""
        for supplier in self.suppliers:
            if supplier.host is before:
                supplier.host = host
                supplier.closed |= supplier.supply is None  # it was asked for, and never opened
        for consumer in self.consumers:
            if consumer.host is before:
                consumer.host = host
        for channel in self.channels:
            if channel.owner is before:
                channel.owner = host

    # --- suppliers ----------------------------------------------------------------------------

    def _open_supplier(self, host: Host, step: Step) -> None:
        channel = _pick(self.roots(), step.object)
        if channel is None:
            return
        mine = [each for each in self.suppliers if each.channel is channel]
        ended = [each for each in {each.name: each for each in mine}.values() if each.can_return]
        name, next_seq = f"s{len(mine) + 1}", 0
        if step.choice and (last := _pick(ended, step.object)) is not None:
            # Its name once more. It goes on counting, so that each event is told from all others.
            host, name, next_seq = last.host, last.name, last.next_seq
        elif len(mine) >= MOST_SUPPLIERS:
            return
        supplier = Supplier(channel, name, host, next_seq=next_seq)
        self.suppliers.append(supplier)

        def handed(batch: Batch | None) -> None:
            if batch is None:
                channel.content.hand_over(name, None)
                return
            meant, readable = rows.without_checks(batch)
            for event, is_one in zip(meant.events(), readable, strict=True):
                channel.content.hand_over(name, event, is_one)

        def opened(outlet: int) -> None:
            supplier.outlet = outlet
            supplier.supply = host.open_supply(outlet, handed)

        def refused() -> None:
            supplier.closed = True

        request = OpenSupplier(channel.name, name, host.name)
        self.ask(f"opens supplier {name} of {channel.name}", host, request, opened, refused)

    def _publish(self, supplier: Supplier, count: int) -> None:
        supply = supplier.supply
        if supply is None or supplier.over or supplier.host.paused:
            return
        if len(supply.waiting) > MOST_WAITING:
            return
        type_, count = (rows.TOUCHY, count - TOUCHY) if count > TOUCHY else (ITEM, count)
        first = supplier.next_seq
        supplier.next_seq += count
        self.world.counts["events published"] += count
        numbers = range(first, first + count)
        batch = rows.batch_of(type_, supplier.name, numbers, self.options.blob)
        self._step(supplier.host, f"{supplier.name} publishes {first}, {count} events")
        supply.waiting.append(batch)
        supplier.host.pump(supplier.outlet)

    def _offload(self, step: Step) -> None:
        if (supplier := _pick(self._ready(), step.object)) is None or supplier.host.paused:
            return
        to = _pick(self.brokers, step.place)
        assert to is not None
        supplier.channel.relayed = True
        name, consumers, what = supplier.channel.name, None, "all"
        if step.choice:
            served = served_by(self.world.hosts[HUB].node, supplier.outlet)
            first = step.object % len(served) if served else 0
            consumers = tuple([*served, *served][first : first + min(step.choice, len(served))])
            what = f"what is at {', '.join(consumers)}"
        request = Offload(name, supplier.name, to, self.options.patience, consumers)
        self.ask(f"{supplier.name} offloads {what} to {to}", supplier.host, request)

    def _close_supplier(self, step: Step) -> None:
        ready = [each for each in self._ready() if not each.waits]
        if (supplier := _pick(ready, step.object)) is not None and not supplier.host.paused:
            supplier.closed = True
            request = CloseSupplier(supplier.channel.name, supplier.name)
            self.ask(f"closes supplier {supplier.name}", supplier.host, request)

    def is_back(self, supplier: Supplier) -> None:
        """It is in the fabric again: who came while it was not has its events from here on."""
        name = supplier.name
        for channel in self.channels:
            if channel.root is supplier.channel and name in channel.absent:
                del channel.absent[name]
                channel.content.until[name] = channel.content.lengths().get(name, 0)
        for consumer in self.consumers:
            if consumer.channel.root is supplier.channel and name in consumer.absent:
                del consumer.absent[name]
                so_far = consumer.channel.content.lengths().get(name, 0)
                began = consumer.back if consumer.gaps else consumer.latest_start
                began[name] = so_far

    def absent(self, root: Channel) -> dict[str, Host]:
        """The suppliers that serve nobody anew now: the directory has lost their processes, or does
        not reach them, and loses them perhaps."""
        world = self.world
        hub = world.hosts[HUB].node
        known = suppliers_of(hub, root.name)

        def was_there(supplier: Supplier) -> bool:  # whether or not it has heard that it was
            return supplier.supply is not None or not is_member(hub, supplier.host.member)

        def absent(supplier: Supplier) -> bool:
            if supplier.name not in known:
                return was_there(supplier)
            return not world.silence.hears(world.env.now, HUB, supplier.host.name)

        mine = [each for each in self.suppliers if each.channel is root]
        return {each.name: each.host for each in mine if absent(each)}

    # --- consumers ----------------------------------------------------------------------------

    def _subscribe(self, host: Host, step: Step) -> None:
        # Mostly what is derived: there is more to see.
        derived = self._derived()
        channel = _pick(derived if derived and step.object % 4 else self._open(), step.object)
        if channel is None:
            return
        self._last_inlet += 1
        inlet = self._last_inlet
        intake = host.open_inlet(inlet, self.options.pace if step.choice & 1 else None)
        past = channel.content.filter is All and step.choice & FROM_ITS_BEGIN
        since = Since(position=0) if past else None
        consumer = Consumer(channel, host, inlet, intake)
        self.consumers.append(consumer)

        def subscribed(_: object) -> None:
            consumer.subscribed = True
            if not past:
                consumer.latest_start = channel.content.lengths()
                consumer.absent = self.absent(channel.root)

        def refused() -> None:
            host.give(InletClosed(inlet))

        request = Subscribe(channel.name, host.name, inlet, since)
        self.ask(f"subscribes to {channel.name} as {inlet}", host, request, subscribed, refused)

    def leave(self, consumer: Consumer) -> None:
        consumer.left = True
        consumer.host.give(InletClosed(consumer.inlet))
        request = Unsubscribe(consumer.channel.name, consumer.inlet)
        self.ask(f"consumer {consumer.inlet} leaves", consumer.host, request)

    # --- channels -----------------------------------------------------------------------------

    def _derive(self, host: Host, step: Step) -> None:
        parent = _pick(self._open(), step.object)
        if parent is None or len(self.channels) >= MOST_CHANNELS:
            return
        sorts = (
            (KEYED, reference.KEYED),
            (LOGGED, (All,)),
            (DEADLY, reference.DEADLY),
            (RAISING, reference.RAISING),
            (RECONFIGURED, reference.RECONFIGURED),
            (0, FILTERS),
        )
        choices = next(filters for first, filters in sorts if step.choice >= first)
        filter = choices[step.choice % len(choices)]
        if any(filter is each and parent.made_by(each) for each in (Twice, Grouped)):
            filter = Some  # two of them make events that are equal, and nobody could tell apart
        places = ["consumer", *self.brokers] + ([] if filter.shared else ["supplier"] * 2)
        at = places[step.place % len(places)]
        if filter is All:
            at = self.brokers[step.place % self.options.brokers]  # all but the hub
            self.world.homes[at] = None
        if filter is Deadly and (at not in BROKER_NAMES or host.name == HUB):
            return
        self._last_inlet += 1
        name = f"{parent.name}.{filter.__name__}{self._last_inlet % 1000}"
        child = Channel(name, Content(filter, parent.content, since=self._reached(parent)), parent)
        child.owner = host
        lease = self.options.lease or None
        log = LogSpec(name, 0) if filter is All else None
        child.request = Derive(parent.name, name, envelope_of(filter), at, host.name, lease, log)

        def derived(_: object) -> None:
            child.content.until = child.content.lengths()
            child.absent = self.absent(child.root)
            child.closed = parent.closed
            self.channels.append(child)

        self.ask(f"derives {name} at {at}", host, child.request, derived)

    def _reconfigure(self, host: Host, step: Step) -> None:
        """One at a time: of two, nobody here would know which is the later one."""
        can = [each for each in self._derived() if each.content.filter in reference.RECONFIGURED]
        if (channel := _pick(can, step.object)) is None:
            return
        content, parent = channel.content, channel.parent
        assert content.filter is not None and parent is not None
        if len(content.changes) >= MOST_CHANGES or any(each.may_fail for each in content.changes):
            return
        groups = GROUPS[step.choice % len(GROUPS)]
        change = Change(groups, self._reached(parent))
        content.changes.append(change)

        def changed(_: object) -> None:
            change.until, change.may_fail = content.lengths(), False

        def refused() -> None:
            known = isinstance(answer.error, InvalidFilter | ReconfigurationFailed | Closed)
            begun = ("is still changing", "has changed")
            if known and not any(part in str(answer.error) for part in begun):
                content.changes.remove(change)

        patience = min(self.options.patience, 5.0)
        request = Reconfigure(
            channel.name, envelope_of(content.filter, groups), host.name, patience
        )
        answer = self.ask(
            f"reconfigures {channel.name} to {groups}", host, request, changed, refused
        )

    def _reached(self, channel: Channel) -> dict[str, int]:
        """How far, at the least, a channel's events have got by now."""
        direct = channel.parent is None and not channel.relayed
        return channel.content.lengths() if direct or self.world.quiet() else {}

    def _close_derived(self, host: Host, channel: Channel) -> None:
        assert channel.parent is not None
        content = channel.content
        content.closed_since = self._reached(channel.parent)
        self._close(channel)

        def closed(_: object) -> None:
            content.closed_until = content.lengths()

        def refused() -> None:
            if not isinstance(answer.error, Unreachable):  # else nobody knows
                content.closed_since = None

        request = CloseChannel(channel.name)
        answer = self.ask(f"closes {channel.name}", host, request, closed, refused)

    def close_root(self, host: Host, channel: Channel) -> None:
        def ended(_: object) -> None:
            channel.ended = True

        self._close(channel)
        self.ask(f"closes {channel.name}", host, CloseChannel(channel.name), ended)

    def _close(self, channel: Channel) -> None:
        channel.closed = True
        for each in self.channels:
            if each.parent is channel:
                self._close(each)

    # --- brokers ------------------------------------------------------------------------------

    def _split(self, host: Host, step: Step) -> None:
        broker = _pick(self.brokers, step.object)
        to = _pick([name for name in self.brokers if name != broker], step.place)
        assert broker is not None and to is not None

        def reported(status: Status) -> None:
            try:
                moves = split_moves(status, broker, to)
            except UnknownPlace:
                hosts = (self.world.hosts[name] for name in (broker, to))
                if self.world.deaths or any(host.may_be_lost for host in hosts):
                    return
                raise
            self._move_on(host, moves)

        self.ask(f"splits {broker} with {to}", host, ReportStatus(), reported)

    def _move_on(self, host: Host, moves: Sequence[MoveTo]) -> None:
        """One after the other; the first that is refused is the last."""
        if not moves:
            return
        first, *others = moves
        move = Move(first.channel, first.to, host.name, self.options.patience)
        self.world.kinds.splits[move] = None
        what = f"moves {first.channel} to {first.to}, to split"
        self.ask(what, host, move, lambda _: self._move_on(host, others))

    # --- inside -------------------------------------------------------------------------------

    def ask(
        self,
        what: str,
        host: Host,
        body: CallBody,
        on_result: Callable[[Any], None] = lambda _: None,
        on_error: Callable[[], None] = lambda: None,
    ) -> Answered:
        self._step(host, what)
        self.world.counts[f"step {type(body).__name__}"] += 1
        answer = host.request(body, on_result, on_error)
        self.requests.append((what, host, answer))
        return answer

    def _step(self, host: Host, what: str) -> None:
        self.world.note("step", host.name, what)

    def waiting(self) -> list[str]:
        """Who waits still, for an answer or to hand events over."""
        unanswered = [
            f"{host.name} {what}"
            for what, host, answer in self.requests
            if host.alive and not answer.done
        ]
        return unanswered + [f"supplier {each.name}" for each in self.suppliers if each.waits]

    def _ready(self) -> list[Supplier]:
        return [each for each in self.suppliers if not each.over and each.supply is not None]

    def roots(self) -> list[Channel]:
        return [each for each in self._open() if each.parent is None]

    def _derived(self) -> list[Channel]:
        return [each for each in self._open() if each.parent is not None]

    def _open(self) -> list[Channel]:
        return [each for each in self.channels if not each.closed]


def _pick(choices: list[T], number: int) -> T | None:
    return choices[number % len(choices)] if choices else None
