"""Three-valued logic for a backend that evaluates many rows at once, without stopping early.

A backend says for each condition where it is *true* and where it *raises* (and never both); how
`AND`, `OR` and `NOT` combine these is the same for numpy arrays and for Spark columns. A condition
that a backend cannot evaluate as Python does is said to raise everywhere: every row that gets there
is kept, and the filter itself decides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from predicate_extract.algebra.predicate import Always, And, Defined, Not, Or, Predicate

# Whatever has `&`, `|` and `~`: a numpy array of bools, a Spark column.
Bits = TypeVar("Bits", bound=Any)


class Unfaithful(Exception):
    """This backend cannot evaluate this condition exactly as Python does."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Bits]):
    """Where a condition is true, and where it raises (None: nowhere). The two never overlap."""

    true: Bits
    raised: Bits | None = None


class Backend(ABC, Generic[Bits]):
    """Evaluates a predicate over rows; a subclass supplies constants and single conditions."""

    @abstractmethod
    def constant(self, value: bool) -> Bits:
        """The same answer for every row."""

    @abstractmethod
    def condition(self, condition: Predicate) -> Outcome[Bits]:
        """A single condition.

        Raises: Unfaithful.
        """

    def judge(self, predicate: Predicate) -> Outcome[Bits]:
        """Evaluate a predicate over all rows."""
        match predicate:
            case Always(value):
                return Outcome(self.constant(value))
            case Not(part):
                return self._inverted(self.judge(part))
            case And(parts):
                outcome = self.judge(parts[0])
                for part in parts[1:]:
                    outcome = self._both(outcome, self.judge(part))
                return outcome
            case Or(parts):
                outcome = self._inverted(self.judge(parts[0]))
                for part in parts[1:]:
                    outcome = self._both(outcome, self._inverted(self.judge(part)))
                return self._inverted(outcome)
            case Defined(Predicate() as part):
                raised = self.judge(part).raised
                return Outcome(self.constant(True) if raised is None else ~raised, raised)
        try:
            return self.condition(predicate)
        except Unfaithful:
            return Outcome(self.constant(False), self.constant(True))

    def _inverted(self, one: Outcome[Bits]) -> Outcome[Bits]:
        false = ~one.true
        return Outcome(false if one.raised is None else false & ~one.raised, one.raised)

    def _both(self, one: Outcome[Bits], two: Outcome[Bits]) -> Outcome[Bits]:
        raised = one.raised
        if two.raised is not None:
            late = one.true & two.raised
            raised = late if raised is None else raised | late
        return Outcome(one.true & two.true, raised)
