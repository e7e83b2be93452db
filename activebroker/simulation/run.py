"""Runs a scenario and tells its outcome."""

from __future__ import annotations

import logging
import random
import traceback
from functools import partial

from activebroker.directory.recoveries import LONGEST_WAIT
from activebroker.simulation import checkers
from activebroker.simulation.allowance import Allowance
from activebroker.simulation.faults import Faults
from activebroker.simulation.losses import losses
from activebroker.simulation.outcome import Outcome
from activebroker.simulation.rejoining import Rejoining
from activebroker.simulation.scenario import (
    BROKER_NAMES,
    HEAVY,
    SINK_NAMES,
    SOURCE_NAMES,
    TOUCHY,
    Scenario,
)
from activebroker.simulation.users import Users
from activebroker.simulation.world import Over, Stuck, World

DEEPEST = 5  # channels of which each is derived from the one before
PATIENCE = 90.0  # virtual seconds in which all that was asked for must end once nothing fails


def hush() -> None:
    """Keep this process's directories from telling operators of thousands of fabrics."""
    for part in ("activebroker.node", "activebroker.directory"):
        logging.getLogger(part).setLevel(logging.CRITICAL)


def run(scenario: Scenario, record: bool = True) -> Outcome:
    """Run a scenario; what breaks the contract is in the outcome, nothing is raised.

    Without `record` there is no history.
    """
    options = scenario.options
    names = (
        *BROKER_NAMES[: options.brokers],
        *SOURCE_NAMES[: options.sources],
        *SINK_NAMES[: options.sinks],
    )
    world = World(
        random.Random(scenario.seed),
        names,
        brokers=BROKER_NAMES,
        undialable=names[-1:] if options.undialable else (),
        options=options,
        record=record,
    )
    try:
        _play(world, scenario)
    except Over:
        pass
    except Stuck as stuck:
        world.violated("stuck", str(stuck))
    except Exception:  # noqa: BLE001 - whatever the core raises is what is looked for
        world.violated("crash", traceback.format_exc())
    return Outcome(
        scenario,
        tuple(world.violations),
        tuple(world.history),
        world.covered,
        world.counts,
        world.kinds.carried,
        world.digest,
    )


def _play(world: World, scenario: Scenario) -> None:
    world.begin()
    options = scenario.options
    users = Users(world, options)
    faults = Faults(world)
    world.rejoin = Rejoining(users).departed
    allowance = Allowance(world, scenario)
    users.open_roots()
    world.inspect = checkers.forgotten
    if options.blob >= HEAVY:
        sizes = (step.choice % TOUCHY for step in scenario.steps if step.do == "publish")
        largest = max(sizes, default=0)
        bound = largest * options.blob + 4096
        world.inspect = lambda host: (*checkers.forgotten(host), *checkers.bounds(host, bound))
    if options.refusing:
        world.refusing.add(BROKER_NAMES[options.brokers - 1])
    for step in scenario.steps:
        world.soon(step.at, partial(users.do, step))
    faults.plan(scenario.faults)
    world.run_for(scenario.length)
    faults.heal()
    _calm(world, users)
    if options.lease:
        world.run_for(DEEPEST * (options.lease + 1.0) + LONGEST_WAIT)
        _calm(world, users)
        world.violations += checkers.leases(users)
    asker = next(host for host in world.alive() if host.joined)
    for channel in users.channels:
        if channel.parent is None and not channel.ended:
            users.close_root(asker, channel)
    _calm(world, users)
    world.violations += checkers.endings(users, allowance)
    world.violations += checkers.deliveries(users, allowance)
    world.violations += losses(users)
    for consumer in users.consumers:
        if consumer.there:
            users.leave(consumer)
    _calm(world, users)
    for host in (*world.alive(), *world.ended):
        world.violations += checkers.nothing_left(host)
        world.violations += checkers.membership(host)


def _calm(world: World, users: Users) -> None:
    """Let all that is under way arrive, and every request be answered."""
    try:
        world.run_until(lambda: world.quiet() and not users.waiting() and world.agreed(), PATIENCE)
    except Stuck as stuck:
        raise Stuck(f"waiting: {', '.join(users.waiting())}; {stuck}") from None
