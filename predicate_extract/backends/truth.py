"""Three-valued logic for a backend that evaluates many rows at once, without stopping early.

A backend says for each condition where it is *true* and where it *raises* (and never both); how
`AND`, `OR` and `NOT` combine these is the same for numpy arrays and for Spark columns. A condition
that a backend cannot evaluate as Python does *may be* true everywhere: the rows that it alone would
decide are kept, and the filter itself decides; if it may raise as well, all that get to it are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from predicate_extract.algebra.predicate import Always, And, Defined, Not, Or, Predicate
from predicate_extract.algebra.schema import can_raise

# Whatever has `&`, `|` and `~`: a numpy array of bools, a Spark column.
Bits = TypeVar("Bits", bound=Any)


class Unfaithful(Exception):
    """This backend cannot evaluate this condition exactly as Python does."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Bits]):
    """Where a condition is true, where it raises or may (None: nowhere), and where it may be true
    or false, but does not raise (None: nowhere). No two overlap. `sure`: it raises wherever it
    may."""

    true: Bits
    raised: Bits | None = None
    maybe: Bits | None = None
    sure: bool = True

    @property
    def exact(self) -> bool:
        """Whether it is known to be true or false for every row."""
        return self.unsure is None

    @property
    def unsure(self) -> Bits | None:
        """Where only the filter can tell (None: nowhere)."""
        return _any(self.raised, self.maybe)

    @property
    def keep(self) -> Bits:
        """The rows that must reach the filter."""
        keep: Bits = self.true if self.unsure is None else self.true | self.unsure
        return keep


def _any(one: Bits | None, two: Bits | None) -> Bits | None:
    return two if one is None else one if two is None else one | two


def _both(one: Bits | None, two: Bits | None) -> Bits | None:
    return None if one is None or two is None else one & two


class Backend(ABC, Generic[Bits]):
    """Evaluates a predicate over rows of a schema; a subclass supplies constants and single
    conditions."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

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
                one = self.judge(part)
                true = self.constant(True) if one.raised is None else ~one.raised
                return Outcome(true, one.raised, sure=one.sure)
        try:
            return self.condition(predicate)
        except Unfaithful:
            no, yes = self.constant(False), self.constant(True)
            if can_raise(predicate, self.schema):
                return Outcome(no, raised=yes, sure=False)
            return Outcome(no, maybe=yes)

    def _inverted(self, one: Outcome[Bits]) -> Outcome[Bits]:
        return Outcome(~one.keep, one.raised, one.maybe, one.sure)

    def _both(self, one: Outcome[Bits], two: Outcome[Bits]) -> Outcome[Bits]:
        goes_on = _any(one.true, one.maybe)
        return Outcome(
            one.true & two.true,
            _any(one.raised, _both(goes_on, two.raised)),
            _any(_both(one.maybe, _any(two.true, two.maybe)), _both(one.true, two.maybe)),
            one.sure and two.sure and (one.maybe is None or two.raised is None),
        )
