"""Relays that die, in drawn scenarios."""

from __future__ import annotations

import pytest
from relays_for_tests import relay_dies, slow

from activebroker.simulation.run import run


@pytest.mark.parametrize("seed", range(3000, 3060))
def test_relays_that_die_cost_no_event(seed: int) -> None:
    assert not run(relay_dies(seed), record=False).violations


@pytest.mark.parametrize("seed", range(3000, 3020))
def test_nor_do_they_where_events_wait_everywhere(seed: int) -> None:
    assert not run(slow(relay_dies(seed)), record=False).violations
