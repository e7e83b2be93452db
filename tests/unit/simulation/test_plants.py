"""Faults planted into the core are found: each by a drawn scenario that is clean without it."""

from __future__ import annotations

import pytest

from activebroker.simulation.plants import PLANTS, SEEDS, found

# `python -m activebroker.simulation.plants` prints this, and how they are found.
FOUND: dict[str, int] = {}


def test_every_plant_has_its_seed() -> None:
    assert set(FOUND) == set(PLANTS)
    assert max(FOUND.values()) < SEEDS


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(name: str) -> None:
    assert found(FOUND[name], PLANTS[name]) is not None
