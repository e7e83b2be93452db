"""Requests about channels: to open and close them, to supply, subscribe and derive."""

from __future__ import annotations

import logging

from activebroker.core.errors import (
    ActiveBrokerError,
    Closed,
    InvalidFilter,
    InvalidSubscription,
    NameTaken,
    PayloadRefused,
    UnknownChannel,
    UnknownPlace,
    Unreachable,
    suggestion,
)
from activebroker.directory.context import Context
from activebroker.directory.endings import Endings
from activebroker.directory.leases import Leases
from activebroker.directory.names import (
    brokers,
    channel_named,
    free_name,
    open_names,
    place_named,
)
from activebroker.directory.parts import (
    FIXED_PLACES,
    SUPPLIER,
    Channel,
    Derived,
    Inlet,
    Outlet,
    Root,
)
from activebroker.directory.placing import Placing
from activebroker.directory.requests import Change
from activebroker.directory.versions import add_version, share_versions
from activebroker.directory.wiring import Wiring
from activebroker.protocol.orders import CloseOutlet, OpenOutlet, ReportLog
from activebroker.protocol.requests import (
    CloseChannel,
    CloseSupplier,
    Derive,
    FindLog,
    OpenChannel,
    OpenSupplier,
    Subscribe,
    Unsubscribe,
)
from activebroker.protocol.specs import LOG, Since

log = logging.getLogger(__name__)


class Channels:
    """Each method is a change (see `requests.py`)."""

    def __init__(
        self,
        context: Context,
        wiring: Wiring,
        endings: Endings,
        placing: Placing,
        leases: Leases,
    ) -> None:
        self._context = context
        self._graph = context.graph
        self._members = context.members
        self._wiring = wiring
        self._endings = endings
        self._placing = placing
        self._leases = leases

    def open(self, body: OpenChannel) -> Change:
        channel = self._graph.channels.get(body.name)
        if channel is None or (channel.closed and body.type is not None):
            if body.type is None:
                raise UnknownChannel(
                    f"There is no channel {body.name!r}."
                    + suggestion(body.name, open_names(self._graph))
                    + " Give an event type to create it: channel(name, YourDataclass), or "
                    "channel(name, object) for any picklable object."
                )
            channel = self._graph.channels[body.name] = Root(body.name, body.type)
        elif channel.closed:
            raise Closed(f"Channel {body.name!r} was closed.{channel.ended}")
        if body.type is not None:
            add_version(channel, body.type)
        return channel.info
        yield []

    def close(self, body: CloseChannel) -> Change:
        yield from self._endings.close(channel_named(self._graph, body.name))
        return None

    # --- suppliers and consumers --------------------------------------------------------------

    def open_supplier(self, body: OpenSupplier) -> Change:
        channel = channel_named(self._graph, body.channel)
        if isinstance(channel, Derived):
            raise InvalidFilter(
                f"Channel {channel.name!r} is derived from {channel.parent.name!r}: its events "
                "come from its filter, it takes no suppliers."
            )
        if (own := channel.outlet(body.supplier)) is not None:
            raise NameTaken(
                f"Channel {channel.name!r} has a supplier {body.supplier!r} already, in the living "
                f"process {own.node!r}: close it there first, or choose another name."
            )
        outlet = Outlet(self._graph.new_id(), body.node, body.supplier)
        try:
            stream = self._graph.stream(outlet.id) if body.stream is None else body.stream
            yield [(body.node, OpenOutlet(outlet.id, channel.name, body.supplier, stream))]
        except ActiveBrokerError:
            self._context.ask(body.node, CloseOutlet(outlet.id, finished=False))  # it may open late
            raise
        channel.outlets[outlet.id] = outlet
        try:
            yield from self._placing.connect(channel)
        except ActiveBrokerError:
            yield from self._endings.remove_supplier(channel, body.supplier)
            raise
        return outlet.id

    def close_supplier(self, body: CloseSupplier) -> Change:
        channel = self._graph.channels.get(body.channel)
        if isinstance(channel, Root) and not channel.closed:
            yield from self._endings.remove_supplier(channel, body.supplier)
        return None

    def subscribe(self, body: Subscribe) -> Change:
        channel = channel_named(self._graph, body.channel)
        if body.since is not None:
            channel = self._log_of(channel, body.since)
        channel.inlets[body.inlet] = Inlet(body.inlet, body.node, body.predicate, log=body.since)
        try:
            yield from self._placing.connect(channel)
        except ActiveBrokerError:
            yield from self._wiring.remove_inlet(channel, body.inlet)
            raise
        return channel.name

    def find_log(self, body: FindLog) -> Change:
        log = self._log_of(channel_named(self._graph, body.channel), Since())
        (found,) = yield [(stage.node, ReportLog(stage.id)) for stage in log.stages.values()]
        return found

    def _log_of(self, channel: Channel, since: Since) -> Derived:
        """The log that keeps a channel's events, or the channel itself, if it is a log."""
        for each in (channel, *self._graph.children(channel)):
            if isinstance(each, Derived) and each.home and not each.closed:
                if since.seqs and isinstance(each.parent, Derived):
                    raise InvalidSubscription(
                        f"The events of channel {each.parent.name!r} have the sequence numbers of "
                        "those that its filter was given: give since as a time."
                    )
                return each
        raise InvalidSubscription(
            f"Channel {channel.name!r} has no log, so that only what is published from now on can "
            "come: keep its events with channel.log(path, at=broker), or subscribe without since."
        )

    def unsubscribe(self, body: Unsubscribe) -> Change:
        channel = self._graph.channels.get(body.channel)
        if channel is not None:
            yield from self._wiring.remove_inlet(channel, body.inlet)
        return None

    # --- derived channels ---------------------------------------------------------------------

    def derive(self, body: Derive) -> Change:
        parent = channel_named(self._graph, body.channel)
        nodes, engine = place_named(self._members, parent, body.at, body.node)
        if body.log is not None:
            if body.at in FIXED_PLACES:
                raise UnknownPlace(
                    f"A log is on the disk of a broker, and {body.at!r} is none: name one, "
                    f"channel.log(path, at=...).{suggestion('', brokers(self._members))}"
                )
            engine = LOG
        if body.envelope.shared and body.at == SUPPLIER:
            raise InvalidFilter(
                f"Filter {body.envelope.name} is shared (one instance for all suppliers) and so "
                "cannot run at 'supplier': choose 'consumer', 'spark' or a broker."
            )
        name = body.name or free_name(self._graph, f"{parent.name}.{body.envelope.name}")
        known = self._graph.channels.get(name)
        if known is not None and not known.closed:
            if isinstance(known, Derived) and self._adopts(known, body):
                known.owned, known.lease = True, body.lease
                return known.info
            if (
                isinstance(known, Derived)
                and body.log is not None
                and (known.parent.name, known.home, known.log) == (body.channel, body.at, body.log)
            ):
                return known.info
            if isinstance(known, Root) or known.owned or known.lease is None:
                raise NameTaken(f"A channel {name!r} exists already: choose another name.")
            if self._leases.taken(known):
                raise NameTaken(
                    f"A channel {name!r} exists already and is still taken, though "
                    f"{known.owner!r}, which derived it, is gone: open it by its name, or choose "
                    "another name."
                )
            yield from self._endings.close(known)  # an orphan
        child = Derived(
            name,
            body.envelope.output,
            parent=parent,
            envelope=body.envelope,
            at=body.at,
            asked=body.at,
            owner=body.node,
            lease=body.lease,
            home=body.at if body.log is not None else "",
            log=body.log,
        )
        share_versions(child, parent)
        self._graph.channels[name] = child
        try:
            if body.at != SUPPLIER:
                yield from self._wiring.deploy(child, nodes, engine)
            yield from self._placing.connect(parent)
            if child.closed and child.instead:
                raise PayloadRefused(child.instead)
            if child.closed:  # together with its parent
                raise Unreachable(child.ended.strip())
        except ActiveBrokerError:
            yield from self._wiring.remove_stages(child)
            self._graph.channels.pop(name, None)
            yield from self._wiring.feed_relays(parent)
            raise
        return child.info

    def _adopts(self, known: Derived, body: Derive) -> bool:
        """Whether a process asks for a channel that an earlier process of its name derived."""
        ours = not known.owned and known.owner == body.node
        known_as = known.parent.name, known.envelope, known.log
        return ours and known_as == (body.channel, body.envelope, body.log)

    def end_unheld(self, name: str) -> Change:
        """End a channel whose lease has run out, unless somebody holds it again by now."""
        channel = self._graph.channels.get(name)
        if isinstance(channel, Derived) and (why := self._leases.has_run_out(channel)):
            log.info("channel %r ends:%s", name, why)
            channel.ended = why
            yield from self._endings.close(channel)
