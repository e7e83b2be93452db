"""A channel: suppliers put events in, consumers subscribe, filters derive new channels."""

from __future__ import annotations

from collections.abc import Callable

from activebroker.core.errors import InvalidFilter
from activebroker.events import Event, EventType
from activebroker.fabric.bound import Bound
from activebroker.fabric.callbacks import check_callback
from activebroker.fabric.failures import FailureLog
from activebroker.fabric.membership import Membership
from activebroker.fabric.subscription import Subscription
from activebroker.fabric.supplier import Supplier
from activebroker.filters import FilterSpec, analyse, pack
from activebroker.protocol.messages import (
    CloseChannel,
    Derive,
    OpenSupplier,
    Subscribe,
    Unsubscribe,
)
from activebroker.runtime import EventQueue, Gap, PublishBuffer, SlowPolicy, WhenSlow
from predicate_extract import Extraction


class Channel(Bound):
    """Get it from `fabric.channel(name, type)` or `channel.derive(filter)`.

    `extraction` is what the analysis found in a derived channel's filter: its predicate, whether
    that is exact, and why not.
    """

    def __init__(
        self,
        membership: Membership,
        name: str,
        type: EventType,
        parent: str | None,
        extraction: Extraction | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.parent = parent
        self.extraction = extraction
        self._membership = membership
        self._derived: tuple[FilterSpec, EventType] | None = None  # where it was: from what

    @property
    def errors(self) -> FailureLog:
        """The events that this channel's filter lost by raising, where this process derived it."""
        return self._membership.failures(self.name)

    def supplier(self, name: str | None = None) -> Supplier:
        """Open a supplier. Raises NameTaken, Closed, and InvalidFilter on a derived channel."""
        membership = self._membership
        name = name or membership.new_name()
        buffer = PublishBuffer(self.name, name, self.type)

        def open_supplier() -> Supplier:
            outlet = membership.request(OpenSupplier(self.name, name, membership.node))
            membership.publish_to(outlet, buffer)
            return membership.remember(Supplier(membership, self.name, name, buffer))

        return membership.steadily(open_supplier)

    def subscribe(
        self,
        callback: Callable[[Event], object] | None = None,
        *,
        timeout: float | None = None,
        when_slow: WhenSlow = "block",
        keep: int = 10_000,
        patience: float = 10.0,
        on_gap: Callable[[Gap], object] | None = None,
    ) -> Subscription:
        """Take events: all that are published after this call has returned.

        With a callback, a thread calls it for each event; else iterate over the subscription.
        `timeout`: see Subscription.

        `when_slow` says what happens when this consumer does not keep up. "block": its suppliers
        wait, and with them all their consumers. "drop_oldest", "drop_newest": of the events that
        wait for it only `keep` stay, the last or the first; `subscription.dropped` counts the
        others, and `on_gap` is called with a Gap where they would have come, by who iterates.
        "disconnect": as "block", but it is cut off when an event has waited for `patience` seconds;
        the iteration then raises SlowConsumer after what has come.

        Raises InvalidSubscription, Closed.
        """
        policy = SlowPolicy(when_slow, keep, patience, on_gap)
        if callback is not None:
            check_callback(callback)
        membership = self._membership
        inlet = membership.new_inlet()
        events = EventQueue(self.name, self.type, policy)

        def subscribe() -> Subscription:
            membership.open_inlet(inlet, events)
            try:
                membership.request(Subscribe(self.name, membership.node, inlet))
            except BaseException:  # Ctrl-C, too: nobody would take what comes
                membership.close_inlet(inlet)
                membership.tell(Unsubscribe(self.name, inlet))  # should it be carried out after all
                raise
            subscription = Subscription(membership, self.name, inlet, events, callback, timeout)
            return membership.remember(subscription)

        return membership.steadily(subscribe)

    def derive(
        self,
        filter: object,
        *,
        at: str = "supplier",
        name: str | None = None,
        keep: bool = False,
        lease: float | None = None,
    ) -> Channel:
        """Make a channel of the events that a filter forwards.

        `filter` is a FIFOFilter class, `(class, args…)`, an instance, or a function of the content
        that tells whether to forward, and changes nothing of it: functions in one process are shown
        the same objects. `at` is where it runs: "supplier", "consumer" (this
        process), a broker's name, or "spark".

        The channel lives as long as this process is in the fabric, or somebody takes it (a
        subscription, or another derived channel), and `lease` seconds more: by default those of
        the fabric. With `keep` it lives until it is closed.

        Raises InvalidFilter, FilterNotPicklable, UnknownField, EventTypeError, UnknownPlace,
        NameTaken, Closed, and PayloadRefused where the place cannot run it. At "supplier" it runs
        elsewhere then: at this process, or at the next place that can.
        """
        membership = self._membership
        seconds = None if keep else membership.lease if lease is None else lease
        spec = FilterSpec.of(filter)
        input_type = spec.input_type(self.type)
        extraction = analyse(spec, input_type)
        envelope = pack(spec, input_type, extraction, key=membership.signing_key)
        # So that the events come as instances of the class, wherever the filter runs.
        membership.register(spec.output_type(input_type))
        known = membership.derive_channel(
            Derive(self.name, name, envelope, at, membership.node, seconds)
        )
        channel = Channel(membership, *known, extraction)
        channel._derived = spec, input_type
        return channel

    def reconfigure(self, *, timeout: float = 10.0, **values: object) -> None:
        """Set parameters of this channel's filter while events flow: attributes that its class
        names in `parameters`.

        Returns when the filter has them. At each place, the events up to one are decided with the
        old values, and those behind it with the new ones, also upstream: the predicate is derived
        anew. The state stays. Only where the channel was derived.

        Raises InvalidFilter, FilterNotPicklable; ReconfigurationFailed, where the filter stays as
        it was, or does not have the values after `timeout` seconds yet, or has them at some of its
        suppliers only: the message says which.
        """
        if self._derived is None:
            raise InvalidFilter(
                f"The filter of channel {self.name!r} can be reconfigured where it was derived: on "
                "the channel that derive(...) returned."
            )
        membership = self._membership
        spec, input_type = self._derived
        spec = spec.reconfigured(values)
        extraction = analyse(spec, input_type)
        envelope = pack(spec, input_type, extraction, key=membership.signing_key)
        membership.reconfigure(self.name, envelope, timeout)
        self._derived, self.extraction = (spec, input_type), extraction

    def move(self, to: str, *, timeout: float = 30.0) -> None:
        """Third-party derivation: move this channel's filter while events flow.

        Returns when the filter runs at the new place. Consumers see every event once and in
        order. Raises UnknownPlace; MoveFailed, where the filter stays, or the switch-over is
        overdue after `timeout` seconds, or a party was lost amid it and the filter goes on
        elsewhere: the message says which, and who is waited for, or where.
        """
        self._membership.move(self.name, to, timeout)

    def close(self) -> None:
        """End the channel and all that is derived from it, behind what was published."""
        self._membership.close_channel(CloseChannel(self.name))

    @property
    def _address(self) -> str | None:
        return self._membership.address

    def __repr__(self) -> str:
        origin = f" derived from {self.parent!r}" if self.parent else ""
        return f"<channel {self.name!r} of {self.type.name}{origin}>"
