"""What happens in a fabric in which processes come and go: a script that is drawn from a seed.

Seven have their places, and whoever has one comes and goes.
"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import churn_for_tests as c
from churn_cast_for_tests import Bearer, Cast, Player
from field_for_tests import PATIENCE, freeze, thaw, until

from activebroker.core.errors import ActiveBrokerError, MoveFailed

LOOK = 0.05  # seconds between looks at all pipes
SHORT, LONG = (0.3, 2.0), (12.0, 14.0)  # seconds of freezes: all survive, and all take for lost
FREEZES = 30.0  # seconds from one that is long to the next: the directory waits for its end
DEATHS, BUDGET = 4, 75.0  # of brokers, in so many seconds: one more would be quarantine
FAULTS = {  # how often each is drawn
    "kill": 8,
    "short freeze": 5,
    "long freeze": 3,
    "replace": 3,
    "leave": 4,
}


class Place:
    """A name, and who bears it; nobody for a while after a fault."""

    def __init__(self, name: str, role: str, start: Callable[[bool], Bearer]) -> None:
        self.name, self.role = name, role
        self.start = start  # told whether it replaces who lives
        self.bearer: Bearer | None = start(False)
        self.busy = False  # amid a fault


class Script:
    def __init__(self, stack: ExitStack, cast: Cast, seed: int) -> None:
        self.faults: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()  # of what the parties did
        self.longest = 0.0  # seconds that a start took
        self._cast = cast
        self._chance = random.Random(seed)
        self._places: list[Place] = []
        self._later: list[tuple[Callable[[], object], Callable[[], None], float, str]] = []
        self._deaths: deque[float] = deque(maxlen=DEATHS)
        self._last_freeze = time.monotonic() - FREEZES
        self._derived: dict[Bearer, list[str]] = {}
        self._moves = stack.enter_context(ThreadPoolExecutor(1))

    def warm_up(self) -> None:
        """Let those who stand have all links and threads that they will have."""
        first, ann = self._cast.supplier("first"), self._cast.analyst("ann")
        self._cast.wait_for(first, ann)
        assert first.get("offload", "boston") is None
        for number, place in enumerate(["boston", "hub", "supplier"]):
            assert ann.get("derive", f"ann {number}", "count", place) is None
        self.pass_(0.5)
        for each in (first, ann):
            each.leave()
            self._see_off(each, 0)
        self._as_at_the_begin()

    def fill(self) -> None:
        """Everybody who comes and goes is there."""
        cast = self._cast
        starts: dict[str, tuple[str, Callable[[str, bool], Bearer]]] = {
            "atlanta": ("broker", cast.broker),
            "dallas": ("broker", cast.broker),
            "first": ("supplier", lambda name, _: cast.supplier(name)),
            "second": ("supplier", lambda name, _: cast.supplier(name)),
            "subscriber": ("consumer", lambda name, _: cast.consumer(name)),
            "ann": ("analyst", lambda name, _: cast.analyst(name)),
            "bob": ("analyst", lambda name, _: cast.analyst(name)),
        }
        for name, (role, start) in starts.items():
            place = Place(name, role, lambda replace, n=name, start=start: start(n, replace))
            self._places.append(place)
        cast.wait_for(*self._present())

    def all_leave(self) -> None:
        """All but those that stand, in good order."""
        self._settle()
        for bearer in self._present():
            bearer.leave()
            self._see_off(bearer, 0)
        self._places.clear()
        self._as_at_the_begin()

    def _as_at_the_begin(self) -> None:
        """What is left of who has left goes, and the filter that stands is where it was."""
        self._settle()
        until(lambda: not self._left_over(), "leases run out")
        until(self._home, "the filter that stands is where it was")

    def _left_over(self) -> list[str]:
        return [
            each["name"]
            for each in self._cast.watch.status()["channels"]
            if not each["closed"] and each["name"] not in ("numbers", "count of counting")
        ]

    def _home(self) -> bool:
        try:
            self._cast.counted.move("boston")
        except MoveFailed:
            return False
        return True

    # --- time ---------------------------------------------------------------------------------

    def pass_(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            self._turn()
            if (left := end - time.monotonic()) <= 0:
                return
            time.sleep(min(left, LOOK))

    def _turn(self) -> None:
        """Look at everybody once, and do what is due."""
        for each in self._cast.everyone:
            if each.runs and not each.frozen:
                each.drain()
            if isinstance(each, Player):
                self._hear(each)
        later, self._later = self._later, []
        for entry in later:
            true, then, deadline, what = entry
            if true():
                then()
            else:
                assert time.monotonic() < deadline, f"in vain: {what}"
                self._later.append(entry)

    def _hear(self, player: Player) -> None:
        for what in list(player.answers):
            answer = player.answers.pop(what)
            if what == "derive" and answer is not None:
                mine = self._derived.get(player, [])
                if player.asked_for[0] in mine:  # it has not been killed since
                    mine.remove(player.asked_for[0])
            self._tell(what, answer)

    def _tell(self, what: str, answer: Any) -> None:
        kind = str(answer or "done").partition(":")[0]
        self.outcomes[f"{what}: {kind}"] += 1

    def _when(self, true: Callable[[], object], then: Callable[[], None], what: str) -> None:
        self._later.append((true, then, time.monotonic() + PATIENCE, what))

    def _after(self, seconds: float, then: Callable[[], None]) -> None:
        due = time.monotonic() + seconds
        self._when(lambda: time.monotonic() >= due, then, "time passes")

    def _settle(self) -> None:
        """Until nothing is under way."""

        def settled() -> bool:
            self._turn()
            busy = any(each.asked and each.runs for each in self._present())
            return not self._later and not busy

        until(settled, "all faults are over")

    def _present(self) -> Iterator[Bearer]:
        return (place.bearer for place in self._places if place.bearer is not None)

    # --- faults -------------------------------------------------------------------------------

    def fault(self) -> None:
        """One that is drawn, of one who can have it."""
        while True:
            kind = self._chance.choices(list(FAULTS), list(FAULTS.values()))[0]
            if fit := self._fit(kind):
                break
            self.pass_(LOOK)
        place = self._chance.choice(fit)
        if isinstance(place, Player):  # it stands: it survives what it may have
            self.faults[f"{kind}: stands"] += 1
            self._freeze(place, self._chance.uniform(*SHORT), lambda: None)
            return
        self.faults[f"{kind}: {place.role}"] += 1
        if kind in ("kill", "long freeze", "replace") and place.role == "broker":
            self._deaths.append(time.monotonic())
        bearer = place.bearer
        assert bearer is not None
        place.busy = True
        match kind:
            case "kill":
                bearer.end()
                self._gone(place, bearer)
                wait = self._chance.choice([0.0, 0.0, 0.0, 2.0])
                self._after(wait, lambda: self._start(place))
            case "short freeze":
                self._freeze(bearer, self._chance.uniform(*SHORT), lambda: self._free(place))
            case "long freeze":
                bearer.lost, self._last_freeze = True, time.monotonic()
                self._freeze(bearer, self._chance.uniform(*LONG), lambda: self._free(place))
            case "replace":
                self._replace(place, bearer)
            case "leave":
                bearer.leave()
                self._gone(place, bearer)
                self._see_off(bearer, 0, lambda: self._start(place))

    def _fit(self, kind: str) -> list[Place | Player]:
        """Those who can have a fault of this kind now."""
        free = [p for p in self._places if not p.busy and p.bearer is not None and p.bearer.ready]
        if kind in ("replace", "leave"):
            free = [p for p in free if p.bearer is None or not p.bearer.asked]
        if kind == "long freeze" and time.monotonic() - self._last_freeze < FREEZES:
            return []
        spent = len(self._deaths) == DEATHS and time.monotonic() - self._deaths[0] < BUDGET
        if spent and kind in ("kill", "long freeze", "replace"):
            free = [p for p in free if p.role != "broker"]
        if kind != "short freeze":
            return [*free]
        standing = [each.player for each in self._cast.standing]
        return [*free, *(each for each in standing if each.name != "hub" and not each.frozen)]

    def _gone(self, place: Place, bearer: Bearer) -> None:
        place.bearer = None
        self._derived.pop(bearer, None)

    def _start(self, place: Place) -> None:
        bearer = place.bearer = place.start(False)
        self._when_ready(bearer, lambda: self._free(place))

    def _free(self, place: Place) -> None:
        place.busy = False

    def _when_ready(self, bearer: Bearer, then: Callable[[], None]) -> None:
        begin = time.monotonic()

        def ready() -> bool:
            assert bearer.runs, f"{bearer.name} has ended with {bearer.code}"
            return bearer.ready

        def go_on() -> None:
            self.longest = max(self.longest, time.monotonic() - begin)
            then()

        self._when(ready, go_on, f"a new {bearer.name!r} is ready")

    def _freeze(self, bearer: Bearer, seconds: float, then: Callable[[], None]) -> None:
        freeze(bearer.pid)
        bearer.frozen = True

        def go_on() -> None:
            thaw(bearer.pid)
            bearer.frozen = False
            then()

        self._after(seconds, go_on)

    def _replace(self, place: Place, old: Bearer) -> None:
        """The old one lives, and is told that its name is another's. It would have the name again
        if the new one left first."""
        plays = isinstance(old, Player)
        if plays:  # it would keep its name while it answers
            freeze(old.pid)
            old.frozen = True
        old.ousted = True
        self._gone(place, old)
        new = place.bearer = place.start(True)

        def go_on() -> None:
            if plays:
                thaw(old.pid)
                old.frozen = False
                old.leave()
            self._see_off(old, 0 if plays else 2, lambda: self._free(place))

        self._when_ready(new, go_on)

    def _see_off(self, bearer: Bearer, code: int, then: Callable[[], None] = lambda: None) -> None:
        def gone() -> None:
            assert bearer.code == code, f"{bearer.name} has ended with {bearer.code}"
            then()

        self._when(lambda: not bearer.runs, gone, f"{bearer.name} ends")

    # --- what is done meanwhile ---------------------------------------------------------------

    def operation(self) -> None:
        idle = [
            place.bearer
            for place in self._places
            if isinstance(place.bearer, Player)
            and not place.busy
            and place.bearer.ready
            and not place.bearer.asked
        ]
        if not idle:
            return
        player = self._chance.choice(idle)
        brokers = ["hub", "boston", "atlanta", "dallas"]
        if player.name in ("first", "second"):
            player.tell("offload", self._chance.choice(brokers))
        elif player.name in ("ann", "bob"):
            self._analyse(player, self._chance.choice([*brokers, "supplier", "consumer"]))
        else:
            self._moves.submit(self._move, self._chance.choice(brokers))

    def _analyse(self, player: Player, at: str) -> None:
        mine = self._derived.setdefault(player, [])
        free = [n for n in (1, 2, 3) if f"{player.name} {n}" not in mine]
        what = self._chance.choice(["derive", "derive", "move", "close"])
        if (what == "derive" and free) or not mine:
            name = f"{player.name} {self._chance.choice(free)}"
            mine.append(name)
            player.tell("derive", name, self._chance.choice(["third", "count"]), at)
        elif what == "move":
            player.tell("move", self._chance.choice(mine), at)
        else:
            name = self._chance.choice(mine)
            mine.remove(name)
            player.tell("close", name)

    def _move(self, at: str) -> None:
        answer = ""
        try:
            self._cast.counted.move(at, timeout=c.MOVING)
        except ActiveBrokerError as error:
            answer = c.error_text(error)
        self._tell("move of what stands", answer)
