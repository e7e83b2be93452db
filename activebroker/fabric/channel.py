"""A channel: suppliers put events in, consumers subscribe, filters derive new channels."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath

from activebroker.core.errors import InvalidFilter, InvalidName, InvalidSubscription
from activebroker.events import Event, EventType
from activebroker.fabric.bound import Bound
from activebroker.fabric.callbacks import check_callback
from activebroker.fabric.failures import FailureLog
from activebroker.fabric.membership import Membership
from activebroker.fabric.since import Since, place
from activebroker.fabric.subscription import Subscription
from activebroker.fabric.supplier import Supplier
from activebroker.filters import FIFOFilter, FilterSpec, analyse, pack
from activebroker.protocol.requests import (
    CloseChannel,
    Derive,
    FindLog,
    OpenSupplier,
    Subscribe,
    Unsubscribe,
)
from activebroker.protocol.specs import LogSpec
from activebroker.runtime import EventQueue, Gap, PublishBuffer, SlowPolicy, WhenSlow
from activebroker.spark import SparkPlace
from predicate_extract import Extraction

MOST_STREAM = 1 << 48  # all that fabrics number themselves are higher


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

    def supplier(self, name: str | None = None, *, stream: int | None = None) -> Supplier:
        """Open a supplier.

        With `stream`, a number of your choice below 2 to the power of 48, it goes on with a stream
        that a supplier of this name may have begun before: a log drops the events that it has, by
        their sequence numbers. See `Supplier.publish_batch`.

        Raises NameTaken, Closed, or, on a derived channel, InvalidFilter.
        """
        if stream is not None and not 0 <= stream < MOST_STREAM:
            raise InvalidName(f"A stream is a number from 0 to 2^48 - 1, got {stream!r}.")
        membership = self._membership
        name = name or membership.new_name()
        buffer = PublishBuffer(self.name, name, self.type)

        def open_supplier() -> Supplier:
            outlet = membership.request(OpenSupplier(self.name, name, membership.node, stream))
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
        since: Since | None = None,
        until: int | None = None,
        follow: bool = True,
    ) -> Subscription:
        """Take events: all that are published after this call has returned; with `since`, also
        earlier ones, which the channel's log has (see `log`).

        `since` is a position in the log (0: all that is left), a datetime (from the first event
        that was published then or later), or the first sequence number that is wanted of each
        supplier, `{"NYSE": 41}`; of suppliers that are not named, all events come. What is in the
        log comes first, and then, without a gap or a repetition, what is published. With `until`,
        a position, or without `follow`, which stands for the position that the log has now,
        iteration ends there.

        With a callback, a thread calls it for each event; otherwise iterate over the subscription.
        `timeout`: see Subscription.

        `when_slow` says what happens when this consumer does not keep up:

        - "block": its suppliers wait, and with them all their consumers.
        - "drop_oldest", "drop_newest": at most `keep` events wait, and the oldest or the newest of
          them are dropped. `subscription.dropped` counts these, and the iterating thread calls
          `on_gap` with a Gap at the point where they are missing.
        - "disconnect": as "block", but the subscription is cut off when an event has waited for
          `patience` seconds. Iteration then raises SlowConsumer, after the events that have come.

        Raises InvalidSubscription, Closed; iteration raises NotInLog if the events that come next
        are no longer kept.
        """
        if since is None and (until is not None or not follow):
            raise InvalidSubscription("until and follow are about a log: give since, too.")
        start = None if since is None else place(since, until, follow)
        policy = SlowPolicy(when_slow, keep, patience, on_gap)
        if callback is not None:
            check_callback(callback)
        membership = self._membership
        inlet = membership.new_inlet()
        events = EventQueue(self.name, self.type, policy, start)

        def subscribe() -> Subscription:
            membership.open_inlet(inlet, events)
            try:
                events.channel = membership.request(
                    Subscribe(self.name, membership.node, inlet, start)
                )
            except BaseException:  # Ctrl-C, too: nobody would take what comes
                membership.close_inlet(inlet)
                membership.tell(Unsubscribe(self.name, inlet))  # it may still be carried out
                raise
            subscription = Subscription(membership, inlet, events, callback, timeout)
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
        known = membership.at_place(
            at,
            lambda place: membership.derive_channel(
                Derive(self.name, name, envelope, place, membership.node, seconds)
            ),
        )
        channel = Channel(membership, *known, extraction)
        channel._derived = spec, input_type
        return channel

    def log(
        self,
        path: str | PathLike[str],
        *,
        at: str,
        name: str | None = None,
        segment_bytes: int = 64 << 20,
        keep_bytes: int | None = None,
        keep_seconds: float | None = None,
    ) -> Channel:
        """Keep this channel's events on the disk of a broker, in the directory `path` there.

        The channel that this returns, "NAME.log" if it gets no `name`, has the same events, each as
        soon as it is on disk; so they can be had later, or again: see `subscribe(since=...)`. To
        suppliers, an event counts as taken over when it is on disk. While the broker is away, they
        wait, as for any consumer that blocks.

        The log consists of files of about `segment_bytes`. The oldest of them are deleted as long
        as those that are left have `keep_bytes`, and when all their events are older than
        `keep_seconds`. A log that exists is continued. It belongs to its directory: the channel
        lives until it is closed, and the log goes on when a channel is logged there again.

        Raises InvalidFilter, UnknownPlace, NameTaken, Closed, and PayloadRefused if the log cannot
        be opened.
        """
        if segment_bytes < 4096 or not _positive(keep_bytes) or not _positive(keep_seconds):
            raise InvalidFilter(
                "A log has segments of 4,096 bytes at least, and keeps a positive number of bytes "
                f"and seconds, or None for all; got segment_bytes={segment_bytes!r}, "
                f"keep_bytes={keep_bytes!r}, keep_seconds={keep_seconds!r}."
            )
        membership = self._membership
        spec = FilterSpec.of(_All)
        extraction = analyse(spec, self.type)
        envelope = pack(spec, self.type, extraction, key=membership.signing_key)
        log = LogSpec(fspath(path), segment_bytes, keep_bytes, keep_seconds)
        name = name or f"{self.name}.log"
        known = membership.derive_channel(
            Derive(self.name, name, envelope, at, membership.node, None, log)
        )
        return Channel(membership, *known, extraction)

    def positions(self) -> range:
        """The positions of the events that the channel's log has.

        Raises InvalidSubscription if it has none, and Unreachable while its broker is away.
        """
        return range(*self._membership.request(FindLog(self.name)))

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
        membership.at_place(to, lambda place: membership.move(self.name, place, timeout))

    def close(self) -> None:
        """End the channel and all that is derived from it, after what was published."""
        self._membership.close_channel(CloseChannel(self.name))

    @property
    def _address(self) -> str | None:
        return self._membership.address

    def __repr__(self) -> str:
        origin = f" derived from {self.parent!r}" if self.parent else ""
        return f"<channel {self.name!r} of {self.type.name}{origin}>"


class _All(FIFOFilter):
    """What a log wants."""

    def enqueue(self, event: Event) -> None:
        super().enqueue(event)


def _positive(limit: float | None) -> bool:
    return limit is None or limit > 0
