"""State diagrams and transition tables of the machines, made from the tables that they run by.

`python -m derivation.diagram` writes docs/derivation-states.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import get_args

from derivation.destination import Destination
from derivation.initiator import Initiator
from derivation.machine import Machine
from derivation.origin import Origin
from derivation.protocol import Effect
from derivation.source import Source

MACHINES: tuple[type[Machine], ...] = (Initiator, Source, Origin, Destination)
DOCUMENT = Path(__file__).parents[1] / "docs" / "derivation-states.md"

HEAD = """\
# The states of a derivation

Made from the transition tables by `python -m derivation.diagram`; [derivation.md](derivation.md)
explains them. In a state, a machine takes the inputs that are named for it; any other raises
`UnexpectedInput`. One that may stay in its state names it among the next. *Ignored* is what comes
too late or twice. *Sends* are messages to other parties, *asks for* are effects on the own node;
which of them a transition has depends on the plan and on what has arrived.
"""


def states(machine: type[Machine]) -> list[Enum]:
    """All states of a machine; it begins in the first."""
    state, _ = next(iter(machine.table))
    return list(type(state))


def mermaid(machine: type[Machine]) -> str:
    """The machine as a Mermaid `stateDiagram-v2`, an arrow for each pair of states."""
    arrows: dict[tuple[Enum, Enum], list[str]] = {}
    for (state, input), transition in machine.table.items():
        for to in transition.to if transition is not None else ():
            arrows.setdefault((state, to), []).append(input.__name__)
    first, *_ = everything = states(machine)
    left = {state for state, to in arrows if state is not to}
    lines = [f"[*] --> {first.name}"]
    lines += [f"{state.name} --> {to.name}: {', '.join(by)}" for (state, to), by in arrows.items()]
    lines += [f"{state.name} --> [*]" for state in everything if state not in left]
    return "\n".join(("stateDiagram-v2", *(f"    {line}" for line in lines)))


def markdown(machine: type[Machine]) -> str:
    """The machine's table: state, input, next states, what it sends and asks for."""
    return "\n".join(
        f"| {' | '.join(row)} |"
        for row in (
            ("state", "input", "next", "sends", "asks for"),
            ("---",) * 5,
            *_rows(machine),
        )
    )


def document() -> str:
    """The whole page."""
    parts = [HEAD]
    for machine in MACHINES:
        about = (sys.modules[machine.__module__].__doc__ or "").partition("\n")[0]
        parts.append(f"## {machine.__name__}\n\n{about}\n")
        parts.append(f"```mermaid\n{mermaid(machine)}\n```\n")
        parts.append(f"{markdown(machine)}\n")
    return "\n".join(parts)


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


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
