"""Doing with many items what may fail for one of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from activebroker.events import piecewise


def test_what_fails_for_some_is_done_with_all_others() -> None:
    failed: list[tuple[int, str]] = []

    def make(items: Sequence[int]) -> list[int]:
        for item in items:
            if item % 7 == 3:
                raise ValueError(f"not {item}")
        return list(items)

    made = piecewise(range(30), make, lambda item, error: failed.append((item, str(error))))
    assert [item for each in made for item in each] == [n for n in range(30) if n % 7 != 3]
    assert failed == [(n, f"not {n}") for n in (3, 10, 17, 24)]


def test_what_fails_for_none_is_the_caller_s() -> None:
    def make(items: Sequence[int]) -> None:
        raise ValueError("whatever the items are")

    with pytest.raises(ValueError, match="whatever the items are"):
        piecewise([], make, lambda item, error: None)
