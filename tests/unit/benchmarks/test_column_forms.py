"""What other extractors get of a filter: a function of columns that does what the filter does."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Any

import pytest
import tables
from column_forms import form
from corpus_runs import holds, play
from form_columns import NoForm

from activebroker import Event, FIFOFilter
from predicate_extract import FALSE, extract
from tests.corpus.case import Case

LIMIT = 100


class Side(Enum):
    BUY = 1
    SELL = 2


@dataclass(frozen=True)
class Trade:
    price: float
    symbol: str | None
    side: Side

    @property
    def dear(self) -> bool:
        return self.price > LIMIT


def trade(rng: Random) -> Trade:
    return Trade(rng.choice((99.0, 101.0)), rng.choice(("IBM", None)), rng.choice(tuple(Side)))


def document(rng: Random) -> dict[str, Any]:
    user = rng.choice(({"name": "root"}, {"name": "ann"}, {"name": 7}, {}))
    return rng.choice(({"user": user}, {"user": user}, {}))


class DearOrIbm(FIFOFilter):
    def __init__(self, limit: float) -> None:
        self.limit = limit

    def enqueue(self, event: Event) -> None:
        """Dear ones, and those of one symbol."""
        content = event.content
        if content.price > self.limit:
            super().enqueue(event)
        elif content.symbol == "IBM":
            FIFOFilter.enqueue(self, event)


def early(content: Trade) -> bool:
    side = content.side
    if side is Side.BUY:
        return False
    return content.price > LIMIT


def root(content: dict[str, Any]) -> bool:
    name = content.get("user", {}).get("name")
    return name == "root"


def of_property(content: Trade) -> bool:
    return content.dear


def helped(content: Trade) -> bool:
    return early(content)


def case_of(target: Any, *args: Any, events: Callable[[Random], Any] = trade) -> Case:
    return Case(target, "TRUE", False, events, None, (), args)


def code(function: Callable[..., Any]) -> str:
    return inspect.getsource(function)


def test_a_filter_class():
    case = case_of(DearOrIbm, 100.0)
    found = form(case, play(case, 40))
    assert code(found.rule) == (
        "def rule(price: float, symbol: str):\n"
        "    if price > 100.0:\n"
        "        return True\n"
        "    elif symbol == 'IBM':\n"
        "        return True\n"
    )
    assert code(found.condition) == (
        "def rule(row):\n    return row['price'] > 100.0 or row['symbol'] == 'IBM'\n"
    )
    assert len(found.forwarded) == 40
    assert set(found.columns["symbol"]) == {"IBM", None}


def test_an_early_return_and_an_enum():
    case = case_of(early)
    assert code(form(case, play(case, 40)).rule) == (
        "def rule(side_1: str, price: float):\n"
        "    if side_1 == 'BUY':\n"
        "        return False\n"
        "    else:\n"
        "        return price > 100\n"
    )


def test_items_of_a_dict_have_rows_where_a_column_can_hold_them():
    case = case_of(root, events=document)
    found = form(case, play(case, 80))
    assert code(found.rule) == "def rule(name_1: str):\n    return name_1 == 'root'\n"
    assert set(found.columns["name_1"]) == {"root", "ann", None}
    assert len(found.forwarded) < 80


@pytest.mark.parametrize("target", [of_property, helped])
def test_code_is_not_followed(target):
    case = case_of(target)
    with pytest.raises(NoForm):
        form(case, play(case, 40))


def test_a_predicate_is_held_to_what_it_claims():
    case = case_of(early)
    played, found = play(case, 40), extract(early)
    assert found.exact
    assert holds(found, played)
    assert not holds(replace(found, predicate=FALSE), played)


def test_tables_as_markdown():
    assert doctest.testmod(tables).failed == 0
