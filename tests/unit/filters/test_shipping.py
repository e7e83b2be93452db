"""Classes in transit: the user's own modules travel, and nothing overwrites what is here."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from activebroker.events import EventType, describe
from activebroker.filters.shipping import dumps, loads

HELPERS = "LIMIT = 3\n\ndef above(number):\n    return number > LIMIT\n"
RULES = """\
from __future__ import annotations
from dataclasses import dataclass
from datetime import datetime
from shipped_helpers import above

@dataclass(frozen=True)
class Reading:
    value: int
    at: datetime | None = None

class Rule:
    def holds(self, reading):
        return above(reading.value)
"""


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A user's module that imports another of the user's modules."""
    (tmp_path / "shipped_helpers.py").write_text(HELPERS)
    (tmp_path / "shipped_rules.py").write_text(RULES)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("shipped_rules")
    yield module
    for name in ("shipped_rules", "shipped_helpers"):
        sys.modules.pop(name)


def test_a_class_and_its_helpers_reach_a_process_that_has_neither(
    rules: Any, tmp_path: Path
) -> None:
    (tmp_path / "payload").write_bytes(dumps((rules.Rule, rules.Reading(5))))
    script = (
        "import sys; from pathlib import Path\n"
        "from activebroker.filters.shipping import loads\n"
        "rule, reading = loads(Path(sys.argv[1]).read_bytes())\n"
        "print(rule().holds(reading), rule().holds(type(reading)(1)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "payload")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "True False\n"


def test_where_the_class_is_it_stays_as_it_is(rules: Any) -> None:
    before = dict(vars(rules.Rule))
    for _ in range(2):
        rule, reading = loads(dumps((rules.Rule, rules.Reading(5))))
        assert rule is rules.Rule
        assert reading == rules.Reading(5) and type(reading) is rules.Reading
    assert dict(vars(rules.Rule)) == before


def test_a_shipped_state_leaves_its_classes_alone(rules: Any) -> None:
    holds = rules.Rule.holds
    state = loads(dumps({"rule": rules.Rule(), "last": rules.Reading(1)}))
    assert type(state["rule"]) is rules.Rule
    assert rules.Rule.holds is holds


def test_an_event_class_is_one_where_its_module_is_not(rules: Any, tmp_path: Path) -> None:
    """It, its fields' defaults, and the class that somebody derives from it there."""
    described = describe(EventType.of(rules.Reading))
    assert described.defaulted == ("at",)
    (tmp_path / "payload").write_bytes(dumps(rules.Reading))
    script = (
        "import sys; from pathlib import Path\n"
        "from dataclasses import make_dataclass\n"
        "from activebroker.events import EventType, describe\n"
        "from activebroker.filters.shipping import loads\n"
        "cls = loads(Path(sys.argv[1]).read_bytes())\n"
        "print(describe(EventType.of(cls)))\n"
        "print(make_dataclass('More', [('more', int, 7)], bases=(cls,), frozen=True)(1))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "payload")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == [repr(described), "More(value=1, at=None, more=7)"]


def test_our_own_classes_go_by_name() -> None:
    from activebroker.filters import FIFOFilter

    assert b"enqueue" not in dumps(FIFOFilter)


DECORATED = """\
import functools

class Reading:
    value = 7

@functools.lru_cache(maxsize=5)
def fibonacci(number):
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)

@functools.cache
def doubled(number):
    return 2 * number

@functools.singledispatch
def size(value):
    return -1

@size.register
def _(value: Reading):
    return size([value] * value.value)

@size.register(list)
@size.register(tuple)
def _(value):
    return len(value)

class Rule:
    factor = 3

    @functools.cached_property
    def limit(self):
        return doubled(self.factor)

    @functools.lru_cache
    def scaled(self, number):
        return self.factor * number

    @functools.singledispatchmethod
    def shown(self, value):
        return "?"

    @shown.register
    def _(self, value: int):
        return str(value * self.factor)

def check():
    rule = Rule()
    return (
        fibonacci(30), fibonacci.cache_parameters()["maxsize"], fibonacci.__name__, doubled(4),
        size(Reading()), size((1, 2)), size(None), size.__name__,
        rule.limit, rule.scaled(2), rule.shown(2), rule.shown(None),
    )
"""


def test_decorated_helpers_reach_a_process_that_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shipped_decorated.py").write_text(DECORATED)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("shipped_decorated")
    try:
        expected = module.check()
        (tmp_path / "payload").write_bytes(dumps(module.check))
    finally:
        sys.modules.pop("shipped_decorated")
    script = (
        "import sys; from pathlib import Path\n"
        "from activebroker.filters.shipping import loads\n"
        "print(loads(Path(sys.argv[1]).read_bytes())())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "payload")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == str(expected)


def test_what_the_user_lets_travel_goes_on_doing_so(rules: Any) -> None:
    cloudpickle.register_pickle_by_value(rules)
    try:
        dumps(rules.Rule)
        assert "shipped_rules" in cloudpickle.list_registry_pickle_by_value()
    finally:
        cloudpickle.unregister_pickle_by_value(rules)
