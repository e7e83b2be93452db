"""What a death may cost. The one place that says so; everything else holds without exception."""

from __future__ import annotations

from activebroker.core.errors import (
    ActiveBrokerError,
    DeadlineExceeded,
    MoveFailed,
    ReconfigurationFailed,
    UnknownChannel,
    Unreachable,
    flatten,
)
from activebroker.directory.context import PATIENCE
from activebroker.node.dataplane.inlet import LOST
from activebroker.simulation import edge
from activebroker.simulation.reference import Deadly
from activebroker.simulation.scenario import SHORT, Scenario
from activebroker.simulation.users import Channel, Consumer, Supplier
from activebroker.simulation.world import World

_AGAIN = "Connect again."  # whose process was taken for lost, and nobody else, is told so
# What users are told in scenarios without faults, each for a good reason.
_REFUSALS = (
    "was closed",
    "is shared",
    "is a log",
    "has no supplier",
    "first.",  # a channel derived from it at 'supplier' has to move first
    "has handed",  # its fan-out, or a filter that is to move to it
    "An offload of some consumers needs",
    "ModuleNotFoundError: planted",  # at the host that can load no filter
)
_COSTS = (edge.PLANTED,)  # and where something failed at an edge
# Nobody can load its filter, or takes it in time; with a supervisor there is somebody.
_NOWHERE_NOW = "could not go on"
_NOWHERE = "no place for it but the directory's"
_QUARANTINE = "is in quarantine"  # only a filter that kills its hosts, and what is derived from it
LONG = 10.0  # seconds of patience that no move uses up where nothing fails
SLOW = 0.2  # seconds of delay of which late frames take ten times as much


class Allowance:
    """A process that was taken for lost after a silence is as good as dead.

    Once a process has died, a subscription may end with `Unreachable` for one of the reasons in
    `end`, and any request may be refused. Of a supplier whose own process died events may be
    missing from some point on; never in between, twice, or in another order.

    Where frames are lost, or late, or a process is silent, for about as long as the directory waits
    for an answer, it may have waited in vain.
    """

    def __init__(self, world: World, scenario: Scenario) -> None:
        self._world = world
        self._supervised = scenario.options.supervised > 0
        self._patient = scenario.options.patience >= LONG and not scenario.faults
        # What is lost is asked for once a second, and may be lost ten times; what is late on a slow
        # route is late by two seconds, and the answers to it may be late as well.
        options = scenario.options
        late = options.slowest >= SLOW and (options.straggling > 0 or options.reordering > 0)
        silent = any(fault.do != "crash" and fault.seconds > SHORT for fault in scenario.faults)
        self._slow = silent or (scenario.length > PATIENCE and (options.loss > 0 or late))

    def refusal(self, error: ActiveBrokerError) -> bool:
        """Whether a request may be answered with this error."""
        if type(error) is ActiveBrokerError:
            return False  # a fault of the directory itself
        if self._world.costly and any(part in str(error) for part in _COSTS):
            return True
        failed = [repr(cost.channel) for cost in self._world.costly if cost.channel]
        if isinstance(error, UnknownChannel) and any(name in str(error) for name in failed):
            return True  # a split was drawn up with a filter that could not be loaded in the end
        if self._world.deaths or any(part in str(error) for part in _REFUSALS):
            return True
        if isinstance(error, DeadlineExceeded):
            return self._slow
        return isinstance(error, MoveFailed | ReconfigurationFailed) and not self._patient

    def end(self, consumer: Consumer) -> bool:
        """Whether a subscription may end as it did."""
        error = consumer.intake.error
        if error is None or explains(self._world, consumer, error):
            return True
        if not (self._world.deaths and isinstance(error, Unreachable)):
            return False
        if consumer.host.expelled and str(error).endswith(_AGAIN):
            return True
        if _QUARANTINE in str(error):
            # Where brokers do not come back, there may be no place but the directory's.
            nowhere = _NOWHERE in str(error) and not self._supervised
            return nowhere or consumer.channel.made_by(Deadly)
        if _NOWHERE_NOW in str(error):
            return not self._supervised
        return flatten(error) == LOST

    def cut(self, supplier: Supplier, channel: Channel) -> bool:
        """Whether the last of what the supplier handed over may be missing in a channel."""
        gone = not supplier.host.alive or supplier.host.expelled
        return supplier.channel is channel.root and gone


def explains(world: World, consumer: Consumer, error: ActiveBrokerError) -> bool:
    """Whether something that has failed at an edge is why a subscription has ended with an error,
    which says so."""
    channel, above = consumer.channel, list[str]()
    while channel.parent is not None:
        above.append(channel.name)
        channel = channel.parent
    return any(edge.explains(cost, consumer.inlet, above, error) for cost in world.costly)
