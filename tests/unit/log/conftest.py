from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory where that is possible: the logs here are synced thousands of times."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as path:
        yield Path(path)
