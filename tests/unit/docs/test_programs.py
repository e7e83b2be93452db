"""Programs in docs/ run, and print what stands below them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from snippets_for_tests import run_snippet

PAGES = sorted((Path(__file__).parents[3] / "docs").glob("*.md"))
PROGRAM = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
PROGRAMS = [
    pytest.param(
        *found,
        id=f"{page.stem}, {number}",
        marks=[pytest.mark.spark, pytest.mark.timeout(300)] if page.stem == "spark" else [],
    )
    for page in PAGES
    for number, found in enumerate(PROGRAM.findall(page.read_text()), 1)
]


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_a_program_prints_what_its_page_says(
    program: str, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_snippet(program, tmp_path)
    assert capsys.readouterr().out == printed


def test_every_program_says_what_it_prints() -> None:
    assert len(PROGRAMS) == sum(page.read_text().count("```python") for page in PAGES)
