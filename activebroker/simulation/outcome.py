"""What a run tells: its history, what broke the contract, and what it has covered."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from activebroker.simulation.scenario import Scenario

Covered = tuple[str, str, str]  # machine, its state, kind of fault


class Carried(NamedTuple):
    """A move that was carried out. `kind`: from where to where; `depth`: of the channel whose
    filter moved, 1 if it is derived from a root, 0 if none did; `suppliers`: of the root when it
    began; `outcome`: "COMPLETED", "ROLLED_BACK" or "FAILED"."""

    kind: str
    depth: int
    suppliers: int
    stateful: bool
    outcome: str


@dataclass(frozen=True, slots=True)
class Happening:
    """One line of a run's history, at virtual second `at`.

    `kind`: "step" (a user at `place` does something), "fault" (something fails at `place`),
    "send" and "arrive" (`what` goes from `place` to `other`), "drop" and "repeat" (what the network
    did to it), "state" (a machine of the move at `place` goes to another state), "see" (a
    consumer at `place` receives events). `move` is the number of the one it belongs to.
    """

    at: float
    kind: str
    place: str
    what: str
    other: str = ""
    move: int | None = None

    def __str__(self) -> str:
        to = f" -> {self.other}" if self.other else ""
        return f"{self.at:10.6f} {self.kind:7} {self.place}{to}: {self.what}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`violations` is empty where the contract was kept. `counts`: what the run did, by kind;
    `carried`: its derivations."""

    scenario: Scenario
    violations: tuple[str, ...]
    history: tuple[Happening, ...]
    covered: Counter[Covered] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    carried: Counter[Carried] = field(default_factory=Counter)
    digest: str = ""  # of every frame sent and everything seen, if the run took it

    @property
    def trace_hash(self) -> str:
        """The same for the same seed, in any process."""
        if self.digest:
            return self.digest
        digest = hashlib.blake2b(digest_size=16)
        for happening in self.history:
            digest.update(f"{happening}\n".encode())
        return digest.hexdigest()
