"""Processes that have lost their fabric and join it again, with all that they had there.

What `activebroker.fabric` does in threads, in the same order: a node departs; its successor joins
under the same name; filters are derived, subscriptions made, suppliers opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from activebroker.core.errors import ActiveBrokerError, DeadlineExceeded, Unreachable
from activebroker.node.effects import InletOpened, Legacy
from activebroker.protocol.messages import CallBody
from activebroker.protocol.requests import OpenSupplier, Subscribe
from activebroker.simulation.host import Host
from activebroker.simulation.users import Users

AGAIN = 1.0  # seconds between attempts

Asked = tuple[CallBody, Callable[[Any], None], Callable[[ActiveBrokerError], None]]


class Rejoining:
    """The second and later lives of processes. `users` have what is laid there."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self._world = users.world

    def departed(self, host: Host, left: Legacy) -> None:
        """A node has left behind all that it had: its process joins again."""
        world = self._world
        world.counts["hosts departed"] += 1
        world.note("fault", host.name, "departs")
        for supplier in self._users.suppliers:
            if supplier.host is host and supplier.supply is not None:
                name = supplier.channel.name
                supplier.supply.put_back(left.unacknowledged_of(name, supplier.name))
        world.end_process(host)
        host.rejoining = True
        self._later(host, left)

    def _later(self, host: Host, left: Legacy) -> None:
        self._world.soon(AGAIN, lambda _: self._attempt(host, left))

    def _attempt(self, before: Host, left: Legacy) -> None:
        world = self._world

        def granted(_: object) -> None:
            host = world.restart(before.name, left)
            host.rejoining = True
            self._users.moved(before, host)
            self._ask_next(host, left, self._laid(host, left), joining=True)

        world.claim(before.name, granted, lambda: self._later(before, left), again=True)

    def _ask_next(
        self, host: Host, left: Legacy, laid: Iterator[Asked], joining: bool = False
    ) -> None:
        """One thing after the other; a process that loses its fabric meanwhile begins anew."""
        if not host.alive:
            return
        asked = next(laid, None)
        if asked is None:
            host.rejoining = False
            self._world.counts["hosts back"] += 1
            return
        body, on_result, on_error = asked

        def done(result: Any) -> None:
            on_result(result)
            self._ask_next(host, left, laid)

        def failed() -> None:
            error = answer.error
            assert error is not None
            if joining or isinstance(error, Unreachable | DeadlineExceeded):
                self._give_up(host, left, str(error))
                return
            on_error(error)
            self._ask_next(host, left, laid)

        answer = host.request(body, done, failed)

    def _give_up(self, host: Host, left: Legacy, reason: str) -> None:
        """An attempt has failed: leave behind what this node has, and what those before had."""
        if host.alive:
            self.departed(host, left.then(host.node.departed(reason)))

    def _laid(self, host: Host, left: Legacy) -> Iterator[Asked]:
        """What is asked of the fabric, in order."""
        users = self._users
        yield host.joining(), lambda _: setattr(host, "joined", True), lambda _: None
        for channel in users.channels:
            if channel.owner is host and channel.request is not None and not channel.closed:
                yield channel.request, lambda _: None, lambda _: None
        for consumer in users.consumers:
            if consumer.host is host and consumer.waits and not consumer.intake.ended:
                yield self._subscription(host, consumer, left)
        for supplier in users.suppliers:
            if supplier.host is host and supplier.supply is not None and not supplier.over:
                yield self._supplier(host, supplier)

    def _subscription(self, host: Host, consumer: Any, left: Legacy) -> Asked:
        inlet, intake = consumer.inlet, consumer.intake
        host.intakes[inlet] = intake
        host.give(InletOpened(inlet, left.received.get(inlet, {})))

        def subscribed(_: object) -> None:
            consumer.gaps += 1
            consumer.back = consumer.channel.content.lengths()
            consumer.absent |= self._users.absent(consumer.channel.root)

        def refused(error: ActiveBrokerError) -> None:
            intake.ended, intake.error = True, error

        return Subscribe(consumer.channel.name, host.name, inlet), subscribed, refused

    def _supplier(self, host: Host, supplier: Any) -> Asked:
        def opened(outlet: int) -> None:
            supplier.outlet = outlet
            host.supplies[outlet] = supplier.supply
            self._users.is_back(supplier)
            host.pump(outlet)

        def refused(error: ActiveBrokerError) -> None:
            supplier.closed = True

        return OpenSupplier(supplier.channel.name, supplier.name, host.name), opened, refused
