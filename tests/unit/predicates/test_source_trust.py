"""Only source that surely is the running code is analysed."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from types import SimpleNamespace

import pytest
from filters_for_tests import FIFOFilter

from predicate_extract import extract


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module, import it, and be able to write it again."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "written.py"

    def write(text: str) -> None:
        path.write_text(text)
        os.utime(path, ns=(write.stamp, write.stamp))
        write.stamp += 10**10

    write.stamp = 10**18

    def load(text: str) -> SimpleNamespace:
        write(text)
        spec = importlib.util.spec_from_file_location("written", path)
        loaded = importlib.util.module_from_spec(spec)
        loaded.FIFOFilter = FIFOFilter
        spec.loader.exec_module(loaded)
        return loaded

    return SimpleNamespace(write=write, load=load)


RULE = "def rule(f):\n    return f.price > {limit}\n"


def kind(target) -> str:
    found = extract(target)
    assert str(found.predicate) == "TRUE"
    return found.reasons[0].kind


def test_an_edited_file_is_noticed(module):
    """What runs is then read back from its bytecode."""
    loaded = module.load(RULE.format(limit=100))
    assert str(extract(loaded.rule).predicate) == "price > 100"
    for changed in (
        RULE.format(limit=200),
        "\n" + RULE.format(limit=100),
        "x = 1\n",
        "def rule(f:\n",
        "",
    ):
        module.write(changed)
        found = extract(loaded.rule)
        assert found.filename == "<bytecode>"
        assert str(found.predicate) == "price > 100"
    module.write(RULE.format(limit=100) + "# a comment elsewhere changes nothing\n")
    assert str(extract(loaded.rule).predicate) == "price > 100"


@pytest.mark.parametrize(
    ("one", "two"), [("1", "1.0"), ("1", "True"), ("0.0", "-0.0"), ("'a'", "b'a'")]
)
def test_constants_that_are_equal_are_not_the_same(module, one, two):
    loaded = module.load(f"def rule(f):\n    return f.x == ({one}, 1)[0]\n")
    before = extract(loaded.rule)
    module.write(f"def rule(f):\n    return f.x == ({two}, 1)[0]\n")
    after = extract(loaded.rule)
    assert after.filename == "<bytecode>" != before.filename
    assert str(after.predicate) == str(before.predicate)


def test_text_that_was_executed_has_no_source():
    namespace: dict = {}
    exec("def rule(f):\n    return f.price > 1\n", namespace)
    assert str(extract(namespace["rule"]).predicate) == "price > 1"
    exec("def rule(f):\n    return [x for x in f.a]\n", namespace)
    assert kind(namespace["rule"]) == "no-source"


def test_text_executed_in_the_name_of_another_file(module):
    loaded = module.load(RULE.format(limit=100))
    namespace: dict = {}
    exec(compile(RULE.format(limit=5), loaded.rule.__code__.co_filename, "exec"), namespace)
    assert str(extract(namespace["rule"]).predicate) == "price > 5"


def test_a_class_of_an_edited_file_stays_unknown(module):
    """Its other methods may still fit the file, but what the class's body says may not."""
    text = "class Filter(FIFOFilter):\n    def enqueue(self, event):\n        {}\n"
    loaded = module.load(text.format("if event.content.x: super().enqueue(event)"))
    assert str(extract(loaded.Filter).predicate) == "x"
    module.write(text.format("super().enqueue(event)"))
    assert kind(loaded.Filter) == "stale-source"


def test_a_global_of_an_edited_file_is_no_constant(module):
    loaded = module.load("LIMIT = 1\ndef rule(f):\n    return f.price > LIMIT\n")
    assert str(extract(loaded.rule).predicate) == "price > 1"
    module.write("LIMIT = 1\n\ndef rule(f):\n    return f.price > LIMIT\n")
    assert kind(loaded.rule) == "rebound-name"


def test_lambdas_on_one_line_are_told_apart(module):
    loaded = module.load(
        "a, b = lambda f: f.x > 1, lambda f: f.x > 2\nc = [lambda f: lambda f: f.x > 3]\n"
    )
    assert str(extract(loaded.a).predicate) == "x > 1"
    assert str(extract(loaded.b).predicate) == "x > 2"
    assert str(extract(loaded.c[0](None)).predicate) == "x > 3"


def test_a_wrapper_is_what_runs(module):
    loaded = module.load(
        "import functools\n"
        "def turned(function):\n"
        "    @functools.wraps(function)\n"
        "    def inner(f):\n"
        "        return not function(f)\n"
        "    return inner\n"
        "def marked(function):\n"
        "    function.mark = True\n"
        "    return function\n"
        "@turned\n"
        "def rule(f):\n    return f.price > 1\n"
        "@marked\n"
        "def plain(f):\n    return f.price > 1\n"
    )
    assert str(extract(loaded.rule).predicate) == "NOT price > 1"
    assert str(extract(loaded.plain).predicate) == "price > 1"


def test_a_patched_method_is_what_runs(module):
    loaded = module.load(
        "class Filter(FIFOFilter):\n"
        "    def enqueue(self, event):\n"
        "        if event.content.x:\n"
        "            super().enqueue(event)\n"
    )
    assert str(extract(loaded.Filter).predicate) == "x"
    instance = loaded.Filter()
    instance.enqueue = print
    assert kind(instance) == "lookup"
    loaded.Filter.enqueue = functools.partialmethod(loaded.Filter.enqueue)
    assert kind(loaded.Filter) == "signature"
    loaded.Filter.enqueue = lambda self, event: None
    assert str(extract(loaded.Filter).predicate) == "FALSE"


def closures(limit):
    again = limit
    again += 1
    names = ["a"]
    fixed = ("a", "b")
    rules = [
        lambda f: f.x > limit,
        lambda f: f.x > again,
        lambda f: f.x in names,
        lambda f: f.x in fixed,
    ]
    names.append("b")
    for turn in (1, 2):
        rules.append(lambda f: f.x > turn)  # noqa: B023
    rules += [lambda f: f.x > k for k in (1, 2)]  # noqa: B023
    return rules


def test_closures_are_constants_only_where_nothing_rebinds_them():
    found = [str(extract(rule).predicate) for rule in closures(7)]
    assert found == ["x > 7", "TRUE", "TRUE", "x IN ('a', 'b')", "TRUE", "TRUE", "TRUE", "TRUE"]


def test_globals_are_constants_only_where_nothing_rebinds_them(module):
    loaded = module.load(
        "A = 1\nB = 2\nC = 3\nD = {'a'}\nE = {'a'}\nfrom math import pi\n"
        "def change():\n    global B\n    B = 3\n"
        "for C in (1, 2): pass\n"
        "F = E\n"
        "rules = [lambda f: f.x > A, lambda f: f.x > B, lambda f: f.x > C,\n"
        "         lambda f: f.x in D, lambda f: f.x in E, lambda f: f.x > pi, lambda f: f.x > G]\n"
    )
    found = [str(extract(rule).predicate) for rule in loaded.rules]
    assert found == ["x > 1", "TRUE", "TRUE", "x IN {'a'}", "TRUE", "x > 3.141592653589793", "TRUE"]


def test_an_attribute_that_the_file_sets_is_no_constant(module):
    loaded = module.load(
        "class Limits:\n    LOW = 1\n    HIGH = 2\n    TOP = 3\n"
        "class Filter(FIFOFilter):\n"
        "    STEP = 5\n    LEAST = 6\n"
        "    def enqueue(self, event):\n"
        "        if event.content.x > self.STEP and event.content.x > self.LEAST:\n"
        "            super().enqueue(event)\n"
        "def change():\n    Limits.HIGH = 7\n    setattr(Limits, 'TOP', 8)\n    Filter.LEAST = 9\n"
        "class Other:\n    def __init__(self):\n        self.LOW = self.STEP = 4\n"
        "rules = [lambda f: f.x > Limits.LOW, lambda f: f.x > Limits.HIGH,\n"
        "         lambda f: f.x > Limits.TOP]\n"
    )
    assert [str(extract(rule).predicate) for rule in loaded.rules] == ["x > 1", "TRUE", "TRUE"]
    assert str(extract(loaded.Filter).predicate) == "x > 5"
