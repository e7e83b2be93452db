"""Events with a field of every kind."""

from __future__ import annotations

import enum
import functools
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from random import Random
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import numpy as np
from namesakes_for_tests import Color as Other

from activebroker import Precision, Shape, Zone

BERLIN = ZoneInfo("Europe/Berlin")


class Color(Enum):
    RED = "red"
    BLUE = 2
    GREY = None


class Level(enum.IntEnum):
    LOW = 0
    MID = 1
    ERROR = 2


class Mood(str, Enum):  # noqa: UP042 - another kind than StrEnum
    A = "a"
    B = "b"
    NONE = ""


class Tone(enum.StrEnum):
    A = "a"
    RED = "RED"


class Weight(float, Enum):
    ONE = 1.0
    HALF = 0.5


class Shifted(int, Enum):
    """Its members are other numbers than their values."""

    ONE = 1
    TWO = 2

    def __new__(cls, value: int) -> Shifted:
        made = int.__new__(cls, value + 1)
        made._value_ = value
        return made


class Alike(Enum):
    """Has an equality of its own."""

    X = 1
    Y = 2

    def __eq__(self, other: object) -> bool:
        return other == 1 or isinstance(other, Alike)

    def __hash__(self) -> int:
        return 1


class Hollow(Enum):
    """Has a truth and an order of its own."""

    X = 0
    Y = 1

    def __bool__(self) -> bool:
        return self is Hollow.Y

    def __lt__(self, other: object) -> bool:
        return True


class Sized(Enum):
    X = 0
    Y = 1

    def __len__(self) -> int:
        return int(self is Sized.Y)

    @property
    def value(self) -> int:
        return 1


class Hashed(enum.IntEnum):
    ONE = 1
    TWO = 2

    def __hash__(self) -> int:
        return 7


class Added(enum.IntEnum):
    ONE = 1
    TWO = 2

    def __add__(self, other: object) -> int:
        return 5

    __radd__ = __add__


class Perm(enum.IntFlag):
    R = 1
    W = 2


class Way(enum.Flag):
    IN = 1
    OUT = 2


@functools.lru_cache
def cached(value: Any) -> Any:
    return value


@dataclass
class Inner:
    x: int | None
    side: Color | None = None
    level: Level = Level.LOW

    @property
    def double(self) -> int | None:
        return None if self.x is None else self.x * 2


@dataclass
class Thing:
    """`row` and `part` say which filter the event is for; a, b, c and r are what `Writer` knows."""

    row: int
    part: int
    a: int | None
    b: float | None
    c: str
    r: Inner
    i: int
    f: float
    flag: bool
    truth: bool | None
    text: str | None
    y: bytes
    price: Annotated[Decimal, Precision(8, 2)]
    wide: Decimal | None
    d: date
    t: datetime
    z: Annotated[datetime, Zone("Europe/Berlin")]
    u: Annotated[datetime, Zone("UTC")] | None
    color: Color
    tint: Color | None
    other: Other
    level: Level
    maybe_level: Level | None
    mood: Mood
    tone: Tone | None
    weight: Weight
    shifted: Shifted
    alike: Alike
    hollow: Hollow
    sized: Sized
    hashed: Hashed
    added: Added
    q: Inner | None
    ints: list[int]
    floats: list[float]
    texts: list[str] | None
    gaps: list[int | None]
    colors: list[Color]
    levels: list[Level]
    rows: list[list[int]]
    inners: list[Inner]
    vec: Annotated[np.ndarray, Shape(2)]

    @property
    def loud(self) -> bool:
        return self.level == Level.ERROR or self.color is Color.RED

    def above(self, level: Level) -> bool:
        return self.level > level


def thing(random: Random, row: int) -> Thing:
    """An event of few values, so that most constants are hit."""
    pick = random.choice
    integers, floats = (0, 1, 1, 2, -1, 2**62), (0.0, 1.0, 0.5, 2.5, -1.0, math.nan)
    texts = ("", "a", "b", "A", "RED", "1")
    moments = (
        *(
            datetime(2024, 3, 31, 1, 30),
            datetime(2024, 3, 31, 2, 30),
            datetime(2024, 10, 27, 2, 30),
        ),
        *(datetime(2023, 12, 31, 23), datetime(2024, 10, 27, 1, 30)),
    )
    decimals = (
        Decimal("0.00"),
        Decimal("1.50"),
        Decimal("1.00"),
        Decimal("2.00"),
        Decimal("-1.00"),
    )

    def maybe(value: Any) -> Any:
        return None if random.random() < 0.3 else value

    def several(*values: Any) -> list[Any]:
        return [pick(values) for _ in range(random.randint(0, 3))]

    def inner() -> Inner:
        return Inner(maybe(pick(integers)), maybe(pick(list(Color))), pick(list(Level)))

    return Thing(
        row=row,
        part=0,
        a=maybe(pick(integers)),
        b=maybe(pick(floats)),
        c=pick(texts),
        r=inner(),
        i=pick(integers),
        f=pick(floats),
        flag=pick((True, False)),
        truth=maybe(pick((True, False))),
        text=maybe(pick(texts)),
        y=pick((b"", b"a", b"b")),
        price=pick(decimals),
        wide=maybe(pick(decimals).quantize(Decimal("1e-18"))),
        d=pick((date(2024, 3, 31), date(2024, 10, 27), date(2023, 1, 1))),
        t=pick(moments),
        z=pick(moments).replace(tzinfo=UTC).astimezone(BERLIN),
        u=maybe(pick(moments).replace(tzinfo=UTC)),
        color=pick(list(Color)),
        tint=maybe(pick(list(Color))),
        other=pick(list(Other)),
        level=pick(list(Level)),
        maybe_level=maybe(pick(list(Level))),
        mood=pick(list(Mood)),
        tone=maybe(pick(list(Tone))),
        weight=pick(list(Weight)),
        shifted=pick(list(Shifted)),
        alike=pick(list(Alike)),
        hollow=pick(list(Hollow)),
        sized=pick(list(Sized)),
        hashed=pick(list(Hashed)),
        added=pick(list(Added)),
        q=maybe(inner()),
        ints=several(1, 2),
        floats=several(1.0, 0.5, math.nan),
        texts=maybe(several("a", "b")),
        gaps=several(1, None),
        colors=several(*Color),
        levels=several(*Level),
        rows=several([1, 2], [1], []),
        inners=several(inner()),
        vec=np.array([pick(floats), 1.0]),
    )
