"""The pages of the documentation: links lead somewhere, and files that they name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = [
    path.relative_to(ROOT).as_posix()
    for top in ROOT.iterdir()
    if not top.name.startswith(".") or top.name == ".ci"
    for path in (top.rglob("*") if top.is_dir() else [top])
]
PAGES = sorted(name for name in FILES if name.endswith(".md"))
TOPS = {name.partition("/")[0] for name in FILES if "/" in name}


def text_of(page: str) -> str:
    """Without blocks of code."""
    return re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)\s]*)\)", text_of(page)):
        path, _, anchor = target.partition("#")
        found = (ROOT / page).parent / path if path else ROOT / page
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found.resolve().relative_to(ROOT).as_posix()), target


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_are_there(page: str) -> None:
    """From the root, or so much of the path as tells them from others."""
    for name in re.findall(r"`([\w.-]+(?:/[\w.-]*)+)`", text_of(page)):
        if name.endswith(".py") or name.partition("/")[0] in TOPS:
            wanted = "/" + name.rstrip("/")
            assert any(f"/{file}".endswith(wanted) for file in FILES), name
