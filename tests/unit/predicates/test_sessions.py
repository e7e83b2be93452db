"""Filters of a notebook or a shell: one namespace, many pieces of source."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from predicate_extract import extract

CONSTANTS = """
import re
from datetime import date
from decimal import Decimal
from enum import Enum, IntEnum
from filters_for_tests import FIFOFilter
LIMIT, NAMES, DAY, RIGHT = 100, ("IBM", "T"), date(2026, 1, 2), re.compile("^a")
CHOSEN = frozenset({1, 2})
MANY = ["IBM"]
class Color(Enum):
    RED = 1
class Level(IntEnum):
    ERROR = 2
class Settings:
    limit = 7
def is_dear(content, limit=LIMIT):
    return content.price > limit
def is_named(content):
    return content.name in NAMES
"""
TESTS = {
    "c.price > LIMIT": "price > 100",
    "c.price > LIMIT + 1": "price > 101",
    "c.name in NAMES": "name IN ('IBM', 'T')",
    "c.day == DAY": "day = DATE '2026-01-02'",
    "RIGHT.match(c.name) is not None": "match(name, '^a') IS NOT NULL",
    "c.n in CHOSEN": "n IN {1, 2}",
    "c.color == Color.RED": "color = ENUM '__main__:Color.RED'",
    "c.price > Settings.limit": "price > 7",
    "is_dear(c)": "price > 100",
    "is_named(c)": "name IN ('IBM', 'T')",
}
CLASS = """
class Chosen(FIFOFilter):
    def enqueue(self, event):
        c = event.content
        if {test}:
            super().enqueue(event)
"""

Cell = Callable[[str], None]


@pytest.fixture(params=["notebook", "shell"])
def session(request: pytest.FixtureRequest) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Runs cells; a shell before Python 3.13 keeps no source."""
    names: dict[str, Any] = {"__name__": "__main__"}
    files: list[str] = []

    def cell(text: str) -> None:
        file = "<stdin>"
        if request.param == "notebook":
            file = f"<ipython-input-{len(files)}-{id(names)}>"
            linecache.cache[file] = (len(text), None, text.splitlines(True), file)
            files.append(file)
        exec(compile(text, file, "exec", dont_inherit=True), names)

    yield cell, names
    for file in files:
        del linecache.cache[file]


@pytest.mark.parametrize("test", TESTS)
def test_what_another_cell_defines_is_known(
    session: tuple[Cell, dict[str, Any]], test: str
) -> None:
    cell, names = session
    cell(CONSTANTS)
    cell(CONSTANTS.replace("100", "100 "))  # the cell is run again
    cell(CLASS.format(test=test))
    cell(f"plain = lambda c: {test}")
    for target in (names["Chosen"], names["Chosen"](), names["plain"]):
        found = extract(target)
        assert (str(found.predicate), found.exact) == (TESTS[test], True), found.reasons


def test_the_value_is_that_of_now(session: tuple[Cell, dict[str, Any]]) -> None:
    cell, names = session
    cell("LIMIT = 1")
    cell("test = lambda c: c.price > LIMIT")
    cell("LIMIT = 2")
    assert str(extract(names["test"]).predicate) == "price > 2"


@pytest.mark.parametrize(
    "binding",
    [
        "def later():\n    global LIMIT\n    LIMIT = 5",
        "def later():\n    global LIMIT\n    del LIMIT",
        "class Later:\n    def change(self):\n        global LIMIT\n        LIMIT = 5",
        "class Later:\n    @property\n    def x(self):\n        global LIMIT\n        LIMIT = 5",
        "class Later:\n    @staticmethod\n    def x():\n        global LIMIT\n        LIMIT = 5",
        "def later():\n    def inner():\n        global LIMIT\n        LIMIT = 5\n    return inner",
    ],
)
def test_what_a_function_may_bind_anew_is_no_constant(
    session: tuple[Cell, dict[str, Any]], binding: str
) -> None:
    cell, names = session
    cell("LIMIT = 1")
    cell("test = lambda c: c.price > LIMIT")
    cell(binding)
    found = extract(names["test"])
    assert (str(found.predicate), found.exact) == ("TRUE", False)
    assert "a function declares LIMIT global" in found.reasons[0].message


def test_a_list_of_another_cell_may_change(session: tuple[Cell, dict[str, Any]]) -> None:
    cell, names = session
    cell(CONSTANTS)
    cell("test = lambda c: c.name in MANY")
    (reason,) = extract(names["test"]).reasons
    assert (reason.message, reason.hint) == (
        "MANY is a list that may change",
        "make MANY a tuple or a frozenset",
    )


def test_a_method_of_no_filter_may_stay_and_see_a_new_value(
    session: tuple[Cell, dict[str, Any]],
) -> None:
    cell, names = session
    cell("LIMIT = 1")
    cell("class Trade:\n    def is_dear(self):\n        return self.price > LIMIT")
    assert not extract(names["Trade"].is_dear).exact
