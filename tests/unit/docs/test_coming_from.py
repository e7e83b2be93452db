"""The examples for those who come from other systems run, and print what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from snippets_for_tests import run_snippet

PAGE = (Path(__file__).parents[3] / "docs" / "coming-from.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
NAMES = re.findall(r"^## (\w[^,\n]*?)(?:, .*)?$", PAGE, re.MULTILINE)[1:]


@pytest.mark.parametrize(("program", "printed"), EXAMPLES, ids=NAMES)
def test_an_example_prints_what_the_page_says(
    program: str, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_snippet(program, tmp_path)
    assert capsys.readouterr().out == printed


def test_every_program_is_an_example() -> None:
    assert len(EXAMPLES) == PAGE.count("```python")
