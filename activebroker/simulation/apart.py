"""Kinds of scenarios of which few are drawn: each has chance of its own, so that with another kind
all other seeds mean what they did before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from activebroker.simulation.scenario import (
    DEADLY,
    FROM_ITS_BEGIN,
    HEAVY,
    KEYED,
    LOGGED,
    RAISING,
    RECONFIGURED,
    SHORT,
    TOUCHY,
    Fault,
    FaultKind,
    Options,
    Scenario,
    Step,
)

STATELESS = (1, 5)  # of the filters that are derived: one that is exact, and one that is not
Drawn = tuple[tuple[Step, ...], tuple[Fault, ...]]


def vary(scenario: Scenario) -> Scenario:
    """The scenario, or one of a rare kind that is made of it."""
    seed, options = scenario.seed, scenario.options
    steps, faults = scenario.steps, scenario.faults
    rng = random.Random(f"rejoin {seed}")
    if rng.random() < 0.06 and options.blob < HEAVY:
        return rejoining(rng, scenario)
    rng = random.Random(f"modulate {seed}")
    if rng.random() < 0.12:
        more, deaths = reconfigurations(rng, options, steps)
        steps = _sorted(*steps, *more)
        if not any(fault.do == "crash" for fault in faults):
            faults = (*faults, *deaths)
    rng = random.Random(f"raising {seed}")
    if rng.random() < 0.12:
        steps = _sorted(*raising(rng, steps))
    rng = random.Random(f"owners {seed}")
    if rng.random() < 0.1:
        options = replace(options, lease=rng.choice((2.0, 15.0)))
        more, deaths = owners(rng, options, steps)
        steps, faults = _sorted(*steps, *more), (*faults, *deaths)
    elif rng.random() < 0.06:
        options = replace(options, supervised=rng.choice((0.1, 1.0, 3.0)), refusing=False)
        steps, faults = deadly(rng, options, steps), ()
    rng = random.Random(f"unreadable {seed}")
    reconfigured = any(step.do == "reconfigure" for step in steps)  # whose contents are many
    if rng.random() < 0.08 and not reconfigured:
        steps = _sorted(*unreadable(rng, options, steps))
    rng = random.Random(f"edge {seed}")
    if rng.random() < 0.08:
        faults = (*faults, *at_the_edge(rng, options, steps))
    rng = random.Random(f"leaving {seed}")
    if rng.random() < 0.12 and not options.supervised:
        more, departures = leaving(rng, options, steps)
        steps, faults = _sorted(*steps, *more), (*faults, *departures)
    rng = random.Random(f"logged {seed}")
    if rng.random() < 0.1 and not options.supervised:
        more, deaths = logged(rng, options, steps)
        steps, faults = _sorted(*steps, *more), (*faults, *deaths)
    rng = random.Random(f"noticed {seed}")
    if rng.random() < 0.25:
        options = replace(options, noticed=rng.choice((0.001, 0.05, 0.3)))
    rng = random.Random(f"keyed {seed}")
    # Of a supplier that dies, the end comes somewhere, with all that is due: nobody could tell.
    if rng.random() < 0.12 and not any(map(_may_be_death, faults)):
        steps = _sorted(*keyed(rng, steps))
    return Scenario(seed, options, steps, faults)


def _may_be_death(fault: Fault) -> bool:
    return fault.do in ("crash", "leave") or fault.seconds > SHORT


def _sorted(*steps: Step) -> tuple[Step, ...]:
    return tuple(sorted(steps, key=lambda step: step.at))


def reconfigurations(rng: random.Random, options: Options, steps: tuple[Step, ...]) -> Drawn:
    """A filter is given other parameters while events flow, once or more; its broker may die."""
    pick, last = rng.choice, steps[-1].at
    broker = rng.randrange(options.brokers)
    dies = rng.random() < 0.4

    def number() -> int:
        return rng.randrange(64)

    found = [
        Step(rng.uniform(0.0, 0.1), "derive", number(), pick((0, number())), number(), place)
        for place in pick(((1 + broker,), (number(),), (1 + broker, number())))
    ]
    found = [replace(each, choice=RECONFIGURED + each.choice) for each in found]
    found += [Step(rng.uniform(0.1, 0.2), "subscribe", number(), number()) for _ in range(2)]
    for _ in range(pick((1, 2, 2, 3))):
        at = rng.uniform(0.15, max(0.3, last))
        found.append(Step(at, "reconfigure", number(), number(), number()))
        for _ in range(pick((1, 2, 3))):
            over = options.slowest * pick((2, 10, 20))
            due = max(0.1, at - rng.random() * 2 * options.slowest)
            times = pick((2, 4, 8))
            found.append(Step(due, "publish", 0, number(), pick((1, 1, 2, 4)), 0, times, over))
    deaths = []
    if dies:
        at = max(each.at for each in found if each.do == "reconfigure")
        at += rng.uniform(0.0, 12 * options.slowest + 0.05)
        deaths.append(Fault(at, "crash", 1 + broker, seconds=pick((0.0, 0.05, 12.0))))
    return tuple(found), tuple(deaths)


def owners(rng: random.Random, options: Options, steps: tuple[Step, ...]) -> Drawn:
    """Processes that derive, or subscribe, die; others ask for the names of the living and dead."""
    last, first_sink = steps[-1].at, 1 + options.brokers + options.sources
    found = []
    for _ in range(rng.choice((1, 2, 3))):
        sink = first_sink + rng.randrange(options.sinks)
        at = rng.uniform(0.05, last + 0.1)
        found.append(Step(at, "derive", sink, *(rng.randrange(64) for _ in range(3))))
        if rng.random() < 0.4:
            found.append(Step(at + rng.random(), "subscribe", rng.randrange(64), rng.randrange(64)))
    faults = []
    for _ in range(rng.choice((1, 1, 2))):
        host = first_sink + rng.randrange(options.sinks)
        at, seconds = rng.uniform(0.2, last + 2.0), rng.choice((0.0, 0.0, 0.5, 2.0))
        faults.append(Fault(at, "crash", host, seconds=seconds))
    for _ in range(rng.choice((0, 1, 2))):
        faults.append(Fault(rng.uniform(0.2, last + 3.0), "claim", rng.randrange(64)))
    return tuple(found), tuple(faults)


def deadly(rng: random.Random, options: Options, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Filters that kill their brokers, and others beside them."""
    kept = ("open supplier", "publish", "subscribe", "derive", "unsubscribe")
    found = [step for step in steps if step.do in kept]
    for _ in range(rng.choice((1, 1, 2))):
        place = 1 + rng.randrange(options.brokers)  # no place but a broker's
        at = rng.uniform(0.0, 0.3)
        found.append(Step(at, "derive", rng.randrange(64), 0, DEADLY, place))
        beside = rng.randrange(64), rng.randrange(64), rng.randrange(64)
        found.append(Step(at + 0.1, "derive", *beside, place))
    for _ in range(rng.choice((1, 2, 3))):
        found.append(Step(rng.uniform(0.1, 0.5), "subscribe", rng.randrange(64), rng.randrange(64)))
    for _ in range(rng.choice((2, 4))):
        due = rng.uniform(0.3, 3.0)
        found.append(Step(due, "publish", 0, rng.randrange(64), rng.choice((1, 2, 4)), times=4))
    return tuple(sorted(found, key=lambda step: step.at))


def raising(rng: random.Random, steps: tuple[Step, ...]) -> Iterator[Step]:
    """Some filters have predicates that raise; most of them after a relay."""
    for step in steps:
        if step.do == "derive" and step.choice < RECONFIGURED and rng.random() < 0.7:
            step = replace(step, choice=RAISING)
        yield step
    if rng.random() < 0.7:
        at = rng.uniform(0.05, max(0.1, steps[-1].at))
        supplier, to = rng.randrange(64), rng.randrange(64)
        yield from offloads(Step(at, "offload", 0, supplier, place=to))


def keyed(rng: random.Random, steps: tuple[Step, ...]) -> Iterator[Step]:
    """Some filters have their state by key."""
    for step in steps:
        if step.do == "derive" and step.choice < RECONFIGURED and rng.random() < 0.7:
            step = replace(step, choice=KEYED)
        yield step


def offloads(step: Step) -> Iterator[Step]:
    """One of all that a supplier serves, or of some of it; and in some scenarios a second one."""
    some = (0, 0, 1, 1, 2)[step.object % 5]
    yield replace(step, choice=some)
    if step.place % 3 == 0:
        yield replace(step, at=step.at + 0.05, choice=2 - some, place=step.place + 1)


def unreadable(rng: random.Random, options: Options, steps: tuple[Step, ...]) -> Iterator[Step]:
    """Some batches have rows that cannot be decoded, and there is another, larger one."""
    for step in steps:
        if step.do == "publish" and rng.random() < 0.5:
            step = replace(step, choice=TOUCHY + step.choice)
        yield step
    at = rng.uniform(0.1, max(0.2, steps[-1].at))
    size = 20 if options.blob < HEAVY else 4
    yield Step(at, "publish", 0, rng.randrange(64), TOUCHY + size)


def at_the_edge(rng: random.Random, options: Options, steps: tuple[Step, ...]) -> Iterator[Fault]:
    """A host sends nonsense for a while, or cannot carry out what its node asks for."""
    last = max(0.3, steps[-1].at)
    for _ in range(rng.choice((1, 1, 2))):
        at, host, other = rng.uniform(0.0, last), rng.randrange(64), rng.randrange(64)
        if rng.random() < 0.4:
            seconds = rng.choice((0.01, 0.1, 1.0))
            yield Fault(at, "garble", host, seconds=seconds)
        else:
            yield Fault(at, "fail", host, other)


def leaving(rng: random.Random, options: Options, steps: tuple[Step, ...]) -> Drawn:
    """Brokers leave while events flow through what they have, and some come back."""
    pick, last = rng.choice, max(0.4, steps[-1].at)
    found, faults = [], []
    for _ in range(pick((1, 1, 2))):
        broker, at = 1 + rng.randrange(options.brokers), rng.uniform(0.2, last + 0.5)
        if rng.random() < 0.5:
            found.append(Step(at * 0.6, "offload", 0, rng.randrange(64), place=broker))
        for _ in range(pick((1, 2, 3))):
            over = options.slowest * pick((2, 10, 20))
            due = max(0.1, at + rng.uniform(-1.0, 2.0) * over)
            number, size = rng.randrange(64), pick((1, 2, 4))
            found.append(Step(due, "publish", 0, number, size, 0, pick((2, 6)), over))
        faults.append(Fault(at, "leave", broker, seconds=pick((0.0, 0.05, 0.5, 12.0))))
    return tuple(found), tuple(faults)


def logged(rng: random.Random, options: Options, steps: tuple[Step, ...]) -> Drawn:
    """Channels have logs, at brokers that die and come back; some take all that a log has."""
    pick, last = rng.choice, max(0.4, steps[-1].at)

    def number() -> int:
        return rng.randrange(64)

    found, faults = [], []
    for _ in range(pick((1, 1, 2))):
        at, broker = rng.uniform(0.0, 0.3), rng.randrange(options.brokers)
        found.append(Step(at, "derive", number(), pick((0, number())), LOGGED, broker))
        if rng.random() < 0.4:
            found.append(Step(at + 0.1, "derive", number(), number(), number(), number()))
        for _ in range(pick((0, 1, 1, 2))):
            due, seconds = rng.uniform(0.2, last + 1.0), pick((0.002, 0.05, 0.5, 2.0, 12.0))
            faults.append(Fault(due, "crash", 1 + broker, seconds=seconds))
    for _ in range(pick((2, 3, 4))):
        due = rng.uniform(0.2, last + 2.0)
        choice = FROM_ITS_BEGIN * pick((0, 1, 1, 1)) + pick((0, 0, 1))
        found.append(Step(due, "subscribe", number(), 4 * number() + 1, choice))
    for _ in range(pick((2, 3, 5))):
        due, over = rng.uniform(0.1, last + 1.5), options.slowest * pick((2, 10, 20))
        size, times = pick((1, 2, 4)), pick((2, 6))
        found.append(Step(due, "publish", 0, number(), size, 0, times, over))
    return tuple(found), tuple(faults)


def rejoining(rng: random.Random, scenario: Scenario) -> Scenario:
    """Processes are taken for lost, and join again with all they had. Filters have no state and are
    at brokers: one that is lost with a process begins anew, without what it had made."""
    options, last = replace(scenario.options, rejoining=True), scenario.steps[-1].at
    brokers = options.brokers + 1  # with the hub
    steps = []
    for step in scenario.steps:
        if step.do == "derive":
            place = 1 + rng.randrange(brokers)
            step = replace(step, choice=rng.choice(STATELESS), place=place)
        elif step.do == "move":
            step = replace(step, place=2 + rng.randrange(brokers))
        if not step.do.startswith("close"):
            steps.append(step)
    first, others = 1 + options.brokers, options.sources + options.sinks
    faults = []
    for _ in range(rng.choice((1, 1, 2))):
        host = first + rng.randrange(others)
        at, seconds = rng.uniform(0.1, last + 0.5), rng.uniform(8.0, 25.0)
        hub = first + others - 1 - host  # as the other end of a cut
        kind: FaultKind = rng.choice(("pause", "cut", "cut"))
        faults.append(Fault(at, kind, host, hub, seconds, rng.random() < 0.6))
        for due in (at - 0.05, at + 1.0, at + seconds + 3.0, at + seconds + 15.0):
            number, size = rng.randrange(64), rng.choice((1, 2, 4))
            over = rng.choice((0.1, 3.0))
            steps.append(Step(max(0.1, due), "publish", 0, number, size, 0, 4, over))
    return replace(scenario, options=options, steps=_sorted(*steps), faults=tuple(faults))
