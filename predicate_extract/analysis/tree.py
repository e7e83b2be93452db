"""A decision tree: what the conditions on an event lead to, in the order of their evaluation.

Following code gives trees whose leaves are states; `bind` goes on from each of them. Equal leaves
are one object, and so are the trees that grow from them, which keeps code with many joins small;
`branch` sees from this where two tests are one `and` or `or`. `predicate_of` folds the whole.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from predicate_extract.algebra.predicate import (
    FALSE,
    TRUE,
    And,
    Defined,
    Not,
    Or,
    Predicate,
)
from predicate_extract.algebra.simplify import (
    checked,
    choice,
    conjunction,
    disjunction,
    evaluates,
    negation,
)
from predicate_extract.analysis.values import Maybe, mentions_maybe
from predicate_extract.report import Reason

S = TypeVar("S")
T = TypeVar("T")

MAX_WAYS = 16
MAX_SIZE = 400
"""A predicate has no more conditions; what would be larger is weakened."""


@dataclass(frozen=True, slots=True)
class Leaf(Generic[S]):
    """Where the code has got to on this path."""

    state: S


@dataclass(frozen=True, slots=True)
class Stop:
    """From here on the event is kept, whatever happens."""

    reason: Reason


@dataclass(frozen=True, slots=True, eq=False)
class Branch(Generic[S]):
    """`then` where the test is true, else `otherwise`; None where the test is never false."""

    test: Predicate
    then: Tree[S]
    otherwise: Tree[S] | None


Tree = Leaf[S] | Stop | Branch[S]


def branch(test: Predicate, then: Tree[S], otherwise: Tree[S]) -> Tree[S]:
    """Decide by a test."""
    if test == TRUE:
        return then
    if test == FALSE:
        return otherwise
    if same(then, otherwise):
        return check(checked(test), then)
    if isinstance(otherwise, Branch) and otherwise.otherwise is not None:
        if same(otherwise.then, then):
            return branch(disjunction(test, otherwise.test), then, otherwise.otherwise)
        if same(otherwise.otherwise, then):
            either = disjunction(test, negation(otherwise.test))
            return branch(either, then, otherwise.then)
    if isinstance(then, Branch) and then.otherwise is not None:
        if same(then.otherwise, otherwise):
            return branch(conjunction(test, then.test), then.then, otherwise)
        if same(then.then, otherwise):
            both = conjunction(test, negation(then.test))
            return branch(both, then.otherwise, otherwise)
    return Branch(test, then, otherwise)


def check(test: Predicate, then: Tree[S]) -> Tree[S]:
    """Go on, unless evaluating the `Defined` test raises."""
    if test == TRUE or isinstance(then, Stop):
        return then
    if isinstance(then, Branch) and isinstance(test, Defined) and evaluates(then.test, test.of):
        return then
    return Branch(test, then, None)


def same(one: Tree[S], two: Tree[S]) -> bool:
    """Whether two ways lead to the same."""
    # Two stops keep the event alike, but each has its reason to tell.
    return one is two or (isinstance(one, Leaf | Stop) and one == two)


def bind(tree: Tree[S], go: Callable[[S], Tree[T]]) -> Tree[T]:
    """Go on from every leaf."""
    grown: dict[int, Tree[T]] = {}
    leaves: dict[Leaf[S], Tree[T]] = {}

    def grow(tree: Tree[S]) -> Tree[T]:
        match tree:
            case Leaf():
                grown_there = leaves.get(tree)
                if grown_there is None:
                    grown_there = leaves[tree] = go(tree.state)
                return grown_there
            case Stop():
                return tree
        if id(tree) not in grown:
            then = grow(tree.then)
            if tree.otherwise is None:
                grown[id(tree)] = check(tree.test, then)
            else:
                grown[id(tree)] = branch(tree.test, then, grow(tree.otherwise))
        return grown[id(tree)]

    return grow(tree)


def remember(go: Callable[[S], Tree[T]]) -> Callable[[S], Tree[T]]:
    """Grow one tree for each state. (Not `functools.cache`: its calls use the C stack.)"""
    grown: dict[S, Tree[T]] = {}

    def again(state: S) -> Tree[T]:
        tree = grown.get(state)
        if tree is None:
            tree = grown[state] = go(state)
        return tree

    return again


def predicate_of(tree: Tree[bool], too_large: Reason) -> tuple[Predicate, list[Reason]]:
    """The condition under which the tree ends in True, or is kept; and why it is not exact."""
    reasons: dict[Reason, None] = {}
    folded: dict[int, Predicate] = {}

    def fold(tree: Tree[bool]) -> Predicate:
        match tree:
            case Leaf(forwards):
                return TRUE if forwards else FALSE
            case Stop(reason):
                reasons[reason] = None
                return TRUE
        if id(tree) not in folded:
            folded[id(tree)] = _fold_branch(tree)
        return folded[id(tree)]

    def _fold_branch(tree: Branch[bool]) -> Predicate:
        then = fold(tree.then)
        if tree.otherwise is None:
            return conjunction(tree.test, then)
        otherwise = fold(tree.otherwise)
        while (total := size(then) + size(otherwise)) > MAX_SIZE and total > 2:
            reasons[too_large] = None
            if size(then) > size(otherwise):
                then = TRUE
            else:
                otherwise = TRUE
        return choice(tree.test, then, otherwise)

    return fold(tree), list(reasons)


def size(predicate: Predicate) -> int:
    """The number of conditions in a predicate."""
    if isinstance(predicate, And | Or):
        return sum(map(size, predicate.parts))
    return 1


def settle(predicate: Predicate) -> Predicate:
    """Weaken what depends on something unknown to TRUE.

    That is sound because `NOT` stands only in front of single conditions: every condition counts
    for the event, none against it.
    """
    match predicate:
        case Maybe() | Not(Maybe()):
            return TRUE
        case And(parts):
            return conjunction(*map(settle, parts))
        case Or(parts):
            return disjunction(*map(settle, parts))
        case Defined(Predicate() as part) if mentions_maybe(part):
            return conjunction(*map(checked, _resolved(part)))
    return predicate


def _resolved(predicate: Predicate) -> list[Predicate]:
    """What a condition may come to, by what is unknown in it: of these, one raises if it does. If
    they are too many, its parts, which raise more often."""
    match predicate:
        case Maybe():
            return [TRUE, FALSE]
        case Not(part):
            return [negation(each) for each in _resolved(part)]
        case Defined(Predicate() as part):
            return [checked(each) for each in _resolved(part)]
        case And(parts) | Or(parts):
            ways = [_resolved(part) for part in parts]
            if math.prod(map(len, ways)) > MAX_WAYS:
                return [TRUE, FALSE, *dict.fromkeys(each for way in ways for each in way)]
            join = conjunction if isinstance(predicate, And) else disjunction
            return list(dict.fromkeys(join(*each) for each in itertools.product(*ways)))
    return [predicate]
