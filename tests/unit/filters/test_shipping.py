"""Classes in transit: the user's own modules travel, and nothing overwrites what is here."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activebroker.events import EventType
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
    fingerprint = EventType.of(rules.Reading).fingerprint
    (tmp_path / "payload").write_bytes(dumps(rules.Reading))
    script = (
        "import sys; from pathlib import Path\n"
        "from activebroker.events import EventType\n"
        "from activebroker.filters.shipping import loads\n"
        "print(EventType.of(loads(Path(sys.argv[1]).read_bytes())).fingerprint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "payload")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == fingerprint


def test_our_own_classes_go_by_name() -> None:
    from activebroker.filters import FIFOFilter

    assert b"enqueue" not in dumps(FIFOFilter)
