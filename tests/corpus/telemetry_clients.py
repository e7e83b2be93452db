"""How the clients of a game fare: frame rates, connections, crashes, purchases."""

from __future__ import annotations

import logging
import os
import random
import re
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

from activebroker import Event, FIFOFilter

from .case import Case
from .drawing import NAN, contents, lists, maybe
from .helpers import between, documented, matches_any, normalized, percent_change
from .telemetry_events import Beat, Device, Network, Platform, Purchase

logger = logging.getLogger(__name__)

TARGET_FPS = {"pc": 60, "console": 30, "mobile": 30}
BUILD = re.compile(r"(?P<major>\d+)\.(?P<minor>\d+)\.(?P<patch>\d+)(-\w+)?")
CRASH_MODULES = ("d3d11", "nvogl", "amdxx")
BAD_REGIONS = {"sa-east", "af-south"}
PATCH_DAY = datetime(2024, 5, 14, 10, 0, tzinfo=UTC)
CURRENCY_DIGITS = {"JPY": 0, "KRW": 0}
lag_limit = 150


class Production(FIFOFilter):
    """What does not come from our own testers."""

    def enqueue(self, event: Event) -> None:
        if not event.content.is_test:
            super().enqueue(event)


class Lag(Production):
    LIMITS: ClassVar[dict[str, int]] = {"eu-west": 80, "us-east": 100}

    def enqueue(self, event: Event) -> None:
        beat = event.content
        limit = self.LIMITS.get(beat.region, lag_limit)
        if beat.ping <= limit:
            return
        super().enqueue(event)


class WifiLag(Lag):
    def enqueue(self, event: Event) -> None:
        if event.content.network in (Network.WIFI, Network.CELLULAR):
            Lag.enqueue(self, event)


class AnyLag(Lag):
    """Of testers too: goes past the filter between."""

    def enqueue(self, event: Event) -> None:
        if event.content.ping > 2 * lag_limit:
            FIFOFilter.enqueue(self, event)
        elif event.content.loss >= 0.2:
            super(Production, self).enqueue(event)


def low_fps(beat: Beat) -> bool:
    target = 60 if beat.device.platform is Platform.PC else 30
    return 0 < beat.fps < target * 0.75


def target_missed(beat: Beat) -> bool:
    """The same by the table of targets."""
    return beat.fps < TARGET_FPS[beat.device.platform.value]


def frame_drop(beat: Beat) -> bool:
    return beat.dropped() or (beat.dropped(0.8) and beat.loss > 0.05)


def worse_than_before(beat: Beat) -> bool:
    if not beat.baseline:
        return False
    return percent_change(beat.baseline, beat.fps) < -20.0


def old_build(beat: Beat) -> bool:
    if BUILD.fullmatch(beat.build) is None:
        return True
    return beat.build.startswith(("0.", "1.0", "1.1"))


def crash_in_driver(beat: Beat) -> bool:
    if beat.kind != "crash" or beat.message is None:
        return False
    return matches_any(beat.message, CRASH_MODULES)


def out_of_memory(beat: Beat) -> bool:
    text = normalized(beat.message)
    return re.search(r"out of memory|bad_alloc", text) is not None or text == "oom"


def small_device(beat: Beat) -> bool:
    return beat.device.is_small and beat.device.platform != Platform.PC


def jittery(beat: Beat) -> bool:
    quality = 100 - min(beat.ping, 500) / 10 - beat.loss * 100
    if quality < 40:
        return True
    return quality < 70 and beat.network is Network.CELLULAR


def long_session(beat: Beat) -> bool:
    return beat.playing >= timedelta(hours=6) and beat.playing / timedelta(hours=1) < 24


def patch_day(beat: Beat) -> bool:
    at = beat.at
    return (at - PATCH_DAY).days == 0 if at >= PATCH_DAY else False


def whale(beat: Beat) -> bool:
    if (purchase := beat.purchase) is None or purchase.gift:
        return False
    return purchase.price >= 100 or purchase.item == "founder pack"


@lru_cache(maxsize=32)
def digits(currency: str) -> int:
    return CURRENCY_DIGITS.get(currency.upper(), 2)


def strange_price(beat: Beat) -> bool:
    purchase = beat.purchase
    if purchase is None:
        return False
    return abs(round(purchase.price, digits(purchase.currency)) - purchase.price) > 0.0001


def gift_abroad(beat: Any, region: str = "eu") -> bool:
    return beat.purchase.gift and not beat.region.startswith(region + "-")


def bucket(beat: Beat, *, of: int, wanted: tuple[int, ...]) -> bool:
    """An experiment takes a part of the players, by their number."""
    return beat.player % of in wanted


def flagged(*flags: str) -> Callable[[Beat], bool]:
    def rule(beat: Beat) -> bool:
        return all(flag in beat.flags for flag in flags) and beat.player > 0

    return rule


@documented
def bad_region(beat: Beat) -> bool:
    name = beat.region
    return name in BAD_REGIONS or name[:3] == "xx-"


class Reconnects(FIFOFilter):
    """A player that connects for the fourth time in ten minutes."""

    def __init__(self, player: int) -> None:
        super().__init__()
        self.player = player
        self.times: deque[datetime] = deque()

    def enqueue(self, event: Event) -> None:
        beat = event.content
        if beat.player != self.player or beat.kind != "connect":
            return
        self.times.append(beat.at)
        while self.times and beat.at - self.times[0] > timedelta(minutes=10):
            self.times.popleft()
        if len(self.times) >= 4:
            super().enqueue(event)


class SmoothedFps(FIFOFilter):
    """Warns when the smoothed frame rate crosses a limit, and forwards that beat."""

    def __init__(self, limit: float = 30.0) -> None:
        super().__init__()
        self.limit = limit
        self.value = 60.0

    def enqueue(self, event: Event) -> None:
        beat = event.content
        if beat.kind == "heartbeat" and between(beat.fps, 1.0, 1_000.0):
            before = self.value
            self.value = 0.7 * before + 0.3 * beat.fps
            if self.value < self.limit <= before:
                logger.warning("frame rate of %s has dropped", beat.session)
                super().enqueue(event)


class Tagged(FIFOFilter):
    """Gives every beat a number of its own, and forwards the crashes."""

    def enqueue(self, event: Event) -> None:
        number = uuid.uuid4().hex
        if event.content.kind == "crash":
            super().enqueue(event.replace(replace(event.content, session=number)))


class RandomSample(FIFOFilter):
    """A share of the beats, drawn at random."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.random = random.Random(17)
        self.share = share

    def enqueue(self, event: Event) -> None:
        if self.random.random() < self.share and event.content.ping > 80:
            super().enqueue(event)


class Archive(FIFOFilter):
    """Appends each crash to a file; what is archived goes on."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def enqueue(self, event: Event) -> None:
        beat = event.content
        if beat.kind != "crash":
            return
        with Path(self.path).open("a", encoding="utf-8") as file:
            file.write(f"{beat.session}\t{beat.message}\n")
        super().enqueue(event)


class Hidden(FIFOFilter):
    """Hides the players of purchases; other beats of the shop are an error."""

    def enqueue(self, event: Event) -> None:
        beat = event.content
        if beat.kind == "heartbeat":
            return
        if beat.kind == "purchase" and beat.purchase is None:
            raise ValueError(f"{beat.session}: a purchase of nothing")
        if beat.purchase is not None:
            super().enqueue(event.replace(replace(beat, player=0)))


patch = PATCH_DAY
beats = contents(
    Beat,
    session=("test-1", "s-1", "s-2", "s-3"),
    player=(0, 7, 17, 42, 100),
    kind=("heartbeat", "connect", "crash", "purchase"),
    device=contents(
        Device,
        model=("a", "b"),
        platform=tuple(Platform),
        memory=(None, 2_048, 4_095, 4_096, 16_384),
        driver=(None, "551.23"),
    )(),
    network=(None, *Network),
    region=("eu-west", "us-east", "sa-east", "af-south", "xx-test", "eu-north"),
    build=("1.2.3", "1.0.9", "0.9.1-beta", "2.0.0-rc1", "1.2", "dev"),
    fps=(0.0, 15.0, 22.4, 22.5, 29.9, 30.0, 44.9, 45.0, 59.9, 60.0, 144.0, NAN),
    baseline=(None, 0.0, 30.0, 60.0, 75.0, NAN),
    ping=(10, 80, 81, 100, 101, 150, 151, 301, 600),
    loss=(0.0, 0.05, 0.06, 0.2, 0.5),
    message=(None, "", "Fault in NVOGL64.dll", "std::bad_alloc", " OOM ", "Out of memory", "x"),
    purchase=maybe(
        contents(
            Purchase,
            item=("skin", "founder pack"),
            price=(0.0, 9.99, 99.999, 100.0, 120.5),
            currency=("EUR", "jpy", "KRW"),
            gift=(True, False),
        )(),
        0.3,
    ),
    flags=lists(("internal", "beta", "hdr", "vr"), 3),
    started=(patch - timedelta(hours=5), patch - timedelta(hours=6), patch - timedelta(days=1)),
    at=(
        patch - timedelta(seconds=1),
        patch,
        patch + timedelta(minutes=9),
        patch + timedelta(hours=23, minutes=59),
        patch + timedelta(days=1),
    ),
)

TEST = "(startswith(session, 'test-') OR contains(flags, 'internal'))"
LAG_LIMIT = (
    "CASE WHEN region = 'eu-west' THEN 80 ELSE CASE WHEN region = 'us-east' THEN 100"
    " ELSE 150 END END"
)
QUALITY = "100 - min(ping, 500) / 10 - loss * 100"
MESSAGE = "lower(strip(CASE WHEN message THEN message ELSE '' END))"
CASES: list[Case] = [
    Case(
        Production, f"NOT {TEST}", True, beats(), Beat,
        ("event-property", "startswith-endswith", "substring"),
    ),
    Case(
        Lag, f"NOT ping <= {LAG_LIMIT} AND NOT {TEST}", True, beats(), Beat,
        ("super-chain", "class-constant", "in-dict", "global", "early-return"),
    ),
    Case(
        WifiLag,
        f"network IN ('WIFI', 'CELLULAR') AND NOT ping <= {LAG_LIMIT} AND NOT {TEST}",
        True, beats(), Beat, ("base-call", "super-chain", "enum", "in-tuple"),
    ),
    Case(
        AnyLag, "ping > 300 OR loss >= 0.2", True, beats(), Beat,
        ("base-call", "super-chain", "if-elif", "global"),
    ),
    Case(
        low_fps,
        "0 < fps AND fps < CASE WHEN device.platform = 'PC' THEN 60 ELSE 30 END * 0.75",
        True, beats(), Beat, ("ternary", "chain", "enum", "nested-dataclass", "arithmetic"),
    ),
    Case(
        target_missed,
        "device.platform = 'PC' AND fps < 60"
        " OR device.platform IN ('CONSOLE', 'MOBILE') AND fps < 30",
        True, beats(), Beat, ("in-dict", "enum", "nested-dataclass", "module-constant"),
    ),
    Case(
        frame_drop,
        "baseline IS NOT NULL AND fps < baseline * 0.5"
        " OR baseline IS NOT NULL AND fps < baseline * 0.8 AND loss > 0.05",
        True, beats(), Beat, ("event-method", "default-argument", "is-none", "field-with-field"),
    ),
    Case(
        worse_than_before, "baseline AND (fps - baseline) / baseline * 100.0 < -20.0",
        True, beats(), Beat, ("truthiness", "imported-helper", "arithmetic", "early-return"),
    ),
    Case(
        old_build,
        "NOT fullmatch(build, '(?P<major>\\d+)\\.(?P<minor>\\d+)\\.(?P<patch>\\d+)(-\\w+)?')"
        " OR startswith(build, '0.') OR startswith(build, '1.0') OR startswith(build, '1.1')",
        True, beats(), Beat, ("regex-precompiled", "startswith-endswith", "early-return"),
    ),
    Case(
        crash_in_driver,
        "NOT (kind != 'crash' OR message IS NULL) AND (contains(lower(message), 'd3d11')"
        " OR contains(lower(message), 'nvogl') OR contains(lower(message), 'amdxx'))",
        True, beats(), Beat, ("imported-helper", "is-none", "any-all-gen", "case-change"),
    ),
    Case(
        out_of_memory,
        f"search({MESSAGE}, 'out of memory|bad_alloc') OR {MESSAGE} = 'oom'",
        True, beats(), Beat, ("regex", "imported-helper", "strip", "case-change", "local"),
    ),
    Case(
        small_device,
        "(device.memory IS NULL OR device.memory < 4096) AND device.platform != 'PC'",
        True, beats(), Beat, ("event-property", "nested-dataclass", "is-none", "enum"),
    ),
    Case(
        jittery, f"{QUALITY} < 40 OR {QUALITY} < 70 AND network = 'CELLULAR'",
        True, beats(), Beat, ("arithmetic", "min-max", "enum", "local", "early-return"),
    ),
    Case(
        long_session,
        "at - started >= INTERVAL 21600 AND (at - started) / INTERVAL 3600 < 24",
        True, beats(), Beat, ("timedelta", "datetime-aware", "event-property", "arithmetic"),
    ),
    Case(
        patch_day,
        "at >= TIMESTAMP '2024-05-14 10:00:00+00:00'"
        " AND at - TIMESTAMP '2024-05-14 10:00:00+00:00' < INTERVAL 86400",
        True, beats(), Beat, ("ternary", "timedelta", "datetime-aware", "local"),
    ),
    Case(
        whale,
        "NOT (purchase IS NULL OR purchase.gift)"
        " AND (purchase.price >= 100 OR purchase.item = 'founder pack')",
        True, beats(), Beat, ("walrus", "is-none", "nested-dataclass", "truthiness"),
    ),
    Case(
        strange_price,
        "purchase IS NOT NULL AND abs(round(purchase.price, CASE WHEN upper(purchase.currency)"
        " IN ('JPY', 'KRW') THEN 0 ELSE 2 END) - purchase.price) > 0.0001",
        True, beats(), Beat, ("lru-cache", "round", "abs", "in-dict", "case-change", "is-none"),
    ),
    Case(
        gift_abroad, "purchase.gift AND NOT startswith(region, 'eu-')", True, beats(), Beat,
        ("default-argument", "concatenation", "nested-dataclass", "truthiness"),
    ),
    Case(
        partial(bucket, of=10, wanted=(7, 2)), "player % 10 IN (7, 2)", True, beats(), Beat,
        ("partial", "arithmetic", "in-tuple"),
    ),
    Case(
        flagged("beta", "vr"), "contains(flags, 'beta') AND contains(flags, 'vr') AND player > 0",
        True, beats(), Beat, ("closure", "any-all-gen", "substring"),
    ),
    Case(
        bad_region, "region IN ('af-south', 'sa-east') OR startswith(region, 'xx-')",
        True, beats(), Beat, ("decorator", "in-set", "substring", "local"),
    ),
    Case(
        Reconnects, "NOT (player != 7 OR kind != 'connect')", False,
        beats(player=(7, 42), kind=("connect", "crash")), Beat,
        ("state-rate", "while", "timedelta", "parameter", "early-return"), args=(7,),
    ),
    Case(
        SmoothedFps, "kind = 'heartbeat' AND 1.0 <= fps AND fps <= 1000.0", False,
        beats(kind=("heartbeat", "crash"), fps=(0.0, 15.0, 22.5, 30.0, 60.0, 144.0, NAN)), Beat,
        ("state-average", "logging", "imported-helper", "chain", "default-argument"),
    ),
    Case(
        Tagged, "TRUE", False, beats(), Beat, ("unknown-call", "transform"),
    ),
    Case(
        RandomSample, "TRUE", False, beats(), Beat, ("unknown-call", "parameter", "state-change"),
        args=(0.5,),
    ),
    Case(
        Archive, "kind = 'crash'", False, beats(), Beat,
        ("with", "io", "f-string", "parameter", "early-return"), args=(os.devnull,),
    ),
    Case(
        Hidden,
        "kind != 'heartbeat' AND (kind = 'purchase' AND purchase IS NULL OR purchase IS NOT NULL)",
        False, beats(), Beat, ("raise", "transform", "is-none", "early-return", "f-string"),
    ),
    Case(
        lambda beat: beat.loss * 100 > 5 and beat.ping > beat.fps, "loss * 100 > 5 AND ping > fps",
        True, beats(), Beat, ("lambda", "arithmetic", "field-with-field"),
    ),
]  # fmt: skip
