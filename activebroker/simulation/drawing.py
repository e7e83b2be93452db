"""Draws scenarios: what a seed determines. Kinds that are rare are in `apart.py`."""

from __future__ import annotations

import random
from dataclasses import replace

from activebroker.simulation import apart
from activebroker.simulation.scenario import (
    HEAVY,
    SHORT,
    Do,
    Fault,
    FaultKind,
    Options,
    Scenario,
    Step,
)

# Where faults aim, and how often in relation: most at states that are short or rare.
AIMS: dict[tuple[str, str], int] = {
    ("initiator", "PREPARING"): 1,
    ("initiator", "SWAPPING"): 1,
    ("source", "ATTACHED"): 1,
    ("source", "SWAPPED"): 1,
    ("origin", "AWAITING_END_MARKERS"): 1,
    ("origin", "CAPTURING"): 3,
    ("origin", "HANDED_OVER"): 1,
    ("destination", "LOADING"): 5,
    ("destination", "PREPARED"): 1,
    ("destination", "RUNNING"): 4,
    ("destination", "COMPLETED"): 2,
    ("destination", "CANCELLED"): 8,  # only where a broker refuses filters
}
# What makes a short state last, so that a fault meets it: what happens, and where, before.
HOLDS: dict[tuple[str, str], tuple[FaultKind, tuple[str, str]]] = {
    ("origin", "CAPTURING"): ("slow", ("origin", "AWAITING_END_MARKERS")),
    ("destination", "LOADING"): ("slow", ("initiator", "PREPARING")),
    ("destination", "RUNNING"): ("cut", ("source", "SWAPPED")),
    ("destination", "COMPLETED"): ("cut", ("destination", "COMPLETED")),
    ("destination", "CANCELLED"): ("cut", ("destination", "CANCELLED")),
}
# How many scenarios have deaths, and silence that is taken for one.
DEATHS, SILENCES = 0.25, 0.05


def draw(seed: int) -> Scenario:
    """The scenario of a seed: small, and different from the next in kind (swarm testing)."""
    rng = random.Random(seed)
    options = _options(rng)
    steps = _steps(rng, options)
    faults = _Faults(rng, options, steps).draw()
    steps = _and_after(rng, steps, faults)
    if rng.random() > 0.92:
        steps = tuple(sorted((*steps, *_split(rng, options, steps)), key=lambda step: step.at))
    return apart.vary(Scenario(seed, options, steps, faults))


def _options(rng: random.Random) -> Options:
    pick = rng.choice
    heavy = rng.random() < 0.06  # events that use up a flow's credit
    return Options(
        brokers=pick((1, 1, 2, 2, 2, 3)),
        sources=pick((1, 1, 1, 2, 2, 3)),
        sinks=pick((1, 1, 1, 2)),
        roots=pick((1, 1, 1, 1, 2)),
        undialable=rng.random() < 0.2,
        refusing=rng.random() < 0.1,
        loss=pick((0.0, 0.0, 0.0, 0.01, 0.05, 0.2)),
        duplication=pick((0.0, 0.0, 0.0, 0.02, 0.2)),
        reordering=pick((0.0, 0.0, 0.0, 0.05, 0.3)),
        straggling=pick((0.0, 0.0, 0.02, 0.1)),
        slowest=pick((0.001, 0.01, 0.01, 0.05, 0.2)),
        jitter=pick((0.0, 0.5, 0.5, 1.0)),
        bandwidth=pick((0.0, 0.0, 0.0, 2e6)) if not heavy else pick((0.0, 2e8)),
        blob=pick((700_000, 1_500_000)) if heavy else pick((0, 0, 0, 0, 2000)),
        pace=pick((0.005, 0.02, 0.1)),
        work=pick((0.0, 0.001, 0.005, 0.03)),
        patience=pick((20.0, 20.0, 20.0, 3.0, 0.3)),
    )


def _steps(rng: random.Random, options: Options) -> tuple[Step, ...]:
    pick = rng.choice
    first_source = 1 + options.brokers
    first_sink = first_source + options.sources
    refuser = 1 + options.brokers  # as a place: after "supplier", "consumer" and other brokers
    slow = (0, 1, 1) if options.blob >= HEAVY else (0, 0, 0, 1)
    busy = pick((0.2, 0.5, 1.0))  # seconds in which most of it happens
    steps: list[Step] = []

    def number() -> int:
        return rng.randrange(64)

    def at_source() -> int:
        return first_source + rng.randrange(options.sources) if rng.random() < 0.85 else number()

    def at_sink() -> int:
        return first_sink + rng.randrange(options.sinks) if rng.random() < 0.8 else number()

    def publish(at: float, over: float, times: int) -> None:
        size = pick((1, 1, 2, 4))
        steps.append(Step(max(0.05, at), "publish", 0, number(), size, 0, times, over))

    suppliers = pick((1, 1, 2, 2, 3, 4, 8))
    steps += [Step(0.0, "open supplier", at_source(), number()) for _ in range(min(suppliers, 4))]
    late = 0.0 if rng.random() < 0.6 else busy
    derived = pick((1, 1, 1, 2, 3))
    for _ in range(derived):
        steps.append(Step(rng.uniform(0.0, late), "derive", number(), number(), number(), number()))
    steps += [
        Step(0.05 + rng.uniform(0.0, late), "subscribe", at_sink(), number(), pick(slow))
        for _ in range(pick((1, 1, 2, 3)))
    ]
    for _ in range(pick((1, 2, 3))):
        publish(rng.uniform(0.1, busy), pick((0.0, 0.1, 0.3)) * busy, pick((1, 2, 3, 6)))
    for _ in range(pick((0, 1, 1, 1, 2, 3))):
        at = rng.uniform(0.1, 0.1 + busy)
        refused = options.refusing and rng.random() < 0.6
        steps.append(Step(at, "move", number(), number(), 0, refuser if refused else number()))
        # A move that nothing crosses proves little: publish in about the time that it takes.
        for _ in range(pick((1, 1, 2, 3))):
            over = options.slowest * pick((2, 10, 20))
            publish(at - rng.random() * options.slowest, over, pick((2, 4, 8, 12)))
        if rng.random() < 0.25:
            # A stream whose end meets it, and one of that name which begins soon after.
            supplier = number()
            end = max(0.1, at + rng.uniform(-4.0, 1.0) * options.slowest)
            steps.append(Step(end, "close supplier", 0, supplier))
            again = end + rng.uniform(3.0, 10.0) * options.slowest
            steps.append(Step(again, "open supplier", at_source(), supplier, 1))
            publish(again + 6 * options.slowest, options.slowest, 4)
    rare: tuple[tuple[Do, float], ...] = (
        ("offload", 0.2),
        ("subscribe", 0.2),
        ("unsubscribe", 0.15),
        ("close supplier", 0.2),
        ("close derived", 0.08),
        ("close root", 0.04),
    )
    for do, probability in rare:
        if rng.random() < probability:
            at = rng.uniform(0.1, 0.1 + busy)
            step = Step(at, do, at_sink(), number(), 0, number())
            steps += apart.offloads(step) if do == "offload" else (step,)
    steps += [
        Step(rng.uniform(0.05, busy), "open supplier", at_source(), number())
        for _ in range(max(0, suppliers - 4) or (rng.random() < 0.1))
    ]
    return tuple(sorted(steps, key=lambda step: step.at))


def _split(rng: random.Random, options: Options, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """A broker gets some filters, perhaps one beside another, and is split under load."""
    pick = rng.choice
    brokers = options.brokers + 1  # with the hub
    broker = rng.randrange(brokers)
    at = rng.uniform(0.2, max(0.4, steps[-1].at)) + 10 * options.slowest

    def number() -> int:
        return rng.randrange(64)

    # Of the places of a filter, brokers come after "consumer", and "supplier" after them.
    there, supplier = 1 + broker, 1 + brokers
    found = [
        Step(at * turn / 6, "derive", number(), number(), number(), there)
        for turn in range(pick((2, 2, 3)))
    ]
    if rng.random() < 0.5:
        derived = options.roots + rng.randrange(3)
        found.append(Step(at * 0.5, "derive", number(), derived, number(), supplier))
    for _ in range(pick((1, 2))):
        found.append(Step(at * 0.7, "subscribe", number(), number()))
    for _ in range(pick((2, 3, 4))):
        over = options.slowest * pick((2, 10, 20))
        size, times = pick((1, 1, 2, 4)), pick((2, 4, 8))
        due = at * rng.uniform(0.6, 1.0)
        found.append(Step(due, "publish", 0, number(), size, 0, times, over))
    found.append(Step(at, "split", number(), broker, 0, number()))
    return tuple(found)


class _Faults:
    """Mostly few; none in a third of the scenarios."""

    def __init__(self, rng: random.Random, options: Options, steps: tuple[Step, ...]) -> None:
        self._rng = rng
        self._options = options
        self._until = max(step.at for step in steps)
        self._aims = AIMS if any(step.do in ("move", "offload") for step in steps) else {}
        if not options.refusing:
            self._aims = {aim: n for aim, n in self._aims.items() if aim[1] != "CANCELLED"}
        self._drawn: list[Fault] = []

    def draw(self) -> tuple[Fault, ...]:
        rng, pick = self._rng, self._rng.choice
        for _ in range(pick((0, 0, 1, 1, 2, 3))):
            # What nobody is taken for lost for.
            do: FaultKind = pick(("pause", "pause", "cut", "cut", "slow"))
            self._add(do, pick((0.02, 0.1, 0.5, 2.0)))
        heavy = self._options.blob >= HEAVY
        if rng.random() < (2 * DEATHS if heavy else DEATHS):
            self._deaths()
        if rng.random() < SILENCES:
            # A living process is taken for lost, and may come back.
            fault = self._add(pick(("pause", "cut", "cut")), rng.uniform(8.0, 25.0))
            self._drawn[-1] = replace(fault, again=rng.random() < 0.5)
        return tuple(self._drawn)

    def _deaths(self) -> None:
        """One, or some at once or one soon after another; mostly of brokers."""
        rng, pick = self._rng, self._rng.choice
        again = (0.0, 0.0, 0.002, 0.002, 0.05, 0.5, 12.0)
        first = self._add("crash", pick(again))
        if first.when is None and rng.random() < 0.7:
            first = self._drawn[-1] = replace(first, host=self._broker())
        if first.when is None and rng.random() < 0.5:
            # What it makes before it dies does not arrive everywhere.
            at = max(0.1, first.at - pick((0.5, 1.5, 1.8)))
            self._drawn.append(Fault(at, "cut", first.host, rng.randrange(64), 2.0, False))
        for _ in range(pick((0, 0, 0, 1, 1, 2))):
            near = self._broker() if first.when is None else rng.randrange(3)
            more = replace(
                first,
                at=first.at + pick((0.0, 0.05, 0.5, 5.0, 11.0)),
                host=near if rng.random() < 0.6 else rng.randrange(64),
                seconds=pick(again),
                when=first.when if rng.random() < 0.7 else None,
            )
            self._drawn.append(more)

    def _broker(self) -> int:
        return 1 + self._rng.randrange(self._options.brokers)

    def _add(self, do: FaultKind, seconds: float) -> Fault:
        """In some state of a move, or early, in the middle of all, or late, when all is quiet."""
        rng, until = self._rng, self._until
        both, host, other = rng.random() < 0.6, rng.randrange(64), rng.randrange(64)
        if self._aims and rng.random() < 0.6:
            (aim,) = rng.choices(list(self._aims), list(self._aims.values()))
            if aim in HOLDS and rng.random() < 0.6:
                hold, when = HOLDS[aim]
                where = rng.randrange(64) if when[0] == "initiator" else 0
                self._drawn.append(Fault(0.0, hold, where, rng.randrange(64), 0.5, False, when))
            host = rng.choice((0, 0, host) if do != "crash" else (0, host))
            fault = Fault(0.0, do, host, other, seconds, both, aim)
        else:
            amid, late = (0.1, until + 0.1), (until + 0.3, until + 3.0)
            at = rng.uniform(*rng.choice(((0.0, 0.2), amid, amid, amid, late)))
            fault = Fault(at, do, host, other, seconds, both)
        self._drawn.append(fault)
        return fault


def _and_after(
    rng: random.Random, steps: tuple[Step, ...], faults: tuple[Fault, ...]
) -> tuple[Step, ...]:
    """What users do when a process is lost, or found lost: else nothing tells what it cost."""
    more: list[Step] = []
    for fault in faults:
        if fault.do == "crash" or fault.seconds > SHORT:
            do: Do = rng.choice(("publish", "publish", "publish", "subscribe", "move"))
            at = max(0.1, (fault.at or steps[-1].at) + rng.choice((-1.2, 0.1, 1.0, 11.0)))
            number = rng.randrange(64), rng.randrange(64), rng.choice((1, 2, 4)), rng.randrange(64)
            more.append(Step(at, do, *number, times=rng.choice((1, 2, 6)), over=rng.random()))
    return tuple(sorted((*steps, *more), key=lambda step: step.at))
