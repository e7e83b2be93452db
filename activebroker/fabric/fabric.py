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
from activebroker.protocol.messages import OpenChannel, TellStory
from derivation.balance import Balance, Policy

log = logging.getLogger(__name__)
LEASE = 60.0  # seconds that a derived channel lives without its owner or anybody who takes it


class Fabric(Closing, Bound):
    """`Fabric()` is embedded: all of it runs in this process, without sockets or servers.

    `brokers` are names of places where filters can run; in an embedded fabric each is a thread.
    `lease`: seconds that a channel derived here lives without this process or anybody who takes it.
    `connect(address)` joins a fabric that runs elsewhere, `ray_deploy.RayFabric` starts one on a
    Ray cluster; all three have the same methods. Use it as a context manager, or call `close`.
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
        """Where other processes join, by `connect(address, key)`; None for an embedded fabric."""
        return self._membership.address

    def channel(self, name: str, type: type | pa.Schema | None = None) -> Channel:
        """Open a channel; it is created with the first type given.

        `type` is a dataclass, a `pyarrow.Schema`, or `object` for any picklable content. Without it
        the channel must exist. Processes may have several versions of a class, where all fields
        that they do not share have defaults: events come with the reader's fields. Raises
        UnknownChannel, ChannelTypeConflict, EventTypeError, Closed.
        """
        event_type: EventType | None = None
        if type is not None:
            event_type = type_of(type)
            self._membership.register(event_type)
        opening = OpenChannel(name, None if event_type is None else describe(event_type))
        channel = Channel(self._membership, *self._membership.open_channel(opening))
        if event_type is not None and event_type != channel.type:
            channel.type = event_type  # another version of it
        return channel

    def status(self, *, timeout: float = PATIENCE) -> dict[str, Any]:
        """Members, channels, and every node's counters, as plain data."""
        status: dict[str, Any] = msgspec.to_builtins(self._membership.status(timeout))
        return status

    def story(self, channel: Channel | str) -> dict[str, Any]:
        """How the last move or offload of a channel, or one of its name, went or goes, as plain
        data.

        `lines` tell in order what each party was told, at which second of it (`at`), and what it
        did; `silent` names the parties that could not be asked, and why: a process that is gone
        takes its part of the story with it.

        Raises UnknownChannel where the channel is none of those that moved last.
        """
        name = channel.name if isinstance(channel, Channel) else channel
        story: dict[str, Any] = msgspec.to_builtins(self._membership.request(TellStory(name)))
        return story

    def split(self, broker: str, *, to: str, timeout: float = 30.0) -> list[str]:
        """Move filters from one broker to another while events flow, so that half the work goes.

        Those that were placed at `broker` move one after the other, dependants first, with what
        runs beside them at "supplier". Their work is what they have done since they came there;
        where none has done anything, all count the same. Returns the names of the channels that
        moved, in order: empty where no move would help, as with a single filter.

        Raises UnknownPlace; MoveFailed where a move fails, which is the last one then: the message
        says which channels had moved and which were left. `timeout`: of each, as of `move`.
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

    def balance(
        self, policy: Policy | None = None, *, period: float = 5.0, timeout: float = 30.0
    ) -> Balancing:
        """Let filters move between brokers by themselves until the `with` block ends.

        Every `period` seconds the policy is told what each broker's filters ask for, and what it
        decides is carried out while events flow. The default, `Balance()`, relieves brokers whose
        filters take more than 0.8 of a CPU, and empties idle ones. One process of a fabric at a
        time should do it. `timeout`: of each move, as of `move`. Raises ValueError, TypeError.
        """
        balancing = Balancing(self._membership, policy or Balance(), period, timeout)
        self._balancings.append(balancing)
        return balancing

    def close(self) -> None:
        """Deliver what was published, then end every thread, socket and process of ours.

        Waits while consumers take something; where they do not, it takes 10 seconds at most. Raises
        what a callback has raised, and what a supplier's `close` raises where events were lost,
        after all else has ended.
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

    `key` is the fabric's key; on this machine the user's own key file serves without one.
    `name` is this process's name in the fabric. `listen=False` where others cannot dial this
    process (a device behind a NAT): it then dials them. `lease`: seconds that a channel derived
    here lives when this process is gone and nobody takes it.

    `reconnect`: when the fabric is lost (its broker restarts, the network is cut, the machine
    sleeps), it is joined again as soon as that can be; until then publishing and iterating wait.
    Suppliers, subscriptions and derivations go on, filters with a new state. Without it they raise
    Unreachable.
    Raises Unreachable, AccessDenied, NameTaken.
    """
    host = JoinedHost(address, key, name=name, listen=listen)
    return Fabric(host=host, lease=lease, reconnect=reconnect)
