"""The tables are whole and true, and so is what is drawn from them."""

from __future__ import annotations

import importlib
import pkgutil
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar

import pytest
from every_input_for_tests import inputs, machines, plan_of
from states_for_tests import MACHINES, picture_of_machine, states, table_of_machine

import derivation
from derivation.machine import Machine, Table, Transition, kind
from derivation.protocol import Effect, Prepared, RemoveFilter, Send, StartFilter


def test_every_machine_is_drawn_and_begins_where_its_picture_says() -> None:
    for module in pkgutil.iter_modules(derivation.__path__):
        importlib.import_module(f"derivation.{module.name}")
    of_package = {
        cls for cls in Machine.__subclasses__() if cls.__module__.startswith("derivation.")
    }
    assert of_package == {*MACHINES}
    begun = {type(new()): new().state for new in machines(plan_of((1, 1, 1, False))).values()}
    assert begun == {machine: states(machine)[0] for machine in MACHINES}


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_what_a_table_declares_does_happen(machine: type[Machine]) -> None:
    """Every state that its inputs can bring a machine to, and from there every input. (That
    nothing else happens is held by `handle` itself.)"""
    done: dict[tuple[Enum, type], tuple[set[Enum], set[type]]] = {}
    for plan in map(plan_of, [(2, 1, 2, True), (2, 2, 1, False), (1, 0, 1, False)]):
        seen: set[str] = set()
        ahead = [made for new in machines(plan).values() if isinstance(made := new(), machine)]
        while ahead:
            before = ahead.pop()
            if (inside := repr({**vars(before), "_story": None})) in seen:
                continue
            seen.add(inside)
            for input in inputs(plan):
                if (before.state, type(input)) not in machine.table:
                    continue
                after = deepcopy(before)
                effects = after.handle(input, 0.0)
                to, kinds = done.setdefault((before.state, type(input)), (set(), set()))
                to.add(after.state)
                kinds.update(map(kind, effects))
                ahead.append(after)
    assert done == {
        (state, input): (
            ({*transition.to}, {*transition.effects}) if transition else ({state}, set())
        )
        for (state, input), transition in machine.table.items()
    }


# --- a machine of our own ---------------------------------------------------------------------


class DoorState(Enum):
    SHUT = auto()
    OPEN = auto()
    GONE = auto()


@dataclass(frozen=True)
class Pushed:
    pass


@dataclass(frozen=True)
class Pulled:
    pass


class Door(Machine):
    def __init__(self, to: DoorState = DoorState.OPEN, *effects: Effect) -> None:
        super().__init__(DoorState.SHUT)
        self.to, self.effects = to, effects

    def _move(self, _: object, __: float) -> list[Effect]:
        self.state = self.to
        return [*self.effects]

    table: ClassVar[Table] = {
        (DoorState.SHUT, Pushed): Transition(
            _move, (DoorState.SHUT, DoorState.OPEN), (Prepared, StartFilter)
        ),
        (DoorState.OPEN, Pulled): Transition(_move, (DoorState.GONE,)),
        (DoorState.OPEN, Pushed): None,
    }


def test_a_picture_and_a_table() -> None:
    assert picture_of_machine(Door).splitlines() == [
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> SHUT",
        "    SHUT --> SHUT: Pushed",
        "    SHUT --> OPEN: Pushed",
        "    OPEN --> GONE: Pulled",
        "    GONE --> [*]",
        "```",
    ]
    assert table_of_machine(Door).splitlines()[2:] == [
        "| SHUT | `Pushed` | SHUT, OPEN | `Prepared` | `StartFilter` |",
        "| OPEN | `Pulled` | GONE |  |  |",
        "| OPEN | `Pushed` | *ignored* |  |  |",
    ]


def test_what_the_table_declares_may_happen() -> None:
    effects = [StartFilter(), Send("directory", Prepared(1, "door"))]
    assert Door(DoorState.OPEN, *effects).handle(Pushed(), 0.0) == effects


@pytest.mark.parametrize(
    ("door", "what"),
    [
        (Door(DoorState.GONE), r"Door: SHUT \+ Pushed -> GONE .* not in the table"),
        (Door(DoorState.OPEN, RemoveFilter()), "SHUT .* -> OPEN with .*RemoveFilter"),
        (Door(DoorState.OPEN, Send("x", "hello")), "SHUT .* -> OPEN with .*str"),
    ],
)
def test_what_the_table_does_not_declare_must_not_happen(door: Door, what: str) -> None:
    with pytest.raises(AssertionError, match=what):
        door.handle(Pushed(), 0.0)
