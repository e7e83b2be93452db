"""Each test that only runs with --rounds is run by the nightly script."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
NIGHTLY = ROOT / ".ci" / "nightly"


def test_what_is_left_out_of_the_test_run_is_run_at_night() -> None:
    script = NIGHTLY.read_text()
    marks = ("mark.table", 'getoption("rounds")')
    files = [
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__) and any(mark in path.read_text() for mark in marks)
    ]
    assert files
    for file in files:
        assert any(f" {part}" in script for part in (file, file.parent)), file


def test_each_part_has_its_place_in_the_order() -> None:
    listed = subprocess.run([NIGHTLY, "--list"], capture_output=True, text=True, check=True)
    parts = [line.split("]")[0].strip(" [") for line in NIGHTLY.read_text().splitlines()]
    assert listed.stdout.split() == [part for part in parts if part in listed.stdout.split()]
