"""Code in the documentation, run as a user would."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def run_snippet(text: str, folder: Path, **names: object) -> dict[str, object]:
    """Run a program; return its names. `names` are there when it begins."""
    script = folder / "snippet.py"  # a file, because the analysis reads the source
    script.write_text(text)
    name = "documented_example"
    try:
        return runpy.run_path(str(script), init_globals=names, run_name=name)
    finally:
        sys.modules.pop(name, None)
