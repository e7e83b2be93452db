"""A relay passes on whatever its supplier sends it: what a predicate can't decide, filters do."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from trading_for_tests import PATIENCE

import activebroker as ab


@dataclass(frozen=True)
class Offer:
    price: float | None


class Opaque:
    """Has no `price`, and cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not with me")

    __hash__ = None  # type: ignore[assignment]


def offers(*prices: float | None) -> list[Any]:
    return [Offer(price) for price in prices]


TYPED = offers(50.0, None, 150.0, None, 200.0)
PLAIN = [SimpleNamespace(price=each.price) for each in TYPED]  # a class that brokers have, too
CASES: dict[str, tuple[Any, Callable[[Any], object], list[Any], list[int], int]] = {
    "raises on some": (Offer, lambda q: q.price > 100, TYPED, [2, 4], 2),
    "raises on the first": (Offer, lambda q: q.price > 100, TYPED[1:], [1, 3], 2),
    "raises on all": (Offer, lambda q: q.price > 100, offers(None, None), [], 2),
    "decided in part": (Offer, lambda q: q.price > 100 and hash(q.price), TYPED, [2, 4], 2),
    "untyped, decided": (object, lambda n: n > 2, [1, 2, 3, 4], [2, 3], 0),
    "untyped, raises": (object, lambda n: n > 2, [1, "b", 3, None, 4], [2, 4], 2),
    "untyped, attributes": (object, lambda q: q.price > 100, [*PLAIN, 7], [2, 4], 3),
    "untyped, opaque": (object, lambda q: q == 4, [4, Opaque(), 5], [0], 1),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("at", ["dallas", "atlanta"])
def test_what_a_predicate_cannot_decide_passes_a_relay(
    anywhere: ab.Fabric, case: str, at: str
) -> None:
    type_, filter, contents, wanted, failures = CASES[case]
    channel = anywhere.channel("offers", type_)
    derived = channel.derive(filter, at=at)
    with (
        channel.supplier("NYSE") as nyse,
        derived.subscribe(timeout=PATIENCE) as some,
        channel.subscribe(timeout=PATIENCE) as every,
    ):
        nyse.offload(to="atlanta")
        for content in contents:
            nyse.publish(content)
        nyse.publish_batch(contents)
        twice = [*wanted, *(len(contents) + place for place in wanted)]
        assert [event.seq for event in itertools.islice(some, len(twice))] == twice
        assert [event.seq for event in itertools.islice(every, 2 * len(contents))] == [
            *range(2 * len(contents))
        ]
        assert derived.errors.wait(2 * failures, PATIENCE) and len(derived.errors) == 2 * failures
