"""Filters found in a source tree of which nothing is imported, and analysed as if it were."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from activebroker.cli import app
from activebroker.cli.searching import KNOWN
from predicate_extract import Extraction, extract
from predicate_extract.scan.rules import RuleError, load_rules
from predicate_extract.scan.search import Search, source_files

FILES = {
    "shop/__init__.py": "LEAST = 5\n",
    "shop/kinds.py": (
        "import enum\n"
        "from dataclasses import dataclass\n"
        "class Kind(enum.Enum):\n"
        "    NEW = 'new'\n"
        "    OLD = 'old'\n"
        "WORDS = frozenset({'a', 'b'})\n"
    ),
    "shop/filters.py": (
        "import random, re\n"
        "from activebroker import FIFOFilter\n"
        "from shop.kinds import Kind, WORDS\n"
        "from . import LEAST, helpers\n"
        "from .helpers import near as close\n"
        "import no_such_package\n"
        "open('ran', 'w')\n"
        "PATTERN = re.compile('^x')\n"
        "COMPUTED = helpers.compute()\n"
        "class Base(FIFOFilter):\n"
        "    def enqueue(self, event):\n"
        "        if event.content.kind == Kind.NEW:\n"
        "            super().enqueue(event)\n"
        "class Narrow(Base):\n"
        "    LIMIT = LEAST * 2\n"
        "    def __init__(self, words=WORDS):\n"
        "        super().__init__()\n"
        "        self.words = tuple(words)\n"
        "    def enqueue(self, event):\n"
        "        s = event.content\n"
        "        if close(s.price, self.LIMIT) and s.word in self.words and PATTERN.match(s.id):\n"
        "            super().enqueue(event)\n"
        "class Chance(FIFOFilter):\n"
        "    def enqueue(self, event):\n"
        "        if event.content.price > LEAST and random.random() < 0.5:\n"
        "            super().enqueue(event)\n"
        "class Foreign(no_such_package.Filter):\n"
        "    def enqueue(self, event):\n"
        "        super().enqueue(event)\n"
        "class Late(FIFOFilter):\n"
        "    def __init__(self, limit):\n"
        "        self.limit = limit\n"
        "    def enqueue(self, event):\n"
        "        if event.content.late and event.content.delay > self.limit:\n"
        "            super().enqueue(event)\n"
        "class Unknown(FIFOFilter):\n"
        "    def enqueue(self, event):\n"
        "        if event.content.price > COMPUTED:\n"
        "            super().enqueue(event)\n"
        "class Plain:\n"
        "    pass\n"
        "raise SystemExit('this ran')\n"
    ),
    "shop/helpers.py": (
        "def compute():\n    raise SystemExit('this ran')\n"
        "def near(price, limit):\n    return 0 < price <= limit\n"
    ),
    "rules/login.py": (
        "FAILED = {'FAILURE', 'DENY'}\n"
        "def rule(event):\n"
        "    if event.get('type') != 'login':\n"
        "        return False\n"
        "    return event.get('outcome') in FAILED\n"
    ),
    "rules/broken.py": "def rule(event):\n    return (\n",
    ".hidden/rule.py": "def rule(event):\n    return True\n",
    "env/pyvenv.cfg": "",
    "env/rule.py": "def rule(event):\n    return True\n",
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found_in(tree: Path, *rules: Path) -> dict[str, Extraction]:
    found = map(Search(tree, load_rules(rules), KNOWN), source_files(tree))
    return {each.name: each for file in found for each in file.extractions}


def test_the_filters_of_a_tree_are_found_without_running_it(tree: Path) -> None:
    before = set(sys.modules)
    found = found_in(tree)
    assert {name: (str(each.predicate), each.exact) for name, each in found.items()} == {
        "Base": ("kind = ENUM 'shop.kinds:Kind.NEW'", True),
        "Narrow": (
            "price > 0 AND price <= 10 AND word IN ('a', 'b') AND match(id, '^x')"
            " AND kind = ENUM 'shop.kinds:Kind.NEW'",
            True,
        ),
        "Chance": ("price > 5", False),
        "Foreign": ("TRUE", False),
        "Late": ("late", False),
        "Unknown": ("TRUE", False),
        "rule": (
            "get(content, 'type', NULL) = 'login'"
            " AND get(content, 'outcome', NULL) IN {'DENY', 'FAILURE'}",
            True,
        ),
    }
    assert not (tree / "ran").exists()
    assert not {name for name in set(sys.modules) - before if name.startswith(("shop", "rules"))}


def test_it_says_why_a_predicate_is_not_exact(tree: Path) -> None:
    found = found_in(tree)
    assert [reason.kind for reason in found["Chance"].reasons] == ["chance"]
    assert [reason.kind for reason in found["Foreign"].reasons] == ["not-run"]
    assert [reason.kind for reason in found["Late"].reasons] == ["no-instance"]


def test_a_class_whose_making_runs_code_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "hooks.py").write_text(
        "from activebroker import FIFOFilter\n"
        "class Registered(FIFOFilter):\n"
        "    def __init_subclass__(cls):\n"
        "        open('ran', 'w')\n"
        "        raise SystemExit('this ran')\n"
        "    def enqueue(self, event):\n"
        "        super().enqueue(event)\n"
        "class Child(Registered):\n"
        "    def enqueue(self, event):\n"
        "        super().enqueue(event)\n"
    )
    found = found_in(tmp_path)
    assert [reason.kind for reason in found["Child"].reasons] == ["not-run"]
    assert not Path("ran").exists()


def test_a_name_that_is_bound_on_a_condition_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "either.py").write_text(
        "import sys\n"
        "LIMIT = 1\n"
        "SOME = {'a': 1}\n"
        "ALL = {**SOME, 'b': 2}\n"
        "if sys.argv:\n    LIMIT = 2\n"
        "try:\n    from fast import near\nexcept ImportError:\n    def near(x):\n        return x\n"
        "def rule(event):\n"
        "    return event.a == 1 and (event.b > LIMIT or event.d in ALL or near(event.c))\n"
    )
    assert str(found_in(tmp_path)["rule"].predicate) == "a = 1"


@pytest.mark.parametrize(
    "statement",
    [
        "def helper(event, low=(LIMIT := 5)): ...",
        "def helper(event, *, low=(LIMIT := 5)): ...",
        "@print if (LIMIT := 5) else repr\ndef helper(event): ...",
        "class Helper((LIMIT := int)): ...",
        "class Helper(metaclass=(LIMIT := type)): ...",
        "HELPER = lambda event, low=(LIMIT := 5): low",
    ],
)
def test_what_is_bound_where_a_definition_is_evaluated_counts(
    tmp_path: Path, statement: str
) -> None:
    (tmp_path / "twice.py").write_text(
        f"LIMIT = 1\n{statement}\ndef rule(event):\n    return event.b > LIMIT\n"
    )
    found = found_in(tmp_path)["rule"]
    assert str(found.predicate) == "TRUE" and [r.kind for r in found.reasons] == ["rebound-name"]


def test_what_a_search_finds_is_what_extract_finds(tree: Path) -> None:
    """The same class, imported."""
    sys.path.insert(0, str(tree))
    try:
        import rules.login  # type: ignore[import-not-found]

        assert extract(rules.login.rule).predicate == found_in(tree)["rule"].predicate
    finally:
        sys.path.remove(str(tree))
        for name in [name for name in sys.modules if name.startswith("rules")]:
            del sys.modules[name]


def test_hidden_folders_and_environments_are_left_out(tree: Path) -> None:
    names = [str(path.relative_to(tree)) for path in source_files(tree)]
    assert names == sorted(name for name in FILES if name.startswith(("rules", "shop")))


def test_rules_of_ones_own_find_and_weaken(tree: Path) -> None:
    rules = tree / "more.yml"
    rules.write_text(
        "id: helper\nlanguage: python\nmetadata: {use: find}\n"
        "rule: {kind: function_definition, has: {field: name, regex: ^near$}}\n"
        "---\n"
        "id: outcome\nlanguage: python\nmessage: outcomes are late\nmetadata: {use: weaken}\n"
        "rule: {pattern: event.get('outcome')}\n"
    )
    found = found_in(tree, rules)
    assert "near" in found
    assert str(found["rule"].predicate) == "get(content, 'type', NULL) = 'login'"
    assert found["rule"].reasons[0].message == "outcomes are late"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id: [", "is not YAML"),
        ("id: x\nrule: {kind: call}\n", "metadata"),
        ("id: x\nmetadata: {use: find}\nrule: {kind: no_such_kind}\n", "cannot be used"),
    ],
)
def test_a_wrong_rule_file_is_an_error_that_says_what_is_wrong(
    tree: Path, text: str, message: str
) -> None:
    path = tree / "wrong.yml"
    path.write_text(text)
    with pytest.raises(RuleError, match=message):
        load_rules([path])
    result = explain(tree, "--rules", path)
    assert result.exit_code == 2 and message in result.stderr
    assert explain(tree, "--rules", tree / "missing.yml").exit_code == 2


def explain(*arguments: object) -> Result:
    plain = {"COLUMNS": "200", "NO_COLOR": "1", "FORCE_COLOR": ""}
    return CliRunner().invoke(app, ["explain", *map(str, arguments)], env=plain)


def test_a_folder_is_explained_in_a_table(tree: Path) -> None:
    result = explain(tree)
    assert result.exit_code == 0
    assert "7 filters in 6 files: 5 with a predicate, 3 with an exact one." in result.stdout
    assert "broken.py" in result.stdout and "SyntaxError" in result.stdout


def test_a_folder_is_explained_as_json(tree: Path) -> None:
    result = explain(tree, "--json")
    assert [each["name"] for each in json.loads(result.stdout)] == [
        *("rule", "Base", "Narrow", "Chance", "Foreign", "Late", "Unknown"),
    ]
    assert f"{tree / 'rules' / 'broken.py'} is left out: SyntaxError" in result.stderr


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "constant",
    [
        "frozenset(range(1000000000000))",
        "list(range(1000000000000))",
        "dict.fromkeys(range(1000000000000))",
        "tuple(range(1000000000000))",
        "LARGE * LARGE",
        "Decimal('1e99999999') // 3",
    ],
)
def test_a_constant_that_takes_long_is_not_computed(tmp_path: Path, constant: str) -> None:
    squares = "LARGE = 123456789\n" + "LARGE = LARGE * LARGE\n" * 40
    (tmp_path / "rule.py").write_text(
        f"from decimal import Decimal\n{squares}CHOSEN = {constant}\n"
        "def rule(event):\n    return event.get('a') == CHOSEN\n"
    )
    (found,) = found_in(tmp_path).values()
    assert not found.exact
