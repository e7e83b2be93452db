"""The README's code runs, embedded and on Ray, and says what the README says it says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
from snippets_for_tests import run_snippet

import activebroker as ab
import derivation.story
import predicate_extract

README = Path(__file__).parents[2] / "README.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _check(SNIPPETS[0], tmp_path, capsys)


@pytest.mark.ray
@pytest.mark.timeout(180)
def test_the_example_on_ray(
    ray_fabric: ab.Fabric, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SNIPPETS[0].replace("with ab.Fabric() as fabric:", "if fabric:")
    assert text != SNIPPETS[0]
    _check(text, tmp_path, capsys, fabric=ray_fabric)


def test_the_paper_s_filter(tmp_path: Path) -> None:
    names = run_snippet(SNIPPETS[1], tmp_path)
    extraction = predicate_extract.extract(names["MySubscription"])
    assert str(extraction.predicate) == "name = 'IBM' OR price > 100"
    assert extraction.exact


@pytest.mark.parametrize("module", [ab, predicate_extract, derivation.story])
def test_doctests(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


def _check(text: str, folder: Path, capsys: pytest.CaptureFixture[str], **names: object) -> None:
    run_snippet(text, folder, **names)
    printed = capsys.readouterr().out
    assert printed.startswith("name = 'IBM' OR price > 100 [Quote(name='IBM', price=82.5)")
    assert "AMD" in printed and "KO" not in printed
