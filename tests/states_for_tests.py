"""Pictures and tables of states in docs/, made from the tables that machines and stages run by.

`python states_for_tests.py` writes them into the pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import get_args

from activebroker.node.dataplane.states import NEXT, StageState
from derivation.destination import Destination
from derivation.initiator import Initiator
from derivation.machine import Machine
from derivation.origin import Origin
from derivation.protocol import Effect
from derivation.source import Source

DOCS = Path(__file__).parents[1] / "docs"
MACHINES: tuple[type[Machine], ...] = (Initiator, Source, Origin, Destination)


def states(machine: type[Machine]) -> list[Enum]:
    """All states of a machine; it begins in the first."""
    state, _ = next(iter(machine.table))
    return list(type(state))


def picture_of_machine(machine: type[Machine]) -> str:
    """An arrow for each pair of states."""
    arrows: dict[tuple[Enum, Enum], list[str]] = {}
    for (state, input), transition in machine.table.items():
        for to in transition.to if transition is not None else ():
            arrows.setdefault((state, to), []).append(input.__name__)
    first, *_ = everything = states(machine)
    left = {state for state, to in arrows if state is not to}
    lines = [f"[*] --> {first.name}"]
    lines += [f"{state.name} --> {to.name}: {', '.join(by)}" for (state, to), by in arrows.items()]
    lines += [f"{state.name} --> [*]" for state in everything if state not in left]
    return _picture(lines)


def picture_of_stage() -> str:
    """All changes of state, but for those to the end, of which one stands for all."""
    lines = [f"[*] --> {StageState.LOADING.name}"]
    for state, following in NEXT.items():
        ends = state in (StageState.IDLE, StageState.ENDING)
        shown = [to for to in following if to is not StageState.ENDED or ends]
        lines += [f"{state.name} --> {to.name}" for to in shown]
    lines.append(f"{StageState.ENDED.name} --> [*]")
    return _picture(lines)


def table_of_machine(machine: type[Machine]) -> str:
    """State, input, next states, what it sends and asks for."""
    rows = (("state", "input", "next", "sends", "asks for"), ("---",) * 5, *_rows(machine))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _picture(lines: list[str]) -> str:
    return "\n".join(("```mermaid", "stateDiagram-v2", *(f"    {line}" for line in lines), "```\n"))


def _rows(machine: type[Machine]) -> Iterator[tuple[str, ...]]:
    own = get_args(Effect)
    for state in states(machine):
        ignored = []
        for (at, input), transition in machine.table.items():
            if at is not state:
                continue
            if transition is None:
                ignored.append(input)
                continue
            yield (
                state.name,
                _code([input]),
                ", ".join(to.name for to in transition.to),
                _code(each for each in transition.effects if each not in own),
                _code(each for each in transition.effects if each in own),
            )
        if ignored:
            yield (state.name, _code(ignored), "*ignored*", "", "")


def _code(types: Iterable[type]) -> str:
    return ", ".join(f"`{each.__name__}`" for each in types)


# By page and heading, what stands there from the first picture to the next heading.
MADE: dict[str, dict[str, str]] = {
    "architecture.md": {"The states of a stage": picture_of_stage()},
    "derivation-states.md": {
        each.__name__: f"{picture_of_machine(each)}\n{table_of_machine(each)}" for each in MACHINES
    },
}


def filled(page: str) -> str:
    """The page with what is made for it."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for heading, made in MADE[page].items():
        section = rf"^##+ {heading}\n(?:(?!##|```).*\n)+(```mermaid\n(?s:.*?))(?=\n##|\Z)"
        found = re.search(section, text, re.MULTILINE)
        assert found is not None, f"{page} has no picture below '{heading}'"
        text = text[: found.start(1)] + made + text[found.end() :]
    return text


if __name__ == "__main__":
    for page in MADE:
        (DOCS / page).write_text(filled(page), encoding="utf-8")
