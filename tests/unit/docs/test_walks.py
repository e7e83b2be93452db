"""The walks through the code in the page on the architecture name what is there.

In a numbered step, a span of code that ends in `.py` is a file, with so much of its path as tells
it from others. Any other name there is defined in one of the step's files, or is a message, an
input or an effect.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from activebroker.node import effects
from activebroker.protocol import flows, messages, orders, requests

ROOT = Path(__file__).parents[3]
PACKAGES = ("activebroker", "derivation", "predicate_extract", "ray_deploy")
FILES = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
SAID = {name for module in (messages, requests, orders, flows, effects) for name in vars(module)}
WALKS = {
    section.partition("\n")[0]: re.split(r"^\d+\. ", section, flags=re.MULTILINE)[1:]
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)
    if section.startswith(("The life of ", "The walk of "))
}
STEPS = [
    pytest.param(step, id=f"{walk}, {number}")
    for walk, steps in WALKS.items()
    for number, step in enumerate(steps, 1)
]


@cache
def defined_in(file: Path) -> set[str]:
    """The names of a module's classes and functions, and of what is in its classes."""
    names: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{each}" for each in map(_name, node.body) if each}
        names.add(_name(node))
    return names


def _name(node: ast.stmt) -> str:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name
    return ""


def test_there_are_four_walks_of_several_steps() -> None:
    assert len(WALKS) == 4 and all(len(steps) > 5 for steps in WALKS.values())


@pytest.mark.parametrize("step", STEPS)
def test_what_a_step_names_is_there(step: str) -> None:
    spans = re.findall(r"`([\w./]+)`", step)
    paths = [span for span in spans if span.endswith(".py")]
    assert paths
    files = []
    for path in paths:
        (file,) = [each for each in FILES if f"/{each.relative_to(ROOT)}".endswith(f"/{path}")]
        files.append(file)
    known = SAID.union(paths, *map(defined_in, files))
    assert not set(spans) - known


@pytest.mark.parametrize("folder", re.findall(r"^\| in `(\w+)/`", PAGE, re.MULTILINE))
def test_each_module_is_in_the_table_of_its_package(folder: str) -> None:
    package = ROOT / "activebroker" / folder
    rows = PAGE.partition(f"| in `{folder}/`")[2].partition("\n\n")[0].splitlines()
    listed = [name for row in rows for name in re.findall(r"`([\w/]+)`", row.split("|")[1])]
    modules = {
        path.relative_to(package).with_suffix("").as_posix()
        for path in package.rglob("*.py")
        if path.name != "__init__.py"
    }
    assert sorted(listed) == sorted(modules)
