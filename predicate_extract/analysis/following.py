"""The frame of the analysis: where a path is, how it branches, where it ends.

`Following` decides by conditions, stops at what is not understood, and keeps the reasons. How an
expression gets its value is the subclass's: see `expressions`, `calls`, `statements`, `filters`,
each a layer on the one before.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from predicate_extract.algebra.predicate import TRUE, Always, Defined, Predicate
from predicate_extract.algebra.simplify import checked, choice, conjunction
from predicate_extract.algebra.terms import Const, Field, Term
from predicate_extract.analysis.choices import choice_in, given, holds_one
from predicate_extract.analysis.code import Code
from predicate_extract.analysis.content import Content
from predicate_extract.analysis.operations import BEFORE, Uncertain, hashed, truth
from predicate_extract.analysis.source import SourceFile
from predicate_extract.analysis.tree import (
    Branch,
    Leaf,
    Stop,
    Tree,
    bind,
    branch,
    check,
    remember,
    same,
)
from predicate_extract.analysis.values import (
    ITERATOR,
    Choice,
    Display,
    Known,
    Maybe,
    Opaque,
    Value,
)
from predicate_extract.report import Reason, Weaken

T = TypeVar("T")

Env = tuple[tuple[str, Value], ...]

MAX_STEPS = 4_000


def refuse_iterator(value: Value | None) -> None:
    """Iterators are followed only where they are used up at once."""
    if isinstance(value, Display) and value.kind == ITERATOR:
        raise Weaken("loop", "this can be gone through only once", "make a tuple of it")


@dataclass(frozen=True, slots=True)
class State:
    """What a path has done so far: the local names, and whether the event was forwarded."""

    env: Env = ()
    forwarded: bool = False
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        # It is looked up often, and its values are large.
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self.env, self.forwarded)))
        assert self._hash is not None
        return self._hash

    def get(self, name: str) -> Value | None:
        for known, value in self.env:
            if known == name:
                return value
        return None

    def set(self, name: str, value: Value | None) -> State:
        """With a name bound anew; None forgets it.

        Raises: Weaken, for what can be used only once.
        """
        refuse_iterator(value)
        others = [item for item in self.env if item[0] != name]
        if value is not None:
            others.append((name, value))
            others.sort(key=lambda item: item[0])
        return replace(self, env=tuple(others))


@dataclass(frozen=True, slots=True)
class Frame:
    """The function that is being followed, and the names of the functions around it; `called` is
    where, in the frame that calls it."""

    code: Code
    names: Env = ()
    depth: int = 0
    called: tuple[ast.AST, Frame] | None = None

    def in_first_file(self, node: ast.AST) -> tuple[ast.AST, Frame]:
        """A node, or where the file that is looked at calls what leads to it."""
        place, place_frame = node, self
        at, frame = node, self
        while frame.called is not None:
            at, frame = frame.called
            if frame.code.source.file is not place_frame.code.source.file:
                place, place_frame = at, frame
        return place, place_frame


@dataclass(frozen=True, slots=True)
class Got:
    """An expression's value, and the state after it."""

    value: Value
    state: State


@dataclass(frozen=True, slots=True)
class GotAll:
    """Several expressions' values, and the state after them."""

    values: tuple[Value, ...]
    state: State


@dataclass(slots=True)
class Notes:
    """What an analysis collects on its way. `catches`: what raises may be caught again."""

    reasons: dict[Reason, None] = field(default_factory=dict)
    steps: int = 0
    unknowns: int = 0
    catches: bool = False


Hazards = Callable[[SourceFile, ast.AST], Weaken | None]
"""Says where the analysis has to stop, and why."""


class Following(ABC):
    """Decides, stops, and notes why."""

    def __init__(
        self, content: Content, ignore_effects: bool, hazards: Hazards | None = None
    ) -> None:
        self.content = content
        self.notes = Notes()
        self._ignore_effects = ignore_effects
        self._hazards = hazards

    @abstractmethod
    def value(self, node: ast.expr, frame: Frame, state: State) -> Tree[Got]:
        """What an expression stands for."""

    def decide(
        self,
        test: ast.expr,
        frame: Frame,
        state: State,
        then: Callable[[State], Tree[T]],
        otherwise: Callable[[State], Tree[T]],
    ) -> Tree[T]:
        """Go on with `then` where the test is true, else with `otherwise`."""
        then, otherwise = remember(then), remember(otherwise)
        match test:
            case ast.UnaryOp(ast.Not(), operand):
                return self.decide(operand, frame, state, otherwise, then)
            case ast.BoolOp(op, [first, *others]):
                rest = others[0] if len(others) == 1 else ast.BoolOp(op, others)

                def more(after: State) -> Tree[T]:
                    return self.decide(rest, frame, after, then, otherwise)

                if isinstance(op, ast.And):
                    return self.decide(first, frame, state, more, otherwise)
                return self.decide(first, frame, state, then, more)

        def go(got: Got) -> Tree[T]:
            return self.by_truth(
                got.value, test, frame, lambda: then(got.state), lambda: otherwise(got.state)
            )

        return bind(self.value(test, frame, state), go)

    def by_truth(
        self,
        value: Value,
        node: ast.AST,
        frame: Frame,
        then: Callable[[], Tree[T]],
        otherwise: Callable[[], Tree[T]],
    ) -> Tree[T]:
        """Go on by the truth of a value."""
        typed = self.content.typed
        return self.chosen(
            (value,),
            node,
            frame,
            lambda values: self.when(lambda: truth(values[0], typed), node, frame, then, otherwise),
        )

    def when(
        self,
        condition: Callable[[], Predicate],
        node: ast.AST,
        frame: Frame,
        then: Callable[[], Tree[T]],
        otherwise: Callable[[], Tree[T]],
    ) -> Tree[T]:
        """Go on by a condition, which may turn out not to be one."""
        try:
            test = self.settled(condition, node, frame)
        except Weaken as weaken:
            return self.stop(weaken, node, frame)
        if isinstance(test, Always):
            return then() if test.value else otherwise()
        return branch(test, then(), otherwise())

    def chosen(
        self,
        values: tuple[Value, ...],
        node: ast.AST,
        frame: Frame,
        go: Callable[[tuple[Value, ...]], Tree[T]],
    ) -> Tree[T]:
        """Go on with some values; where they depend on a field that holds one of a few constants,
        with what they are for each."""
        choice = choice_in(values)
        try:
            if choice is None:
                return go(values)
            field = choice.field
            ways: list[tuple[list[Const], Tree[T]]] = []
            for row, (key, _) in enumerate(choice.rows):
                self.step()
                there = tuple(given(value, field, row) for value in values)
                tree = self.chosen(there, node, frame, go)
                keys = next((keys for keys, known in ways if same(known, tree)), None)
                if keys is None:
                    ways.append(([key], tree))
                else:
                    keys.append(key)
        except Weaken as weaken:
            return self.stop(weaken, node, frame)
        if not ways:
            return self.stop(Weaken("unsupported", f"{field} has no values"), node, frame)
        *rarer, (_, tree) = sorted(ways, key=lambda way: len(way[0]))
        for keys, way in reversed(rarer):
            tree = branch(holds_one(field, keys), way, tree)
        return self.checked(choice, tree)

    def settled(self, condition: Callable[[], Predicate], node: ast.AST, frame: Frame) -> Predicate:
        """The condition; where nobody knows its answer, one that says so.

        Raises: Weaken.
        """
        try:
            return condition()
        except Uncertain as uncertain:
            weaken = Weaken(
                uncertain.kind,
                f"this depends on {uncertain.what}: both answers count",
                BEFORE,
            )
            return conjunction(uncertain.check, self.maybe(weaken, node, frame))

    def maybe(self, weaken: Weaken, node: ast.AST, frame: Frame) -> Maybe:
        """A condition that nobody knows, with the reason for it."""
        self.notes.reasons[self.reason(weaken, node, frame)] = None
        self.notes.unknowns += 1
        return Maybe(self.notes.unknowns)

    def stop(self, weaken: Weaken, node: ast.AST, frame: Frame) -> Stop:
        return Stop(self.reason(weaken, node, frame))

    def reason(self, weaken: Weaken, node: ast.AST, frame: Frame) -> Reason:
        place, outer = frame.in_first_file(node)
        source, message = outer.code.source, weaken.message
        if source.file is not frame.code.source.file:
            inside = frame.code.source
            message += f" ({inside.file.filename}:{getattr(node, 'lineno', inside.first_line)})"
        line = getattr(place, "lineno", source.first_line)
        return Reason(line, source.snippet(place), weaken.kind, message, weaken.hint)

    def step(self) -> None:
        """Count a step.

        Raises: Weaken, if there have been too many.
        """
        self.notes.steps += 1
        if self.notes.steps > MAX_STEPS:
            raise Weaken("too-many-paths", "there are too many paths to follow from here")

    def checked(self, value: Value, then: Tree[T]) -> Tree[T]:
        """Go on, unless computing the value raises."""
        for test in reversed(self.checks(value)):
            then = check(test, then)
        return then

    def checks(self, value: Value) -> list[Predicate]:
        """What computing a value may raise."""
        match value:
            case Display(_, items):
                found = [each for item in items for each in self.checks(item)]
                keys = value.keys if value.hashed else ()
                hashes = [hashed(key) for key in keys if not isinstance(key, Const | Known)]
                return [*found, *(each for each in hashes if self.content.can_raise(each))]
            case Field(path) if not path:
                return []
            case Choice(field) | Opaque(field):
                test = checked(field)
            case Predicate():
                test = checked(value)
            case Term():
                test = TRUE if isinstance(value, Const) else Defined(value)
            case _:
                return []
        return [] if test == TRUE or not self.content.can_raise(test) else [test]


def collapsed(tree: Tree[Got]) -> Tree[Got]:
    """The tree, as one condition where it only decides between true and false."""
    if not isinstance(tree, Branch):
        return tree
    done: dict[int, Tree[Got]] = {}  # parts are shared, so that there are far more paths to them

    def collapse(tree: Tree[Got]) -> Tree[Got]:
        if not isinstance(tree, Branch):
            return tree
        if id(tree) not in done:
            then = collapse(tree.then)
            otherwise = then if tree.otherwise is None else collapse(tree.otherwise)
            done[id(tree)] = _decided(tree, then, otherwise)
        return done[id(tree)]

    return collapse(tree)


def _decided(tree: Branch[Got], then: Tree[Got], otherwise: Tree[Got]) -> Tree[Got]:
    match then, otherwise:
        case (
            Leaf(Got(Predicate() | Const(bool()) as yes, one)),
            Leaf(Got(Predicate() | Const(bool()) as no, two)),
        ) if one == two:
            if tree.otherwise is None:
                return Leaf(Got(conjunction(tree.test, truth(yes, False)), one))
            return Leaf(Got(choice(tree.test, truth(yes, False), truth(no, False)), one))
    return tree
