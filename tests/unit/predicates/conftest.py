"""What the tests of backends share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection
