"""The fabric: the connected brokers and processes that a program uses."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa

from activebroker.balancing.splitting import split_moves
from activebroker.core.errors import (
    ActiveBrokerError,
    MoveFailed,
)
from activebroker.events import EventType, describe, type_of
from activebroker.fabric.balancing import Balancing
from activebroker.fabric.bound import Bound
from activebroker.fabric.channel import Channel
from activebroker.fabric.closing import Closing
from activebroker.fabric.hosting import EmbeddedHost, Host, JoinedHost
from activebroker.fabric.membership import PATIENCE, Membership
from activebroker.protocol.requests import OpenChannel, TellStory
from derivation.balance import Balance, Policy

log = logging.getLogger(__name__)
LEASE = 60.0  # seconds that a derived channel lives without its owner and without consumers


class Fabric(Closing, Bound):
    """The connected brokers and processes. Use it as a context manager, or call `close`.

    `Fabric()` is embedded: all of it runs in this process, without sockets or servers.
    `connect(address)` joins a fabric that runs elsewhere, and `ray_deploy.RayFabric` starts one on
    a Ray cluster; all three have the same methods.

    `brokers` are names of places where filters can run; in an embedded fabric each is a thread.
    `lease` is how many seconds a channel derived here lives without this process and without
    consumers.
    """

    def __init__(
        self,
        brokers: Iterable[str] = (),
        *,
        host: Host | None = None,
        lease: float = LEASE,
        reconnect: bool = False,
    ) -> None:
        self._membership = Membership(host or EmbeddedHost(brokers), lease, reconnect)
        self._balancings: list[Balancing] = []
        atexit.register(self.close)

    @property
    def node(self) -> str:
        """The name of this process in the fabric."""
        return self._membership.node

    @property
    def address(self) -> str | None:
        """The address for `connect(address, key)`; None for an embedded fabric."""
        return self._membership.address

    def channel(self, name: str, type: type | pa.Schema | None = None) -> Channel:
        """Open a channel; it is created with the first type given.

        `type` is a dataclass, a `pyarrow.Schema`, or `object` for any picklable content. Without it
        the channel must exist. Processes may have different versions of a class, if all fields that
        these do not share have defaults; events come with the fields of the reader's version.

        Raises UnknownChannel, ChannelTypeConflict, EventTypeError, Closed.
        """
        event_type: EventType | None = None
        if type is not None:
            event_type = type_of(type)
            self._membership.register(event_type)
        opening = OpenChannel(name, None if event_type is None else describe(event_type))
        channel = Channel(self._membership, *self._membership.open_channel(opening))
        if event_type is not None and event_type != channel.type:
            channel.type = event_type  # this process's version
        return channel

    def status(self, *, timeout: float = PATIENCE) -> dict[str, Any]:
        """Members, channels, and every node's counters, as plain data."""
        status: dict[str, Any] = msgspec.to_builtins(self._membership.status(timeout))
        return status

    def story(self, channel: Channel | str) -> dict[str, Any]:
        """How the last move or offload of a channel, or of an earlier one of its name, went or
        goes, as plain data.

        `lines` say in order what each process was told, at which second of the move (`at`), and
        what it did. `silent` has the processes that did not answer, and why: a process that is gone
        takes its part of the story with it.

        Raises UnknownChannel if no recent move of the channel is known.
        """
        name = channel.name if isinstance(channel, Channel) else channel
        story: dict[str, Any] = msgspec.to_builtins(self._membership.request(TellStory(name)))
        return story

    def split(self, broker: str, *, to: str, timeout: float = 30.0) -> list[str]:
        """Move filters from one broker to another while events flow, so that half the work moves.

        Filters that were placed at `broker` move one after the other, dependants first, with the
        filters that run beside them at "supplier". Their work is what they have done since they
        came there; if none has done anything, all count the same. `timeout` is for each move, as in
        `Channel.move`.

        Returns the names of the channels that moved, in order. The list is empty if no move would
        help, as with a single filter.

        Raises UnknownPlace, and MoveFailed if a move fails; then no others follow, and the message
        says which channels had moved and which were left.
        """
        moves = split_moves(self._membership.status(), broker, to)
        moved: dict[str, None] = {}  # some move twice
        for move in moves:
            try:
                self._membership.move(move.channel, move.to, timeout)
            except ActiveBrokerError as error:
                asked = (*moved, move.channel)
                left = dict.fromkeys(each.channel for each in moves if each.channel not in asked)
                raise MoveFailed(
                    f"{broker!r} was not split to the end, since channel {move.channel!r} did not "
                    f"move to {move.to!r}: {error} Moved to {to!r} before: {_listed(moved)}. "
                    f"Left where they were: {_listed(left)}."
                ) from error
            moved[move.channel] = None
        return list(moved)

    def stop_broker(self, name: str) -> None:
        """Let a broker leave the fabric, and end its process; its filters go on at others.

        Raises UnknownPlace, also for the broker with the directory, and DeadlineExceeded.
        """
        self._membership.stop_broker(name)

    def balance(
        self, policy: Policy | None = None, *, period: float = 5.0, timeout: float = 30.0
    ) -> Balancing:
        """Let filters move between brokers by themselves until the `with` block ends.

        Every `period` seconds the policy is given the load of each broker's filters, and what it
        decides is carried out while events flow. The default, `Balance()`, relieves brokers whose
        filters take more than 0.8 of a CPU, and empties idle ones. Only one process of a fabric
        should balance it at a time. `timeout` is for each move, as in `Channel.move`.

        Raises ValueError, TypeError.
        """
        balancing = Balancing(self._membership, policy or Balance(), period, timeout)
        self._balancings.append(balancing)
        return balancing

    def close(self) -> None:
        """Deliver what was published, then end all threads, sockets and processes of this fabric.

        Waits while consumers take something; if they do not, it takes at most 10 seconds. When all
        has ended, it raises what a callback has raised, or what a supplier's `close` has raised if
        events were lost.
        """
        try:
            self._membership.close(self._balancings)
        finally:
            atexit.unregister(self.close)

    @property
    def _address(self) -> str | None:
        return self.address

    def __repr__(self) -> str:
        return f"<fabric of {self.node!r}>"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def connect(
    address: str,
    key: str | None = None,
    *,
    name: str | None = None,
    listen: bool = True,
    lease: float = LEASE,
    reconnect: bool = True,
) -> Fabric:
    """Join a running fabric at `tcp://host:port`, the address of any of its brokers.

    `key` is the fabric's key; for a fabric on this machine, the default is the user's key file.
    `name` is this process's name in the fabric. With `listen=False` this process dials the others,
    which cannot dial it (a device behind a NAT). `lease` is how many seconds a channel derived here
    lives without this process and without consumers.

    With `reconnect`, this process joins the fabric again when it has lost it (because its broker
    restarts, the network is cut, or the machine sleeps). Until then publishing and iterating wait.
    Suppliers, subscriptions and derived channels go on; filters start with a new state. Without
    `reconnect` they raise Unreachable.

    Raises Unreachable, AccessDenied, NameTaken.
    """
    host = JoinedHost(address, key, name=name, listen=listen)
    return Fabric(host=host, lease=lease, reconnect=reconnect)
