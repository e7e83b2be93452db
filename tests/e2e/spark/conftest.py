"""One Spark session for all tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from activebroker.spark import session, stop


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    yield session()
    stop()
