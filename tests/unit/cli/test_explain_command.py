from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from activebroker.cli import app

FILTERS = """\
from dataclasses import dataclass

from activebroker import FIFOFilter

from neighbour import LEAST


@dataclass(frozen=True)
class Trade:
    name: str
    price: float


class MySubscription(FIFOFilter):
    def enqueue(self, event):
        s = event.content
        if s.name == "IBM":
            super().enqueue(event)
        elif s.price > 100:
            super().enqueue(event)


class Rising(FIFOFilter):
    def __init__(self, least):
        self.least = least
        self.last = 0.0

    def enqueue(self, event):
        if event.content.price < self.least:
            return
        if event.content.price > self.last:
            super().enqueue(event)
        self.last = event.content.price


rising = Rising(LEAST)
dear = lambda trade: trade.price > 100
misspelt = lambda trade: trade.prize > 100
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))  # so that the path is put back afterwards
    monkeypatch.delitem(sys.modules, "neighbour", raising=False)
    (tmp_path / "neighbour.py").write_text("LEAST = 50\n")
    path = tmp_path / "trade_filters.py"
    path.write_text(FILTERS)
    return path


def explain(*arguments: object) -> Result:
    plain = {"COLUMNS": "200", "NO_COLOR": "1", "FORCE_COLOR": ""}
    return CliRunner().invoke(app, ["explain", *map(str, arguments)], env=plain)


def test_the_papers_example(file: Path) -> None:
    result = explain(f"{file}:MySubscription")
    assert result.exit_code == 0
    assert "name = 'IBM' OR price > 100" in result.stdout
    assert 'if s.name == "IBM":' in result.stdout
    assert "❱" not in result.stdout


def test_lines_that_weaken_are_marked_and_explained(file: Path) -> None:
    result = explain(f"{file}:rising")
    line = FILTERS.splitlines().index("        if event.content.price > self.last:") + 1
    assert f"❱ {line} " in result.stdout
    assert "NOT price < 50" in result.stdout
    assert "self.last, which changes outside __init__" in result.stdout


def test_a_file_stands_for_all_filter_classes_in_it(file: Path) -> None:
    found = json.loads(explain(file, "--json").stdout)
    assert [each["name"] for each in found] == ["MySubscription", "Rising"]


def test_a_detection_rule_is_found_in_a_file_of_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    package = tmp_path / "detections" / "cloud"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package.parent / "words.py").write_text("FAILED = ('FAILURE', 'DENY')\n")
    (package / "login.py").write_text(
        "from ..words import FAILED\n"
        "def rule(event):\n    return event.get('outcome') in FAILED\n"
        "def title(event):\n    return 'a login failed'\n"
    )
    (found,) = json.loads(explain(package / "login.py", "--json").stdout)
    assert found["predicate"] == "get(content, 'outcome', NULL) IN ('FAILURE', 'DENY')"
    assert json.loads(explain(f"{package / 'login.py'}:title", "--json").stdout)[0]["predicate"]


def test_a_package_that_is_another_here_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    package = tmp_path / "activebroker"
    package.mkdir()
    (package / "__init__.py").write_text("def rule(event):\n    return event['a']\n")
    result = explain(package / "__init__.py")
    assert result.exit_code == 2 and "activebroker is " in result.stderr


def test_json_has_the_predicate_for_people_and_for_programs(file: Path) -> None:
    (found,) = json.loads(explain(f"{file}:dear", "--json").stdout)
    assert (found["predicate"], found["exact"], found["stateful"]) == ("price > 100", True, False)
    assert json.loads(found["predicate_json"])["predicate"][0] == "compare"
    assert found["reasons"] == []


def test_a_module_is_found_from_the_working_folder(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    monkeypatch.delitem(sys.modules, "trade_filters", raising=False)
    result = explain("trade_filters:dear", "--type", "trade_filters:Trade")
    assert result.exit_code == 0
    assert "price > 100" in result.stdout


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{folder}/missing.py", "There is no file"),
        ("{file}:MySubscriptoin", "Did you mean 'MySubscription'?"),
        ("{file}:Trade", "Trade is not a filter class"),
        ("{folder}/neighbour.py", "defines no filter class"),
        ("no_such_module:Filter", "No module named 'no_such_module'"),
        ("two words", "names no code"),
        ("{folder}/missing/", "There is no folder"),
    ],
)
def test_a_wrong_target_is_an_error_with_a_message(file: Path, target: str, message: str) -> None:
    result = explain(target.format(file=file, folder=file.parent))
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("code", ["1 / 0", "import sys; sys.exit(3)", "def broken(:"])
def test_a_file_that_cannot_be_imported_says_where(tmp_path: Path, code: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text("\n" + code + "\n")
    result = explain(path)
    assert result.exit_code == 2
    assert "cannot be imported" in result.stderr and "line 2" in result.stderr


def test_a_field_that_the_type_lacks_is_an_error(file: Path) -> None:
    result = explain(f"{file}:misspelt", "--type", f"{file}:Trade")
    assert result.exit_code == 2
    assert "Did you mean 'price'?" in result.stderr


def test_sql_is_a_where_clause_for_each_filter(file: Path) -> None:
    result = explain(f"{file}:MySubscription", "--type", f"{file}:Trade", "--sql")
    first, clause = result.stdout.strip().split("\n")
    assert first.startswith("-- MySubscription: ")
    assert clause == "WHERE name = 'IBM' OR (price > 100 AND NOT ISNAN(price))"
    of_spark = explain(
        f"{file}:MySubscription", "--type", f"{file}:Trade", "--sql", "--dialect", "spark"
    )
    clause = of_spark.stdout.strip().split("\n")[1]
    assert (
        clause == "WHERE CAST(`name` AS STRING) = 'IBM' OR (`price` > 100 AND NOT ISNAN(`price`))"
    )
    for arguments in ([f"{file}:MySubscription", "--sql"], [file.parent, "--sql"]):
        refused = explain(*arguments)
        assert refused.exit_code == 2 and "--sql" in refused.stderr


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_what_a_terminal_cannot_show_is_escaped(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "odd.py"
    path.write_text('def rule(event):\n    return event["a"] in ("\\ud800", "\\xe9")\n')
    command = [Path(sys.executable).with_name("activebroker"), "explain", f"{path}:rule"]
    plain = {"COLUMNS": "200", "NO_COLOR": "1", "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, env=os.environ | plain, capture_output=True, check=True)
    shown = "é" if encoding == "utf-8" else "\\xe9"
    assert f"content['a'] IN ('\\ud800', '{shown}')" in done.stdout.decode()
