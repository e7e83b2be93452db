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
            error = _derive(runtime, deriving)
            while isinstance(error, UnknownPlace) and time.monotonic() < until:
                time.sleep(LOOK_UP)  # its broker has lost the fabric, too, and is not back yet
                error = _derive(runtime, deriving)
            if error is not None:
                _underived(error)
        for inlet, queue in list(self.subscriptions.items()):
            runtime.open_inlet(inlet, queue)
            _ask(runtime, Subscribe(queue.channel, runtime.name, inlet), queue.end)
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


def _derive(runtime: Runtime, deriving: Derive) -> ActiveBrokerError | None:
    refusals: list[ActiveBrokerError] = []
    _ask(runtime, deriving, refusals.append)
    return refusals[0] if refusals else None


def _underived(error: ActiveBrokerError) -> None:
    if isinstance(error, NameTaken):
        log.info("a derived channel has outlived the connection: %s", error)
    else:
        log.error("a filter cannot be derived again: %s", error)
