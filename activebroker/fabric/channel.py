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
from activebroker.protocol.requests import (
    CloseChannel,
    Derive,
    OpenSupplier,
    Subscribe,
    Unsubscribe,
)
from activebroker.runtime import EventQueue, Gap, PublishBuffer, SlowPolicy, WhenSlow
from activebroker.spark import SparkPlace
from predicate_extract import Extraction


class Channel(Bound):
    """A named stream of events. Get it from `fabric.channel(name, type)` or
    `channel.derive(filter)`.

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
        self._derived: tuple[FilterSpec, EventType] | None = None  # set by `derive`

    @property
    def errors(self) -> FailureLog:
        """The events that this channel's filter lost by raising. Only in the process that derived
        it."""
        return self._membership.failures(self.name)

    def supplier(self, name: str | None = None) -> Supplier:
        """Open a supplier. Raises NameTaken, Closed, or, on a derived channel, InvalidFilter."""
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

        With a callback, a thread calls it for each event; otherwise iterate over the subscription.
        `timeout`: see Subscription.

        `when_slow` says what happens when this consumer does not keep up:

        - "block": its suppliers wait, and with them all their consumers.
        - "drop_oldest", "drop_newest": at most `keep` events wait, and the oldest or the newest of
          them are dropped. `subscription.dropped` counts these, and the iterating thread calls
          `on_gap` with a Gap at the point where they are missing.
        - "disconnect": as "block", but the subscription is cut off when an event has waited for
          `patience` seconds. Iteration then raises SlowConsumer, after the events that have come.

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
                membership.tell(Unsubscribe(self.name, inlet))  # it may still be carried out
                raise
            subscription = Subscription(membership, self.name, inlet, events, callback, timeout)
            return membership.remember(subscription)

        return membership.steadily(subscribe)

    def derive(
        self,
        filter: object,
        *,
        at: str | SparkPlace = "supplier",
        name: str | None = None,
        keep: bool = False,
        lease: float | None = None,
    ) -> Channel:
        """Make a channel of the events that a filter forwards.

        `filter` is a FIFOFilter class, `(class, args…)`, an instance, or a function of the content
        that returns whether to forward it. Such a function must not change the content, since
        functions in one process are given the same objects.

        `at` is where the filter runs: "supplier", "consumer" (this process), a broker's name, or a
        SparkPlace; "spark" is SparkPlace(). If a process cannot run the filter at "supplier", it
        runs in this process, or at the next place that can.

        The channel lives as long as this process is in the fabric or the channel has consumers
        (subscriptions or derived channels), and `lease` seconds more, by default those of the
        fabric. With `keep` it lives until it is closed.

        Raises InvalidFilter, FilterNotPicklable, UnknownField, EventTypeError, UnknownPlace,
        NameTaken, Closed, and PayloadRefused if the place cannot run the filter.
        """
        membership = self._membership
        seconds = None if keep else membership.lease if lease is None else lease
        spec = FilterSpec.of(filter)
        input_type = spec.input_type(self.type)
        extraction = analyse(spec, input_type)
        envelope = pack(spec, input_type, extraction, key=membership.signing_key)
        # So that events come as instances of this class, wherever the filter runs.
        membership.register(spec.output_type(input_type))
        known = membership.derive_channel(
            Derive(self.name, name, envelope, membership.place(at), membership.node, seconds)
        )
        channel = Channel(membership, *known, extraction)
        channel._derived = spec, input_type
        return channel

    def reconfigure(self, *, timeout: float = 10.0, **values: object) -> None:
        """Set parameters of this channel's filter while events flow: attributes that its class
        names in `parameters`. Call it on the channel that `derive` returned.

        Returns when the filter has the new values. At each place the old values decide about the
        events up to one point, and the new values about those after it. The predicate changes with
        them, also upstream. The filter's state stays.

        Raises InvalidFilter, FilterNotPicklable, and ReconfigurationFailed: the message says
        whether the filter stays as it was, does not have the values yet after `timeout` seconds, or
        has them only at some of its suppliers.
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

    def move(self, to: str | SparkPlace, *, timeout: float = 30.0) -> None:
        """Move this channel's filter to another place while events flow.

        Returns when the filter runs at the new place. Consumers see every event once and in order.

        Raises UnknownPlace and MoveFailed. The message says whether the filter stays where it was;
        or the switch-over is overdue after `timeout` seconds, and which processes it waits for; or
        a process was lost during it, and where the filter goes on.
        """
        membership = self._membership
        membership.move(self.name, membership.place(to), timeout)

    def close(self) -> None:
        """End the channel and all that is derived from it, after what was published."""
        self._membership.close_channel(CloseChannel(self.name))

    @property
    def _address(self) -> str | None:
        return self._membership.address

    def __repr__(self) -> str:
        origin = f" derived from {self.parent!r}" if self.parent else ""
        return f"<channel {self.name!r} of {self.type.name}{origin}>"
