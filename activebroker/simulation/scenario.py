"""A scenario: what users do and what fails, as plain data that a seed determines.

Every number that picks an object (a host, a channel, a supplier) counts modulo what there is at
that moment, so that a scenario from which something was taken out is a scenario still.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

from derivation.destination import DestinationState
from derivation.initiator import InitiatorState
from derivation.origin import OriginState
from derivation.source import SourceState

HUB = "hub"  # keeps the directory
BROKER_NAMES = ("atlanta", "dallas", "denver")
SOURCE_NAMES = ("east", "north", "south")
SINK_NAMES = ("west", "home")

MACHINES: dict[str, type[Enum]] = {
    "initiator": InitiatorState,
    "source": SourceState,
    "origin": OriginState,
    "destination": DestinationState,
}

Do = Literal[
    "open supplier",
    "publish",
    "subscribe",
    "unsubscribe",
    "derive",
    "move",
    "offload",
    "split",
    "modulate",
    "close supplier",
    "close derived",
    "close root",
]
FaultKind = Literal["crash", "pause", "cut", "slow", "claim"]
FRAME_FAULTS = ("drop", "repeat", "delay", "overtake")  # what happens to single frames
HOST_FAULTS = ("crash", "restart", "pause", "cut", "slow")
FAULT_KINDS = (*FRAME_FAULTS, *HOST_FAULTS)


@dataclass(frozen=True, slots=True)
class Options:
    """The setting. Probabilities are for each frame; times in seconds, sizes in bytes."""

    brokers: int = 2  # hosts beside the hub
    sources: int = 1  # hosts for suppliers
    sinks: int = 1  # hosts for consumers
    roots: int = 1  # channels with suppliers
    undialable: bool = False  # the last of the sinks cannot be dialled
    refusing: bool = False  # the last of the brokers can load no filter
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0  # a frame is overtaken by those behind it
    straggling: float = 0.0  # a frame comes late, and those behind it
    slowest: float = 0.01  # the longest base delay of a pair of hosts
    jitter: float = 0.5  # part of the base delay by which each frame differs
    bandwidth: float = 0.0  # bytes a second of a route, 0 for any
    blob: int = 0  # bytes in each event
    pace: float = 0.0  # a slow consumer's time for a batch
    work: float = 0.001  # the longest time of a piece of a filter's work
    patience: float = 20.0  # of moves
    lease: float = 0.0  # seconds, of derived channels; 0: they are kept
    supervised: float = 0.0  # seconds until a broker that a filter has killed starts again


@dataclass(frozen=True, slots=True)
class Step:
    """What a user does at `at`.

    `host`: where. `object`: the channel, supplier, consumer or (of a split) broker concerned.
    `choice`: events a batch; the filter, from `MODULATED` on one that can be modulated, from
    `RAISING` on one whose predicate raises; its new parameter; 1 for a slow consumer; 1 for a
    supplier that ended before, to open again; how many processes an offload is for, 0 for all.
    `place`: of a derivation. `times`: batches published, in `over` seconds.
    """

    at: float
    do: Do
    host: int = 0
    object: int = 0
    choice: int = 0
    place: int = 0
    times: int = 1
    over: float = 0.0


@dataclass(frozen=True, slots=True)
class Fault:
    """What fails, at `at` or when a machine first enters a state after that.

    `when` is (machine, state); `host` counts from the machine's host then. `seconds`: how long; a
    crashed host starts anew after them, or never if they are 0. `other`: the other end of a cut,
    counted from `host`; `both`: no frame passes in either direction. `again`: who is taken for lost
    because of it starts anew when it hears so.

    A "claim" is of another process for the host's name: for as long as that answers, in vain.

    The hub is not crashed, and stands still for no longer than `SHORT`. One that is cut off from
    others for longer takes them for lost, and they it.
    """

    at: float
    do: FaultKind
    host: int = 0
    other: int = 0
    seconds: float = 0.0
    both: bool = True
    when: tuple[str, str] | None = None
    again: bool = False


MODULATED = 1000
RAISING = 2000
DEADLY = 3000
SHORT = 6.0  # seconds of silence after which nobody is taken for lost


@dataclass(frozen=True, slots=True)
class Scenario:
    seed: int
    options: Options = field(default_factory=Options)
    steps: tuple[Step, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def length(self) -> float:
        """Seconds in which users do things and faults strike."""
        steps = (step.at + step.over for step in self.steps)
        faults = (fault.at for fault in self.faults)
        return 0.3 + max((*steps, *faults), default=0.0)


# Where faults aim, and how often in relation: most at states that are short or rare.
AIMS: dict[tuple[str, str], int] = {
    ("initiator", "PREPARING"): 1,
    ("initiator", "SWAPPING"): 1,
    ("source", "ATTACHED"): 1,
    ("source", "SWAPPED"): 1,
    ("origin", "AWAITING_ACKS"): 1,
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
    ("origin", "CAPTURING"): ("slow", ("origin", "AWAITING_ACKS")),
    ("destination", "LOADING"): ("slow", ("initiator", "PREPARING")),
    ("destination", "RUNNING"): ("cut", ("source", "SWAPPED")),
    ("destination", "COMPLETED"): ("cut", ("destination", "COMPLETED")),
    ("destination", "CANCELLED"): ("cut", ("destination", "CANCELLED")),
}
# How many scenarios have deaths, and silence that is taken for one.
DEATHS, SILENCES = 0.25, 0.05
HEAVY = 100_000  # bytes of events with which flows use up their credit


def draw(seed: int) -> Scenario:
    """The scenario of a seed: small, and different from the next in kind (swarm testing)."""
    rng = random.Random(seed)
    options = _options(rng)
    steps = _steps(rng, options)
    faults = _Faults(rng, options, steps).draw()
    steps = _and_after(rng, steps, faults)
    if rng.random() > 0.92:
        steps = tuple(sorted((*steps, *_split(rng, options, steps)), key=lambda step: step.at))
    apart = random.Random(f"modulate {seed}")  # so that all other seeds mean what they did before
    if apart.random() < 0.12:
        more, deaths = _modulations(apart, options, steps)
        steps = tuple(sorted((*steps, *more), key=lambda step: step.at))
        if not any(fault.do == "crash" for fault in faults):
            faults = (*faults, *deaths)
    apart = random.Random(f"raising {seed}")
    if apart.random() < 0.12:
        steps = tuple(sorted(_raising(apart, steps), key=lambda step: step.at))
    owners = random.Random(f"owners {seed}")
    if owners.random() < 0.1:
        options = replace(options, lease=owners.choice((2.0, 15.0)))
        more, deaths = _owners(owners, options, steps)
        steps = tuple(sorted((*steps, *more), key=lambda step: step.at))
        faults = (*faults, *deaths)
    elif owners.random() < 0.06:
        options = replace(options, supervised=owners.choice((0.1, 1.0, 3.0)), refusing=False)
        steps, faults = _deadly(owners, options, steps), ()
    return Scenario(seed, options, steps, faults)


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
    refuser = 1 + options.brokers  # as a place: behind "supplier", "consumer" and other brokers
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
            steps += _offloads(step) if do == "offload" else (step,)
    steps += [
        Step(rng.uniform(0.05, busy), "open supplier", at_source(), number())
        for _ in range(max(0, suppliers - 4) or (rng.random() < 0.1))
    ]
    return tuple(sorted(steps, key=lambda step: step.at))


def _offloads(step: Step) -> Iterator[Step]:
    """One of all that a supplier serves, or of some of it; and in some scenarios a second one."""
    some = (0, 0, 1, 1, 2)[step.object % 5]
    yield replace(step, choice=some)
    if step.place % 3 == 0:
        yield replace(step, at=step.at + 0.05, choice=2 - some, place=step.place + 1)


def _split(rng: random.Random, options: Options, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """A broker gets some filters, perhaps one beside another, and is split under load."""
    pick = rng.choice
    brokers = options.brokers + 1  # with the hub
    broker = rng.randrange(brokers)
    at = rng.uniform(0.2, max(0.4, steps[-1].at)) + 10 * options.slowest

    def number() -> int:
        return rng.randrange(64)

    # Of the places of a derivation, brokers come behind "consumer", and "supplier" behind them.
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


Drawn = tuple[tuple[Step, ...], tuple[Fault, ...]]


def _modulations(rng: random.Random, options: Options, steps: tuple[Step, ...]) -> Drawn:
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
    found = [replace(each, choice=MODULATED + each.choice) for each in found]
    found += [Step(rng.uniform(0.1, 0.2), "subscribe", number(), number()) for _ in range(2)]
    for _ in range(pick((1, 2, 2, 3))):
        at = rng.uniform(0.15, max(0.3, last))
        found.append(Step(at, "modulate", number(), number(), number()))
        for _ in range(pick((1, 2, 3))):
            over = options.slowest * pick((2, 10, 20))
            due = max(0.1, at - rng.random() * 2 * options.slowest)
            times = pick((2, 4, 8))
            found.append(Step(due, "publish", 0, number(), pick((1, 1, 2, 4)), 0, times, over))
    deaths = []
    if dies:
        at = max(each.at for each in found if each.do == "modulate")
        at += rng.uniform(0.0, 12 * options.slowest + 0.05)
        deaths.append(Fault(at, "crash", 1 + broker, seconds=pick((0.0, 0.05, 12.0))))
    return tuple(found), tuple(deaths)


def _owners(rng: random.Random, options: Options, steps: tuple[Step, ...]) -> Drawn:
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


def _deadly(rng: random.Random, options: Options, steps: tuple[Step, ...]) -> tuple[Step, ...]:
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


def _raising(rng: random.Random, steps: tuple[Step, ...]) -> Iterator[Step]:
    """Some filters have predicates that raise; most of them behind a relay."""
    for step in steps:
        if step.do == "derive" and step.choice < MODULATED and rng.random() < 0.7:
            step = replace(step, choice=RAISING)
        yield step
    if rng.random() < 0.7:
        at = rng.uniform(0.05, max(0.1, steps[-1].at))
        supplier, to = rng.randrange(64), rng.randrange(64)
        yield from _offloads(Step(at, "offload", 0, supplier, place=to))


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
        """In some state of a move, or early, amid all, or late, when all is quiet."""
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
