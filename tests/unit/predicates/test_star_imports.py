"""What `from module import *` binds, and what it does not."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from predicate_extract import extract

FILES = {
    "limits_for_star.py": "LIMIT = 100\n_HIDDEN = 7\ndef is_dear(c):\n    return c.a > LIMIT\n",
    "chosen_for_star.py": "__all__ = ['NAMES']\nNAMES = (1, 2)\nLIMIT = 5\n",
    "again_for_star.py": "LIMIT = 100\n",
}
CASES = {
    "one": ("from limits_for_star import *", "c.a > LIMIT", "a > 100"),
    "a helper": ("from limits_for_star import *", "is_dear(c)", "a > 100"),
    "two": (
        "from math import *\nfrom limits_for_star import *\nfrom chosen_for_star import *",
        "c.a > LIMIT or c.a in NAMES or c.a > pi",
        "a > 100 OR a IN (1, 2) OR a > 3.141592653589793",
    ),
    "beside an own name": ("from limits_for_star import *\nOWN = 3", "c.a > OWN", "a > 3"),
    "a name that is not given": (
        "from limits_for_star import *\n_HIDDEN = 3",
        "c.a > _HIDDEN",
        "a > 3",
    ),
    "bound by both": ("from limits_for_star import *\nLIMIT = 3", "c.a > LIMIT", "TRUE"),
    "given by two": (
        "from limits_for_star import *\nfrom again_for_star import *",
        "c.a > LIMIT",
        "TRUE",
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    yield tmp_path
    for name in [*FILES, "rules_for_star.py"]:
        sys.modules.pop(name.removesuffix(".py"), None)


def load(folder: Path, text: str) -> ModuleType:
    (folder / "rules_for_star.py").write_text(text)
    importlib.invalidate_caches()
    return importlib.import_module("rules_for_star")


@pytest.mark.parametrize("case", CASES)
def test_a_name_is_bound_by_those_that_give_it(folder: Path, case: str) -> None:
    imports, test, predicate = CASES[case]
    module = load(folder, f"{imports}\ndef rule(c):\n    return {test}\n")
    found = extract(module.rule)
    assert str(found.predicate) == predicate
    if predicate == "TRUE":
        assert found.reasons[0].message == "LIMIT is bound more than once"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("LIMIT = 1\nLIMIT = 2", "LIMIT is bound more than once"),
        ("for LIMIT in (1, 2): pass", "LIMIT is bound in a loop"),
        ("globals()['LIMIT'] = 3", "rules_for_star.py binds LIMIT, so others may bind it anew"),
        (
            "LIMIT = 1\ndef later():\n    global LIMIT\n    LIMIT += 1",
            "a function declares LIMIT its own, and may bind it anew",
        ),
    ],
)
def test_the_reason_is_the_true_one(folder: Path, text: str, says: str) -> None:
    module = load(folder, f"{text}\ndef rule(c):\n    return c.a > LIMIT\n")
    (reason,) = extract(module.rule).reasons
    assert reason.message.endswith(says)
