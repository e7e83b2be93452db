"""How a fault is planted into the core, and whether a scenario finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any

from activebroker.simulation.run import run
from activebroker.simulation.scenario import Scenario
from activebroker.simulation.shrink import kind

Original = Callable[..., Any]
Make = Callable[[Original], Original]
Plant = Callable[[], AbstractContextManager[None]]  # in it, the core of this process has the fault


class Plants(dict[str, Plant]):
    """Planted faults by their names."""

    def add(self, name: str, owner: type | ModuleType, method: str) -> Callable[[Make], Make]:
        """Add what makes, of the original `owner.method`, the one with the fault."""

        def register(make: Make) -> Make:
            @contextmanager
            def planted() -> Iterator[None]:
                original = getattr(owner, method)
                setattr(owner, method, make(original))
                try:
                    yield
                finally:
                    setattr(owner, method, original)

            self[name] = planted
            return make

        return register


def found(scenario: Scenario, plant: Plant) -> str | None:
    """The kind of violation by which a scenario finds a planted fault, if it does.

    A checker has to find it: a fault that makes the core raise is not planted well. Without it the
    scenario has to be clean.
    """
    with plant():
        kinds = [kind(each) for each in run(scenario, record=False).violations]
    if not kinds or any(each.startswith("crash") for each in kinds):
        return None
    return None if run(scenario, record=False).violations else kinds[0]
