"""The README's code runs, embedded and on Ray, and says what the README says it says."""

from __future__ import annotations

import doctest
import re
import runpy
import sys
from pathlib import Path

import pytest

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
    names = _run(SNIPPETS[1], tmp_path)
    extraction = predicate_extract.extract(names["MySubscription"])
    assert str(extraction.predicate) == "name = 'IBM' OR price > 100"
    assert extraction.exact


@pytest.mark.parametrize("module", [ab, predicate_extract, derivation.story])
def test_doctests(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


def _check(text: str, folder: Path, capsys: pytest.CaptureFixture[str], **names: object) -> None:
    _run(text, folder, **names)
    printed = capsys.readouterr().out
    assert printed.startswith("name = 'IBM' OR price > 100 [Quote(name='IBM', price=82.5)")
    assert "AMD" in printed and "KO" not in printed


def _run(text: str, folder: Path, **names: object) -> dict[str, object]:
    script = folder / "readme.py"  # a file, because the analysis reads the source
    script.write_text(text)
    name = "readme_example"
    try:
        return runpy.run_path(str(script), init_globals=dict(names), run_name=name)
    finally:
        sys.modules.pop(name, None)
