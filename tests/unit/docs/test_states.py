"""The pictures and tables of states are those by which machines and stages run."""

from __future__ import annotations

import re

import pytest
from states_for_tests import DOCS, MACHINES, MADE, filled

from activebroker.node.dataplane.states import BUSY, NEXT, StageState


@pytest.mark.parametrize("page", MADE)
def test_the_states_in_the_documentation_are_up_to_date(page: str) -> None:
    written = (DOCS / page).read_text(encoding="utf-8")
    assert written == filled(page), "run `python tests/states_for_tests.py`"


def test_the_page_of_states_has_the_machines_and_no_others() -> None:
    headings = re.findall("^## (.*)", (DOCS / "derivation-states.md").read_text(), re.MULTILINE)
    assert headings == [machine.__name__ for machine in MACHINES]


def test_every_state_is_reached_and_can_end() -> None:
    assert NEXT.keys() == set(StageState)
    reached = {StageState.LOADING}.union(*NEXT.values())
    assert reached == set(StageState)
    assert all(
        StageState.ENDED in to for state, to in NEXT.items() if state is not StageState.ENDED
    )
    assert BUSY.issubset(NEXT)
