"""What happens in the matches of a game: hits, kills, pick-ups."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial, wraps
from typing import Any, ClassVar

from activebroker import Event, FIFOFilter

from .case import Case
from .drawing import NAN, contents, lists, maybe
from .helpers import between, clamp, documented
from .telemetry_events import SEASON_START, Hit, Mode, Player, Vector

logger = logging.getLogger("match")

MAX_SPEED = 12.5
HEADSHOT_WEAPONS = {"rifle": 1.0, "bow": 0.8, "pistol": 0.6}
MELEE = ("knife", "axe")
BOSSES = frozenset({"dragon", "hydra"})
SEASON = timedelta(weeks=12)
WEEKEND = (5, 6)


class Kills(FIFOFilter):
    """Kills of people by people."""

    def enqueue(self, event: Event) -> None:
        hit = event.content
        if hit.mode is Mode.TRAINING or hit.victim is None:
            return
        if hit.lethal and not (hit.attacker.bot or hit.victim.bot):
            super().enqueue(event)


class RankedKills(Kills):
    """Those that count: within the season, and in the smaller modes."""

    MODES: ClassVar[tuple[Mode, ...]] = (Mode.SOLO, Mode.DUO)

    def enqueue(self, event: Event) -> None:
        hit = event.content
        if hit.mode in self.MODES and SEASON_START <= hit.at < SEASON_START + SEASON:
            super().enqueue(event)


def long_shot(hit: Hit) -> bool:
    factor = HEADSHOT_WEAPONS.get(hit.weapon or "", 0.0)
    return factor * hit.distance > 200 and "headshot" in hit.effects


def too_fast(hit: Hit) -> bool:
    return hit.velocity.squared() > MAX_SPEED * MAX_SPEED


def impossible_melee(hit: Hit) -> bool:
    if hit.weapon not in MELEE:
        return False
    reach = 3.0 if hit.weapon == "axe" else 2.0
    return hit.distance > reach + 0.5


def friendly_fire(hit: Hit) -> bool:
    return hit.friendly and hit.damage > 0


def newcomer_stomped(hit: Hit) -> bool:
    if hit.victim is None:
        return False
    gap = hit.attacker.level - hit.victim.level
    return hit.victim.is_newcomer and gap >= 20


def boss_hit(hit: Hit) -> bool:
    return hit.target.lower().split(":")[0] in BOSSES and hit.damage > 10


def overkill(hit: Hit) -> bool:
    rest = hit.damage - clamp(hit.health, 0, 100)
    return round(rest) >= 50


def area_damage(hit: Hit) -> bool:
    match hit.effects:
        case []:
            return False
        case ["burn" | "poison", *_]:
            return True
        case [only]:
            return only == "blast"
    return len(hit.effects) > 2


def mode_rule(hit: Hit) -> bool:
    match hit:
        case Hit(mode=Mode.TRAINING):
            return False
        case Hit(weapon=None, damage=damage):
            return damage > 0
        case Hit(attacker=Player(level=level, bot=False)) if level >= 50:
            return hit.distance > 100
        case _:
            return False


def weekend_bonus(hit: Hit) -> bool:
    return hit.at.weekday() in WEEKEND and hit.at.hour in range(18, 24) and hit.attacker.premium


def soon_over(hit: Hit) -> bool:
    left = SEASON_START + SEASON - hit.at
    return timedelta(0) < left <= timedelta(days=7)


def known_cheater(hit: Hit) -> bool:
    return hit.by("zero", "Neo") or hit.attacker.name.strip("_").startswith("xX")


def ranks(hit: Hit, *, low: int, high: int) -> bool:
    return between(hit.attacker.level, low, high) and getattr(hit, "mode") == Mode.SOLO  # noqa: B009


def not_in_training(rule: Callable[[Hit], bool]) -> Callable[[Hit], bool]:
    @wraps(rule)
    def wrapper(hit: Hit) -> bool:
        if hit.mode == Mode.TRAINING:
            return False
        return rule(hit)

    return wrapper


@documented
@not_in_training
def critical(hit: Hit) -> bool:
    return hit.damage >= 0.8 * max(hit.health, 1) or "critical" in hit.effects


def above(limit: float, weapons: tuple[str, ...]) -> Callable[[Hit], bool]:
    floor = limit / 2

    def rule(hit: Hit) -> bool:
        if hit.weapon in weapons:
            return hit.damage > limit
        return hit.damage > floor and hit.attacker.level < 10

    return rule


def milestone(hit: Hit) -> bool:
    """Levels at which a badge is given: 10, 20, 40, 80."""
    level = 10
    while level <= 80:
        if hit.attacker.level == level:
            return hit.lethal
        level = level * 2
    return False


def labelled(hit: Any) -> bool:
    if not isinstance(hit.damage, float) or hit.damage < 0:
        raise ValueError(f"bad damage: {hit.damage}")
    return f"{hit.attacker.name}#{hit.attacker.level}" == "Neo#50"


class Streak(FIFOFilter):
    """The third kill of a player in a match, of those that are no bots."""

    def __init__(self, length: int = 3) -> None:
        super().__init__()
        self.length = length
        self.kills: Counter[tuple[int, str]] = Counter()

    def enqueue(self, event: Event) -> None:
        hit = event.content
        if hit.lethal and not hit.attacker.bot:
            key = (hit.match, hit.attacker.name)
            self.kills[key] += 1
            if self.kills[key] == self.length:
                super().enqueue(event)


class Outliers(FIFOFilter):
    """Damage far above what a weapon does on the average."""

    def __init__(self, weapon: str, factor: float = 2.0) -> None:
        super().__init__()
        self.weapon = weapon
        self.factor = factor
        self.recent: deque[float] = deque(maxlen=20)

    def enqueue(self, event: Event) -> None:
        hit = event.content
        if hit.weapon != self.weapon or not hit.damage > 0:
            return
        if len(self.recent) >= 3:
            mean = sum(self.recent) / len(self.recent)
            if hit.damage > self.factor * mean:
                super().enqueue(event)
        self.recent.append(hit.damage)


class MatchEnds(FIFOFilter):
    """The first hit of each new match: remembers the number of the last."""

    def __init__(self) -> None:
        super().__init__()
        self.current: int | None = None

    def enqueue(self, event: Event) -> None:
        previous, self.current = self.current, event.content.match
        if previous != self.current:
            super().enqueue(event)


class Halved(FIFOFilter):
    """Every other lethal hit; turns round with each event."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = (True, False)

    def enqueue(self, event: Event) -> None:
        first, second = self.pair
        self.pair = (second, first)
        if first and event.content.lethal:
            super().enqueue(event)


class Profiled(FIFOFilter):
    """Measures how long it takes itself, with every event."""

    def __init__(self) -> None:
        super().__init__()
        self.spent = 0.0

    def enqueue(self, event: Event) -> None:
        begin = time.perf_counter()
        try:
            if event.content.damage > 50:
                super().enqueue(event)
        finally:
            self.spent += time.perf_counter() - begin


class Leaderboard(FIFOFilter):
    """Keeps the scores of known players; the others are not on the board."""

    def __init__(self, *players: str) -> None:
        super().__init__()
        self.scores = dict.fromkeys(players, 0)

    def enqueue(self, event: Event) -> None:
        hit = event.content
        if hit.damage < 1:
            return
        with suppress(KeyError):
            self.scores[hit.attacker.name] += int(hit.damage)
            super().enqueue(event)


class Capped(FIFOFilter):
    """Caps the damage, where it is more than there is of health."""

    def enqueue(self, event: Event) -> None:
        forward = super().enqueue
        hit = event.content
        if hit.target != "player":
            return
        if hit.damage > hit.health:
            event = event.replace(replace(hit, damage=float(hit.health)))
        forward(event)


player = contents(
    Player,
    name=("Neo", "zero", "_xX_", "ann", "xXx"),
    level=(1, 4, 5, 9, 10, 20, 24, 40, 50, 80),
    clan=(None, "red", "blue"),
    premium=(True, False),
    bot=(False, False, True),
)()
hits = contents(
    Hit,
    match=(1, 2, 3),
    mode=tuple(Mode),
    attacker=player,
    victim=maybe(player),
    target=("player", "Dragon:head", "hydra", "tree", ""),
    weapon=(None, "rifle", "bow", "pistol", "knife", "axe"),
    damage=(-1.0, 0.0, 10.0, 10.5, 25.0, 50.5, 80.0, 99.0, 150.0, NAN),
    distance=(0.5, 2.5, 2.6, 3.6, 100.0, 100.5, 201.0, 260.0, 340.0),
    health=(0, 1, 20, 60, 100),
    armor=(0, 25, 50),
    velocity=contents(
        Vector, x=(0.0, 5.0, 12.5), y=(0.0, 5.0, 10.0), z=(0.0, 0.5, 0.6, 3.0, NAN)
    )(),
    effects=lists(("headshot", "burn", "blast", "critical"), 3),
    at=(
        SEASON_START - timedelta(microseconds=1),
        SEASON_START,
        SEASON_START + timedelta(days=5, hours=18),
        SEASON_START + timedelta(days=6, hours=17, minutes=59),
        SEASON_START + SEASON - timedelta(days=7),
        SEASON_START + SEASON - timedelta(days=8),
        SEASON_START + SEASON,
    ),
)

LETHAL = "damage >= health + armor // 2"
CASES: list[Case] = [
    Case(
        Kills,
        f"NOT (mode = 'TRAINING' OR victim IS NULL) AND {LETHAL}"
        " AND NOT (attacker.bot OR victim.bot)",
        True, hits(), Hit,
        ("enum", "is-none", "early-return", "event-property", "nested-dataclass", "truthiness"),
    ),
    Case(
        RankedKills,
        "mode IN ('SOLO', 'DUO') AND TIMESTAMP '2024-04-01 00:00:00' <= at"
        " AND at < TIMESTAMP '2024-06-24 00:00:00'"
        f" AND NOT (mode = 'TRAINING' OR victim IS NULL) AND {LETHAL}"
        " AND NOT (attacker.bot OR victim.bot)",
        True, hits(), Hit,
        ("super-chain", "class-constant", "enum", "datetime-naive", "timedelta", "chain"),
    ),
    Case(
        long_shot,
        "CASE WHEN weapon = 'rifle' THEN 1.0 ELSE CASE WHEN weapon = 'bow' THEN 0.8"
        " ELSE CASE WHEN weapon = 'pistol' THEN 0.6 ELSE 0.0 END END END * distance > 200"
        " AND contains(effects, 'headshot')",
        True, hits(distance=(100.0, 201.0, 260.0, 340.0)), Hit,
        ("in-dict", "truthiness", "arithmetic", "substring", "local"),
    ),
    Case(
        too_fast,
        "velocity.x * velocity.x + velocity.y * velocity.y + velocity.z * velocity.z > 156.25",
        True, hits(), Hit, ("event-method", "arithmetic", "nested-dataclass", "module-constant"),
    ),
    Case(
        impossible_melee,
        "weapon IN ('knife', 'axe') AND distance > CASE WHEN weapon = 'axe' THEN 3.0 ELSE 2.0 END"
        " + 0.5",
        True, hits(), Hit, ("not-in", "in-tuple", "ternary", "arithmetic", "early-return"),
    ),
    Case(
        friendly_fire,
        "victim IS NOT NULL AND attacker.clan IS NOT NULL AND attacker.clan = victim.clan"
        " AND damage > 0",
        True, hits(), Hit, ("event-property", "is-none", "nested-dataclass", "field-with-field"),
    ),
    Case(
        newcomer_stomped,
        "victim IS NOT NULL AND victim.level < 5 AND NOT victim.premium"
        " AND attacker.level - victim.level >= 20",
        True, hits(), Hit,
        ("event-property", "global", "nested-dataclass", "early-return", "field-with-field"),
    ),
    Case(
        boss_hit,
        "(lower(target) = 'dragon' OR startswith(lower(target), 'dragon:')"
        " OR lower(target) = 'hydra' OR startswith(lower(target), 'hydra:')) AND damage > 10",
        True, hits(), Hit, ("case-change", "in-set", "boolean"),
    ),
    Case(
        overkill,
        "round(damage - max(0, min(100, health))) >= 50",
        True, hits(), Hit, ("round", "min-max", "imported-helper", "local"),
    ),
    Case(
        area_damage,
        "len(effects) > 0 AND (effects[0] IN ('burn', 'poison')"
        " OR len(effects) = 1 AND effects[0] = 'blast' OR len(effects) > 2)",
        True, hits(), Hit, ("match", "len", "early-return"),
    ),
    Case(
        mode_rule,
        "mode != 'TRAINING' AND (weapon IS NULL AND damage > 0 OR weapon IS NOT NULL"
        " AND attacker.bot = FALSE AND attacker.level >= 50 AND distance > 100)",
        True, hits(), Hit, ("match", "enum", "is-none", "nested-dataclass"),
    ),
    Case(
        weekend_bonus,
        "weekday(at) IN (5, 6) AND hour(at) >= 18 AND hour(at) < 24 AND attacker.premium",
        True, hits(), Hit, ("datetime-part", "in-tuple", "in-range", "truthiness"),
    ),
    Case(
        soon_over,
        "INTERVAL 0 < TIMESTAMP '2024-06-24 00:00:00' - at"
        " AND TIMESTAMP '2024-06-24 00:00:00' - at <= INTERVAL 604800",
        True, hits(), Hit, ("datetime-naive", "timedelta", "chain", "local", "module-constant"),
    ),
    Case(
        known_cheater,
        "attacker.name IN ('zero', 'Neo') OR startswith(strip(attacker.name, '_'), 'xX')",
        True, hits(), Hit, ("event-method", "in-tuple", "strip", "startswith-endswith"),
    ),
    Case(
        partial(ranks, low=10, high=40),
        "10 <= attacker.level AND attacker.level <= 40 AND mode = 'SOLO'",
        True, hits(), Hit, ("partial", "getattr", "imported-helper", "enum", "chain"),
    ),
    Case(
        critical,
        "mode != 'TRAINING' AND (damage >= 0.8 * max(health, 1) OR contains(effects, 'critical'))",
        True, hits(), Hit, ("decorator", "min-max", "enum", "substring", "arithmetic"),
    ),
    Case(
        above(80.0, ("rifle", "bow")),
        "weapon IN ('rifle', 'bow') AND damage > 80.0"
        " OR weapon NOT IN ('rifle', 'bow') AND damage > 40.0 AND attacker.level < 10",
        True, hits(), Hit, ("closure", "in-tuple", "arithmetic", "early-return"),
    ),
    Case(
        milestone, f"attacker.level IN (10, 20, 40, 80) AND {LETHAL}", True, hits(), Hit,
        ("while", "event-property", "early-return", "local"),
    ),
    Case(
        labelled,
        "NOT isinstance(damage, 'float') OR damage < 0"
        " OR attacker.name + '#' + str(attacker.level) = 'Neo#50'",
        False, hits(), Hit, ("raise", "isinstance", "f-string", "nested-dataclass"),
    ),
    Case(
        Streak, f"{LETHAL} AND NOT attacker.bot", False, hits(), Hit,
        ("state-counter", "event-property", "default-argument", "truthiness"),
    ),
    Case(
        Outliers, "NOT (weapon != 'rifle' OR NOT damage > 0)", False, hits(), Hit,
        ("state-average", "early-return", "parameter", "len"), args=("rifle",),
    ),
    Case(MatchEnds, "TRUE", False, hits(), Hit, ("state-change", "unpacking")),
    Case(Halved, "TRUE", False, hits(), Hit, ("state-change", "unpacking", "event-property")),
    Case(Profiled, "TRUE", False, hits(), Hit, ("finally", "try", "unknown-call", "state-counter")),
    Case(
        Leaderboard, "NOT damage < 1 AND attacker.name IN ('Neo', 'ann')", False, hits(), Hit,
        ("with", "state-counter", "conversion", "early-return", "parameter", "in-dict"),
        args=("Neo", "ann"),
    ),
    Case(
        Capped, "target = 'player'", False, hits(), Hit,
        ("transform", "alias", "early-return", "field-with-field"),
    ),
    Case(
        lambda hit: "burn" in hit.effects and hit.velocity.airborne and hit.mode != Mode.TRAINING,
        "contains(effects, 'burn') AND velocity.z > 0.5 AND mode != 'TRAINING'",
        True, hits(), Hit, ("lambda", "event-property", "enum", "substring"),
    ),
]  # fmt: skip
