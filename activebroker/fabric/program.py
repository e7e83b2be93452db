"""What this process has in its fabric, so that it can be made there again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import structs

from activebroker.core.errors import (
    ActiveBrokerError,
    DeadlineExceeded,
    NameTaken,
    UnknownChannel,
    UnknownPlace,
    Unreachable,
)
from activebroker.protocol.messages import CallBody
from activebroker.protocol.requests import Derive, OpenChannel, OpenSupplier, Subscribe
from activebroker.runtime import EventQueue, PublishBuffer, Runtime

log = logging.getLogger(__name__)
PATIENCE = 60.0  # seconds that the directory may take to answer
RETURNING = 10.0  # seconds for the brokers of a fabric that has restarted to join it again
LOOK_UP = 0.1  # seconds between attempts


class Program:
    """The channels, filters, subscriptions and suppliers of this process, as it asked for them."""

    def __init__(self) -> None:
        self.suppliers: dict[int, PublishBuffer] = {}
        self.subscriptions: dict[int, EventQueue] = {}  # by inlet
        self._opened: dict[str, OpenChannel] = {}
        self._derived: dict[str, Derive] = {}  # parents before children
        self._parents: dict[str, str | None] = {}

    def knows(self, channel: str, parent: str | None) -> None:
        self._parents[channel] = parent

    def opened(self, opening: OpenChannel) -> None:
        self._opened[opening.name] = opening

    def derived(self, channel: str, deriving: Derive) -> None:
        self._derived[channel] = structs.replace(deriving, name=channel)

    def changed(self, channel: str, **how: Any) -> None:
        """A filter that was derived here has another place, or other parameters."""
        if (known := self._derived.get(channel)) is not None:
            self._derived[channel] = structs.replace(known, **how)

    def closed(self, channel: str) -> None:
        """A channel was closed, with all that is derived from it."""
        for laid in (self._opened, self._derived):
            for name in [each for each in laid if channel in self.above(each)]:
                del laid[name]

    def above(self, channel: str) -> Iterator[str]:
        """A channel and those that it is derived from, as far as they are known here."""
        name: str | None = channel
        while name is not None:
            yield name
            name = self._parents.get(name)

    def lay(self, runtime: Runtime) -> None:
        """Make all of it in the fabric of this runtime. Subscriptions and suppliers that the fabric
        refuses end with the reason.

        Consumers come before suppliers, so that they miss nothing that is published next.

        Raises Unreachable and DeadlineExceeded.
        """
        for opening in self._opened.values():
            _ask(runtime, opening, lambda error: log.error("%s", error))
        until = time.monotonic() + RETURNING
        for deriving in self._derived.values():
            # Its broker may have lost the fabric, too, and not be back yet.
            _insist(runtime, deriving, UnknownPlace, until, _underived)
        for inlet, queue in list(self.subscriptions.items()):
            runtime.open_inlet(inlet, queue)
            subscribing = Subscribe(queue.channel, runtime.name, inlet)
            if (since := queue.since) is None:
                _ask(runtime, subscribing, queue.end)
                continue
            since = structs.replace(since, had=runtime.received(inlet))
            subscribing = structs.replace(subscribing, since=since)
            # The process that has made the log may not be back yet.
            _insist(runtime, subscribing, UnknownChannel, until, queue.end)
        for buffer in list(self.suppliers.values()):
            opening_one = OpenSupplier(buffer.channel, buffer.supplier, runtime.name)
            outlet = _ask(runtime, opening_one, buffer.fail)
            if outlet is not None:
                runtime.publish_to(outlet, buffer)

    def give_up(self, error: ActiveBrokerError) -> None:
        """End everything: it will not be made again."""
        for queue in list(self.subscriptions.values()):
            queue.end(error)
        for buffer in list(self.suppliers.values()):
            buffer.fail(error)


def _ask(runtime: Runtime, body: CallBody, refused: Callable[[ActiveBrokerError], object]) -> Any:
    try:
        return runtime.request(body, PATIENCE)
    except (Unreachable, DeadlineExceeded):
        raise
    except ActiveBrokerError as error:
        refused(error)
        return None


def _insist(
    runtime: Runtime,
    body: CallBody,
    passing: type[ActiveBrokerError],
    until: float,
    refused: Callable[[ActiveBrokerError], object],
) -> None:
    """Ask again until a monotonic time, as long as the answer is an error that may pass."""
    while True:
        refusals: list[ActiveBrokerError] = []
        _ask(runtime, body, refusals.append)
        if not refusals:
            return
        if not isinstance(refusals[0], passing) or time.monotonic() > until:
            refused(refusals[0])
            return
        time.sleep(LOOK_UP)


def _underived(error: ActiveBrokerError) -> None:
    if isinstance(error, NameTaken):
        log.info("a derived channel has outlived the connection: %s", error)
    else:
        log.error("a filter cannot be derived again: %s", error)
