"""What the servers and clients of a game report."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated

from activebroker import Zone

SEASON_START = datetime(2024, 4, 1)
minimum_level = 5


class Mode(Enum):
    SOLO = 1
    DUO = 2
    SQUAD = 4
    TRAINING = 0


@dataclass(frozen=True)
class Vector:
    x: float
    y: float
    z: float

    def squared(self) -> float:
        return self.x * self.x + self.y * self.y + self.z * self.z

    @property
    def airborne(self) -> bool:
        return self.z > 0.5


@dataclass(frozen=True)
class Player:
    name: str
    level: int
    clan: str | None
    premium: bool
    bot: bool = False

    @property
    def is_newcomer(self) -> bool:
        return self.level < minimum_level and not self.premium


@dataclass(frozen=True)
class Hit:
    match: int
    mode: Mode
    attacker: Player
    victim: Player | None
    target: str
    weapon: str | None
    damage: float
    distance: float
    health: int
    armor: int
    velocity: Vector
    effects: list[str] = field(default_factory=list)
    at: datetime = SEASON_START

    @property
    def lethal(self) -> bool:
        return self.damage >= self.health + self.armor // 2

    @property
    def friendly(self) -> bool:
        return (
            self.victim is not None
            and self.attacker.clan is not None
            and self.attacker.clan == self.victim.clan
        )

    def by(self, *names: str) -> bool:
        return self.attacker.name in names


class Platform(Enum):
    PC = "pc"
    CONSOLE = "console"
    MOBILE = "mobile"


class Network(Enum):
    WIRED = 1
    WIFI = 2
    CELLULAR = 3


@dataclass(frozen=True)
class Device:
    model: str
    platform: Platform
    memory: int | None
    driver: str | None

    @property
    def is_small(self) -> bool:
        return self.memory is None or self.memory < 4_096


@dataclass(frozen=True)
class Purchase:
    item: str
    price: float
    currency: str
    gift: bool


@dataclass(frozen=True)
class Beat:
    session: str
    player: int
    kind: str
    device: Device
    network: Network | None
    region: str
    build: str
    fps: float
    baseline: float | None
    ping: int
    loss: float
    message: str | None
    purchase: Purchase | None
    flags: list[str]
    started: Annotated[datetime, Zone("UTC")]
    at: Annotated[datetime, Zone("UTC")]

    @property
    def playing(self) -> timedelta:
        return self.at - self.started

    @property
    def is_test(self) -> bool:
        return self.session.startswith("test-") or "internal" in self.flags

    def dropped(self, share: float = 0.5) -> bool:
        return self.baseline is not None and self.fps < self.baseline * share
