"""Whether a function may change anything that outlives its call: what of a filter may remember."""

from __future__ import annotations

import copy
import decimal
import json
import math
import random
import re
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from itertools import count
from typing import Any

import numpy as np
import pytest
from filters_for_tests import FIFOFilter

from predicate_extract import extract

SEEN: list[Any] = []
WATCHED = ["JFK", "LGA"]
PRICES = {"JFK": 1}
NESTED: dict[str, list[Any]] = {"JFK": []}
COUNTS: Counter[str] = Counter()
NUMBERS = count()
TABLE = np.zeros(3)
CODE = re.compile("[A-Z]+")
STEP = timedelta(1)


class Side(Enum):
    BUY = 1


class Odd(Enum):
    BUY = 1

    @classmethod
    def _missing_(cls, value: object) -> Odd:
        SEEN.append(value)
        return cls.BUY


@dataclass(frozen=True)
class Point:
    x: float
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Noted:
    x: float

    def __post_init__(self) -> None:
        SEEN.append(self.x)


def numbered() -> int:
    return next(NUMBERS)


@dataclass(frozen=True)
class Numbered:
    number: int = field(default_factory=numbered)


class Model:
    def predict(self, value: object) -> bool:
        SEEN.append(value)
        return True


MODEL = Model()


def checksum(text: str) -> int:
    return zlib.crc32(text.encode())


def even(number: int) -> bool:
    return number == 0 or odd(number - 1)


def odd(number: int) -> bool:
    return number != 0 and even(number - 1)


def note(value: object) -> bool:
    SEEN.append(value)
    return True


def adds(items: list[Any], value: object) -> bool:
    items.append(value)
    return True


def hands_on(items: list[Any]) -> bool:
    return len(str(items)) > 2


def with_a_local_list(c: Any) -> bool:
    found = [each.strip() for each in c.tags]
    found += [c.name.title()]
    return any(map(str.isupper, found)) and max(found, key=len).encode() != b""


def a_caught_error(c: Any) -> bool:
    try:
        return json.loads(c.name)["x"] > 1  # type: ignore[no-any-return]
    except (ValueError, KeyError) as error:
        return str(error).startswith("x")


def a_match(c: Any) -> bool:
    match c.side:
        case Side.BUY:
            return c.name.swapcase() == "A"  # type: ignore[no-any-return]
        case Point(x=x):
            return math.copysign(1, x) < 0
    return isinstance(c.side, (Point, Side)) and divmod(c.x, 2) == (1, 0)


def raises(c: Any) -> bool:
    if c.name.encode() == b"":
        raise LookupError(f"no name: {c!r}")
    return True


def of_closure(limit: Any, seen: Any) -> list[Any]:
    def constant(c: Any) -> bool:
        return divmod(c.x, limit)[1] == 0

    def changing(c: Any) -> bool:
        return divmod(c.x, 2)[1] == 0 and seen.add(c.x) is None

    return [constant, changing]


NOTHING = [
    lambda c: zlib.crc32(c.name.encode()) % 2,
    lambda c: checksum(c.name) % 2,
    lambda c: even(c.x),
    lambda c: math.copysign(1, c.x) < 0,
    lambda c: c.at.utcoffset() > STEP,
    lambda c: c.weights.sum() > 255 and np.abs(np.fft.rfft(c.weights)).max() > 1,
    lambda c: CODE.match(c.name),
    lambda c: c.name.title() in WATCHED,
    lambda c: PRICES.get(c.name.title(), 0) > 1 and PRICES[c.name] < 3,
    lambda c: Side["BUY"] is Side(c.x) and Point(c.x.real).tags == [],
    lambda c: replace(c, x=1) != copy.copy(c),
    lambda c: sorted(c.tags, key=str.lower) == list(zip(c.tags, c.tags, strict=True)),
    lambda c: datetime.fromisoformat(c.name) > datetime(2020, 1, 1),
    lambda c: "".join(c.tags).isalpha() or f"{c.x:>3}".strip() == "1",
    with_a_local_list,
    a_caught_error,
    a_match,
    raises,
    of_closure(2, None)[0],
]
SOMETHING = [
    lambda c: note(c.name),
    lambda c: c.name in SEEN or SEEN.append(c.name),
    lambda c: adds(SEEN, c.name),
    lambda c: hands_on(SEEN) and c.name.isalpha(),  # to whom shows only there
    lambda c: any(map(note, c.tags)),
    lambda c: any(map(SEEN.append, c.tags)),
    lambda c: list.append(SEEN, c.name),
    lambda c: sorted(c.tags, key=lambda tag: note(tag)) == [],
    lambda c: NESTED["JFK"].append(c.x),
    lambda c: hands_on(NESTED.get("JFK")) and c.name.isalpha(),
    lambda c: COUNTS.update([c.name]),
    lambda c: COUNTS[c.name] and c.name.title(),  # a class of its own could note it
    lambda c: next(NUMBERS) % 2,
    lambda c: c.name.title() and c.x in NUMBERS,
    lambda c: TABLE.fill(c.x),
    lambda c: np.add(c.x, 1, out=TABLE).any(),
    lambda c: np.save("x", c.x),
    lambda c: random.random() > 0.5,
    lambda c: np.random.rand() > 0.5,
    lambda c: decimal.setcontext(c.x),
    lambda c: time.sleep(c.x),
    lambda c: print(c.name),
    lambda c: MODEL.predict(c.x),
    lambda c: Model().predict(c.x),
    lambda c: Noted(c.x).x > 1,
    lambda c: Numbered().number % 2,
    lambda c: Odd(c.x) is Odd.BUY,
    lambda c: setattr(Side, "seen", c.x),
    lambda c: getattr(SEEN, "append")(c.x),  # noqa: B009
    lambda c: c.name.title() and c.tags.append(1),
    lambda c, seen=[]: c.name.title() in seen,
    lambda c: [SEEN for SEEN in c.tags if c.name.title()] or SEEN.count(c.x),
    of_closure(2, set())[1],
]


@pytest.mark.parametrize("function", NOTHING)
def test_what_changes_nothing_is_not_stateful(function: Any) -> None:
    assert not extract(function).stateful


@pytest.mark.parametrize("function", SOMETHING)
def test_what_may_change_something_is_stateful(function: Any) -> None:
    assert extract(function).stateful


class Sums(FIFOFilter):
    """Looks only, by methods of its own."""

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least = least

    def enqueue(self, event: Any) -> None:
        if self.sum(event.content.weights) > self.least and checksum(event.content.name) % 2:
            super().enqueue(event)

    def sum(self, weights: Any) -> float:
        return float(weights.sum())


class Counts(FIFOFilter):
    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def enqueue(self, event: Any) -> None:
        self.seen.subtract(event.content.name)
        super().enqueue(event)


class Replaced(FIFOFilter):
    """Calls what it was given."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def enqueue(self, event: Any) -> None:
        if self.model(event.content):
            super().enqueue(event)


class HandsOn(FIFOFilter):
    """A method of its own changes what another one gives it."""

    def enqueue(self, event: Any) -> None:
        if self.notes(COUNTS, event.content.name):
            super().enqueue(event)

    def notes(self, counts: Any, name: str) -> bool:
        return counts.subtract(name) is None


class OfItsClass(FIFOFilter):
    seen: Counter[str] = Counter()

    def enqueue(self, event: Any) -> None:
        OfItsClass.seen.subtract(event.content.name)
        super().enqueue(event)


@pytest.mark.parametrize(
    ("filter", "stateful"),
    [
        ((Sums, 3), False),
        ((Counts,), True),
        ((Replaced, note), True),
        ((HandsOn,), True),
        ((OfItsClass,), True),
    ],
)
def test_filters(filter: Any, stateful: bool) -> None:
    assert extract(*filter).stateful == stateful
