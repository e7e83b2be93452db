"""The picture of a stage's states is the one that it runs by."""

from __future__ import annotations

from pathlib import Path

from activebroker.node.dataplane.states import BUSY, NEXT, StageState

ARCHITECTURE = Path(__file__).parents[3] / "docs" / "architecture.md"


def picture() -> str:
    """All changes of state, but for those to the end, of which one stands for all."""
    lines = [f"[*] --> {StageState.LOADING.name}"]
    for state, following in NEXT.items():
        ends = state in (StageState.IDLE, StageState.ENDING)
        shown = [to for to in following if to is not StageState.ENDED or ends]
        lines += [f"{state.name} --> {to.name}" for to in shown]
    lines.append(f"{StageState.ENDED.name} --> [*]")
    return "\n".join(("stateDiagram-v2", *(f"    {line}" for line in lines)))


def test_the_picture_in_the_documentation_is_the_table_s() -> None:
    assert f"```mermaid\n{picture()}\n```" in ARCHITECTURE.read_text(), picture()


def test_every_state_is_reached_and_can_end() -> None:
    assert NEXT.keys() == set(StageState)
    reached = {StageState.LOADING}.union(*NEXT.values())
    assert reached == set(StageState)
    assert all(
        StageState.ENDED in to for state, to in NEXT.items() if state is not StageState.ENDED
    )
    assert BUSY.issubset(NEXT)
