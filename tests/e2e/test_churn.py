"""Processes of one fabric are killed, started again, frozen and replaced, derive and leave; who
lives sees what was promised, and at the end nothing is left of the others.

A script of faults is drawn from a seed. Five processes stand all the time: the first broker with
the directory, one more broker, a supplier, a consumer of all events and one of what a stateful
filter forwards. Seven have their places, and whoever has one comes and goes.

`pytest tests/e2e/test_churn.py -n 0 -s --rounds 12 --seed N` plays 12 faults, about one in 1.5 s.
It is not a part of `.ci/nightly` yet: a hundred faults pass with some seeds, but once a broker that
stands had a filter's worker left, with its strand of the pool (`--rounds 100 --seed 4`).
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import churn_for_tests as c
import psutil
import pytest
from field_for_tests import PATIENCE, Started, freeze, kill, thaw, until
from processes_for_tests import Program, Programs

import activebroker as ab
from activebroker.core.errors import ActiveBrokerError, MoveFailed

KEY = ab.generate_key()
FEW = 12  # faults, in which memory has not yet grown to its size
PACE = 1.5  # seconds from one fault to the next
LOOK = 0.05  # seconds between looks at all pipes
SHORT, LONG = (0.3, 2.0), (12.0, 14.0)  # seconds of freezes: all survive, and all take for lost
FREEZES = 30.0  # seconds from one that is long to the next: the directory waits for its end
DEATHS, BUDGET = 4, 75.0  # of brokers, in so many seconds: one more would be quarantine
GROWTH = 8.0  # megabytes from the middle of a run to its end: an arena or two, 80 KB a fault
PARTS = (  # of nodes and of what they run on: modules of which nothing may be left
    *(f"activebroker.broker.{name}" for name in ("link", "outlet", "port", "stage", "moves")),
    *(f"activebroker.runtime.{name}" for name in ("pool", "workers", "queue", "publishing")),
    "activebroker.transport",
)
FAULTS = {  # how often each is drawn
    "kill": 8,
    "short freeze": 5,
    "long freeze": 3,
    "replace": 3,
    "leave": 4,
}


class Player(Started):
    """One who bears a name. `lost`: was taken for lost, as it was frozen, and lives."""

    def __init__(self, role: type[c.Part], name: str, *details: Any) -> None:
        super().__init__(role, KEY, name, *details)
        self.name, self.details = name, details
        self.ready = self.frozen = self.lost = self.ousted = False
        self.address = ""
        self.asked, self.asked_for = "", ()
        self.answers: dict[str, Any] = {}
        self.notes: list[c.Note] = []
        self.last: Any = None  # what it has said at the end

    def drain(self) -> None:
        """Take what it has said."""
        try:
            while self._pipe.poll():
                what, *rest = self._pipe.recv()
                match what:
                    case "at":
                        (self.address,) = rest
                    case "ready":
                        self.ready = True
                    case "note":
                        self.notes.append(rest[0])
                    case "bye":
                        (self.last,) = rest
                    case "answer":
                        asked, answer = rest
                        self.asked = ""
                        self.answers[asked] = answer
        except EOFError:
            return

    def tell(self, what: str, *details: Any) -> None:
        assert not self.asked, f"{self.name} still does {self.asked}"
        self.asked, self.asked_for = what, details
        self._pipe.send((what, *details))

    def get(self, what: str, *details: Any) -> Any:
        """Ask, and wait for the answer."""
        self.tell(what, *details)
        until(self._answered, f"{self.name} answers {what}")
        return self.answers.pop(what)

    def _answered(self) -> bool:
        self.drain()
        return not self.asked

    @property
    def node(self) -> str:
        return f"process of {self.name}" if self.name == "steady" else self.name

    @property
    def runs(self) -> bool:
        return self._process.is_alive()

    @property
    def code(self) -> int | None:
        return self._process.exitcode

    def end(self) -> None:
        self.drain()
        super().end()


class CommandBroker:
    """One that `activebroker broker` runs."""

    asked = ""

    def __init__(self, starting: Future[tuple[Program, str]], name: str) -> None:
        self._starting = starting
        self.name = name
        self.frozen = self.lost = self.ousted = False
        self.notes: list[c.Note] = []

    def drain(self) -> None:
        pass

    @property
    def ready(self) -> bool:
        return self._starting.done()

    @property
    def program(self) -> Program:
        return self._starting.result(PATIENCE)[0]

    @property
    def pid(self) -> int:
        return self.program.pid

    @property
    def runs(self) -> bool:
        return self.program.runs

    @property
    def code(self) -> int | None:
        return self.program.ended()

    def tell(self, what: str) -> None:
        assert what == "leave"
        self.program.interrupt()

    def end(self) -> None:
        self.program.kill()


Bearer = Player | CommandBroker


class Place:
    """A name, and who bears it; nobody for a while after a fault."""

    def __init__(self, name: str, start: Callable[[bool], Bearer]) -> None:
        self.name = name
        self.start = start
        self.bearer: Bearer | None = start(False)
        self.busy = False  # amid a fault

    @property
    def is_broker(self) -> bool:
        return self.name in ("atlanta", "dallas")


class Standing:
    """What is measured at a process that stands."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self.process = psutil.Process(player.pid)
        self.memory: list[float] = []

    def sample(self) -> None:
        self.memory.append(self.process.memory_info().rss / 2**20)

    def counts(self) -> dict[str, int]:
        return {"threads": self.process.num_threads(), "files": self.process.num_fds()}

    def growth(self) -> float:
        """Megabytes by which it has grown since the middle of the run."""
        tenth = max(1, len(self.memory) // 10)
        middle = len(self.memory) // 2
        late = statistics.median(self.memory[-tenth:])
        return late - statistics.median(self.memory[middle : middle + tenth])


class Churn:
    def __init__(self, stack: ExitStack, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lives = itertools.count(1)
        self.everyone: list[Bearer] = []
        self.later: list[tuple[Callable[[], object], Callable[[], None], float, str]] = []
        self.deaths: deque[float] = deque(maxlen=DEATHS)
        self.last_freeze = time.monotonic() - FREEZES
        self.faults: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.derived: dict[Player, list[str]] = {}
        self.longest = 0.0
        self.folder = folder
        self.threads = stack.enter_context(ThreadPoolExecutor(4))
        stack.callback(self.end)
        self.programs = stack.enter_context(Programs(folder, KEY))
        hub = self.player(c.Broker, "hub", None)
        self.wait_for(hub)
        self.address = hub.address
        boston = self.player(c.Broker, "boston", self.address)
        self.wait_for(boston)
        plain = self.player(c.Consumer, "plain", self.address, "numbers")
        counting = self.player(c.Consumer, "counting", self.address, "count")
        self.wait_for(plain, counting)
        steady = self.player(c.Supplier, "steady", self.address, next(self.lives))
        self.wait_for(steady)
        self.steady, self.plain, self.counting = steady, plain, counting
        self.standing = [Standing(each) for each in (hub, boston, steady, plain, counting)]
        self.watch = stack.enter_context(ab.connect(self.address, KEY, name="watch"))
        self.counted = self.watch.channel("count of counting")
        self.places: dict[str, Place] = {}

    # --- who there is -------------------------------------------------------------------------

    def player(self, role: type[c.Part], name: str, *details: Any) -> Player:
        player = Player(role, name, *details)
        self.everyone.append(player)
        return player

    def supplier(self, name: str) -> Player:
        return self.player(c.Supplier, name, self.address, next(self.lives))

    def command(self, name: str, replace: bool) -> CommandBroker:
        def start() -> tuple[Program, str]:
            log = self.folder / f"{name}.log"
            return self.programs.broker(name, join=self.address, replace=replace, log=log)

        broker = CommandBroker(self.threads.submit(start), name)
        self.everyone.append(broker)
        return broker

    def fill(self) -> None:
        """Everybody who comes and goes is there."""

        def place(name: str, start: Callable[[bool], Bearer]) -> None:
            self.places[name] = Place(name, start)

        for name in ("atlanta", "dallas"):
            place(name, lambda replace, name=name: self.command(name, replace))
        for name in ("first", "second"):
            place(name, lambda replace, name=name: self.supplier(name))
        place("taker", lambda _: self.player(c.Consumer, "taker", self.address, "numbers"))
        for name in ("ann", "bob"):
            place(name, lambda _, name=name: self.player(c.Analyst, name, self.address))
        self.wait_for(*(each.bearer for each in self.places.values()))

    def wait_for(self, *bearers: Bearer | None) -> None:
        def ready() -> bool:
            for each in bearers:
                assert each is not None
                each.drain()
                if isinstance(each, Player):
                    assert each.runs, f"{each.name} has ended: {each.code}"
            return all(each is not None and each.ready for each in bearers)

        until(ready, f"{[each and each.name for each in bearers]} are ready")

    def end(self) -> None:
        for each in self.everyone:
            if isinstance(each, Player):
                each.end()

    # --- time ---------------------------------------------------------------------------------

    def when(self, true: Callable[[], object], then: Callable[[], None], what: str) -> None:
        self.later.append((true, then, time.monotonic() + PATIENCE, what))

    def after(self, seconds: float, then: Callable[[], None]) -> None:
        due = time.monotonic() + seconds
        self.when(lambda: time.monotonic() >= due, then, "time passes")

    def turn(self) -> None:
        """Look at everybody once, and do what is due."""
        for each in self.everyone:
            if isinstance(each, Player) and not each.frozen:
                each.drain()
                for what in list(each.answers):
                    answer = each.answers.pop(what)
                    if what == "derive" and answer is not None:
                        mine = self.derived.get(each, [])
                        if each.asked_for[0] in mine:  # it has not been killed since
                            mine.remove(each.asked_for[0])
                    self._tell(what, answer)
        later, self.later = self.later, []
        for entry in later:
            true, then, deadline, what = entry
            if true():
                then()
            else:
                assert time.monotonic() < deadline, f"in vain: {what}"
                self.later.append(entry)

    def _tell(self, what: str, answer: Any) -> None:
        kind = str(answer or "done").partition(":")[0]
        self.outcomes[f"{what}: {kind}"] += 1

    def pass_(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            self.turn()
            if (left := end - time.monotonic()) <= 0:
                return
            time.sleep(min(left, LOOK))

    def settle(self) -> None:
        """Until nothing is under way."""

        def settled() -> bool:
            self.turn()
            busy = any(each.asked and each.runs for each in self._present())
            return not self.later and not busy

        until(settled, "all faults are over")

    def _present(self) -> Iterator[Bearer]:
        for place in self.places.values():
            if place.bearer is not None:
                yield place.bearer

    # --- faults -------------------------------------------------------------------------------

    def fault(self) -> None:
        """One that is drawn, of one who can have it."""
        while True:
            kind = self.chance.choices(list(FAULTS), list(FAULTS.values()))[0]
            if fit := self._fit(kind):
                break
            self.pass_(LOOK)
        place = self.chance.choice(fit)
        if isinstance(place, Player):  # it stands: it survives what it may have
            self._freeze(place, place, self.chance.uniform(*SHORT))
            self.faults[f"{kind}: stands"] += 1
            return
        if kind in ("kill", "long freeze", "replace") and place.is_broker:
            self.deaths.append(time.monotonic())
        self.faults[f"{kind}: {_role(place.name)}"] += 1
        bearer = place.bearer
        assert bearer is not None
        place.busy = True
        match kind:
            case "kill":
                kill(bearer.pid)
                bearer.drain()
                self.derived.pop(bearer, None)  # type: ignore[arg-type]
                place.bearer = None
                self.after(self.chance.choice([0.0, 0.0, 0.0, 2.0]), lambda: self._start(place))
            case "short freeze":
                self._freeze(place, bearer, self.chance.uniform(*SHORT))
            case "long freeze":
                bearer.lost, self.last_freeze = True, time.monotonic()
                self._freeze(place, bearer, self.chance.uniform(*LONG))
            case "replace":
                self._replace(place, bearer)
            case "leave":
                self._leave(place, bearer)

    def _fit(self, kind: str) -> list[Any]:
        free = [
            each
            for each in self.places.values()
            if not each.busy and each.bearer is not None and each.bearer.ready
        ]
        if kind in ("replace", "leave"):
            free = [each for each in free if each.bearer is None or not each.bearer.asked]
        if kind == "long freeze" and time.monotonic() - self.last_freeze < FREEZES:
            return []
        spent = len(self.deaths) == DEATHS and time.monotonic() - self.deaths[0] < BUDGET
        if spent and kind in ("kill", "long freeze", "replace"):
            free = [each for each in free if not each.is_broker]
        standing = [each.player for each in self.standing if each.player.name != "hub"]
        if kind == "short freeze":
            return [*free, *(each for each in standing if not each.frozen)]
        return free

    def _start(self, place: Place) -> None:
        bearer = place.bearer = place.start(False)
        self._when_ready(place, bearer, lambda: self._free(place))

    def _free(self, place: Place) -> None:
        place.busy = False

    def _when_ready(self, place: Place, bearer: Bearer, then: Callable[[], None]) -> None:
        begin = time.monotonic()

        def go_on() -> None:
            self.longest = max(self.longest, time.monotonic() - begin)
            then()

        def ready() -> bool:
            assert not isinstance(bearer, Player) or bearer.runs, f"{place.name}: {bearer.code}"
            return bearer.ready

        self.when(ready, go_on, f"a new {place.name!r} is ready")

    def _freeze(self, place: Place | Player, bearer: Bearer, seconds: float) -> None:
        freeze(bearer.pid)
        bearer.frozen = True

        def go_on() -> None:
            thaw(bearer.pid)
            bearer.frozen = False
            if isinstance(place, Place):
                place.busy = False

        self.after(seconds, go_on)

    def _replace(self, place: Place, old: Bearer) -> None:
        """The old one lives, and is told that its name is another's. It would have the name again
        if the new one left first."""
        if isinstance(old, Player):  # it would keep its name while it answers
            freeze(old.pid)
            old.frozen = True
        old.ousted = True
        new = place.bearer = place.start(True)
        self.derived.pop(old, None)  # type: ignore[arg-type]

        def go_on() -> None:
            if isinstance(old, Player):
                thaw(old.pid)
                old.frozen = False
                old.tell("leave")
            self._see_off(old, 0 if isinstance(old, Player) else 2, lambda: self._free(place))

        self._when_ready(place, new, go_on)

    def _leave(self, place: Place, bearer: Bearer) -> None:
        bearer.tell("leave")
        place.bearer = None
        self.derived.pop(bearer, None)  # type: ignore[arg-type]
        self._see_off(bearer, 0, lambda: self._start(place))

    def _see_off(self, bearer: Bearer, code: int, then: Callable[[], None] = lambda: None) -> None:
        def gone() -> None:
            assert bearer.code == code, f"{bearer.name} has ended with {bearer.code}"
            then()

        self.when(lambda: not bearer.runs, gone, f"{bearer.name} ends")

    # --- what is done meanwhile ---------------------------------------------------------------

    def operation(self) -> None:
        idle = [
            each.bearer
            for each in self.places.values()
            if isinstance(each.bearer, Player)
            and not each.busy
            and each.bearer.ready
            and not each.bearer.asked
        ]
        if not idle:
            return
        player = self.chance.choice(idle)
        brokers = ["hub", "boston", "atlanta", "dallas"]
        if player.name in ("first", "second"):
            player.tell("offload", self.chance.choice(brokers))
        elif player.name in ("ann", "bob"):
            mine = self.derived.setdefault(player, [])
            free = [n for n in (1, 2, 3) if f"{player.name} {n}" not in mine]
            at = self.chance.choice([*brokers, "supplier", "consumer"])
            what = self.chance.choice(["derive", "derive", "move", "close"])
            if (what == "derive" and free) or not mine:
                name = f"{player.name} {self.chance.choice(free)}"
                mine.append(name)
                player.tell("derive", name, self.chance.choice(["third", "count"]), at)
            elif what == "move":
                player.tell("move", self.chance.choice(mine), at)
            else:
                name = self.chance.choice(mine)
                mine.remove(name)
                player.tell("close", name)
        else:
            at = self.chance.choice(brokers)
            self.threads.submit(self._move, at)

    def _move(self, at: str) -> None:
        answer = ""
        try:
            self.counted.move(at, timeout=c.MOVING)
        except ActiveBrokerError as error:
            answer = c.error_text(error)
        self._tell("move of what stands", answer)

    # --- what it looks like -------------------------------------------------------------------

    def all_leave(self) -> None:
        """All but those that stand, in good order; and where they stand is as at the begin."""
        self.settle()
        for place in self.places.values():
            assert place.bearer is not None
            place.busy = True
            place.bearer.tell("leave")
            self._see_off(place.bearer, 0)
        self.settle()
        self.places.clear()

        def home() -> bool:
            try:
                self.counted.move("boston")
            except MoveFailed:
                return False
            return True

        until(home, "the filter that stands is where it was")
        until(lambda: not self.left_over(), "leases run out")

    def left_over(self) -> list[str]:
        status = self.watch.status()
        return [
            each["name"]
            for each in status["channels"]
            if not each["closed"] and each["name"] not in ("numbers", "count of counting")
        ]

    def picture(self) -> dict[str, Any]:
        """What the directory knows, and its nodes."""
        status = self.watch.status()
        channels = [each for each in status["channels"] if not each["closed"]]
        kept = ("name", "parent", "at", "owner", "suppliers", "consumers", "relays")
        nodes = status["nodes"]
        return {
            "members": sorted(each["name"] for each in status["members"]),
            "channels": [{key: each[key] for key in kept} for each in channels],
            "stages": [(e["name"], stage["node"]) for e in channels for stage in e["stages"]],
            "moves": status["moves"],
            "flows": {
                name: sorted(
                    (f["channel"], f["supplier"] or "", f["target"]) for f in node["flows"]
                )
                for name, node in nodes.items()
            },
            "links": {name: sorted(node["links"]) for name, node in nodes.items()},
        }

    def measure(self) -> dict[str, Any]:
        """The same, and what the processes that stand need, when those who have left are
        forgotten everywhere."""

        def forgotten() -> dict[str, Any] | None:
            now = self.picture()
            known = all(set(links) <= set(now["members"]) for links in now["links"].values())
            return now if known else None

        now = until(forgotten, "who has left is forgotten")
        return now | {each.player.name: each.counts() for each in self.standing}

    def warm_up(self) -> None:
        """Let those who stand have all links and threads that they will have."""
        first, ann = self.supplier("first"), self.player(c.Analyst, "ann", self.address)
        self.wait_for(first, ann)
        assert first.get("offload", "boston") is None
        for number, place in enumerate(["boston", "hub", "supplier"]):
            assert ann.get("derive", f"ann {number}", "count", place) is None
        self.pass_(0.5)
        for each in (first, ann):
            each.tell("leave")
            self._see_off(each, 0)

    def parts(self) -> dict[str, Counter[str]]:
        """How many parts the nodes of those who stand have, by class."""
        return {
            each.player.name: Counter(
                {kind: n for kind, n in each.player.get("census").items() if kind.startswith(PARTS)}
            )
            for each in self.standing
        }

    def tell(self, what: str, published: int, before: Any, after: Any) -> None:
        print(f"{what}; {published} events of the supplier that stands; slowest start", end=" ")
        print(f"{self.longest:.0f} s; {dict(self.faults)}; {dict(self.outcomes)}")
        for each in self.standing:
            name, megabytes = each.player.name, each.memory[:: max(1, len(each.memory) // 10)]
            print(f"{name}: {before[name]}, then {after[name]}; flows", end=" ")
            print(*(len(now["flows"].get(each.player.node, [])) for now in (before, after)), end="")
            print(f"; megabytes {[round(m, 1) for m in megabytes]}, {each.growth():+.1f}")
        for bearer in self.everyone:
            for note in bearer.notes:
                print(f"{bearer.name}, lost {bearer.lost}, ousted {bearer.ousted}: {note}")

    def sent(self) -> int:
        """How many events the supplier that stands has sent to the consumer that does."""
        (flow,) = [
            each
            for each in self.watch.status()["nodes"]["process of steady"]["flows"]
            if each["target"] == "plain"
        ]
        return int(flow["sent_events"])

    # --- what was promised --------------------------------------------------------------------

    def broken(self) -> list[str]:
        """What none of the faults explains."""
        players = [each for each in self.everyone if isinstance(each, Player)]
        published = {
            (each.name, each.details[1]): each.last
            for each in players
            if isinstance(each.last, int) and not each.ousted  # which was told what it lost
        }
        cut_off = {
            (each.name, each.details[1]) for each in players if each.lost and each.details[1:]
        }
        wrong = []
        for each in players:
            for note in each.notes:
                derived = note.channel != "numbers" and (note.supplier, note.life) in cut_off
                explained = {
                    "gap": each.lost or derived,
                    "reset": each.lost or derived,
                    "error": each.ousted,
                }
                if not explained.get(note.kind, False):
                    wrong.append(f"{each.name}: {note}")
            if not isinstance(each.last, c.Report) or each.ousted:
                continue
            gaps = sum(n.missing for n in each.notes if n.kind == "gap" and n.channel == "numbers")
            if "numbers" in each.last.streams and gaps != each.last.missed:
                wrong.append(f"{each.name}: {gaps} events missing, {each.last.missed} told")
            for channel, streams in each.last.streams.items():
                for key, (first, last) in streams.items():
                    stands = each in (self.plain, self.counting)
                    if stands and first != 0:
                        wrong.append(f"{each.name}: {key} of {channel} began at {first}")
                    if stands and last + 1 != published.get(key, last + 1):
                        wrong.append(f"{each.name}: {key} ends at {last}, of {published[key]}")
        return wrong


def _role(name: str) -> str:
    roles = {"atlanta": "broker", "dallas": "broker", "first": "supplier", "second": "supplier"}
    return roles.get(name, "consumer" if name == "taker" else "analyst")


@pytest.mark.table
@pytest.mark.timeout(1800)
def test_nothing_is_left_of_processes_that_come_and_go(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    rounds, seed = pytestconfig.getoption("rounds"), pytestconfig.getoption("seed")
    with ExitStack() as stack:
        churn = Churn(stack, tmp_path, seed)
        churn.warm_up()
        churn.all_leave()
        churn.steady.get("pause")
        before, parts_before = churn.measure(), churn.parts()
        churn.steady.get("go_on")
        churn.fill()
        begin = time.monotonic()
        for number in range(1, rounds + 1):
            churn.fault()
            churn.operation()
            churn.pass_(max(0.0, begin + number * PACE - time.monotonic()))
            for each in churn.standing:
                each.sample()
        took = time.monotonic() - begin
        churn.all_leave()
        published = churn.steady.get("pause")
        after, parts = churn.measure(), churn.parts()
        churn.tell(f"{rounds} faults of seed {seed} in {took:.0f} s", published, before, after)
        for each in (churn.plain, churn.counting):
            each.last = each.get("report")
        churn.steady.last = published
        assert churn.broken() == []
        assert churn.sent() == published
        assert after == before
        left = {name: parts[name] - parts_before[name] for name in parts}
        assert not any(left.values()), left
        if rounds > FEW:
            assert max(each.growth() for each in churn.standing) < GROWTH
