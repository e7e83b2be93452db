"""The ways through a function's bytecode, folded back into `and`, `or`, `if else` and `if`.

Part of the guess of `decompile`, that `bytecode` proves: nothing here has to be right.
"""

from __future__ import annotations

import ast
import dis
import sys
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)

EXIT = sys.maxsize
"""Where a `return` goes on."""


@dataclass(slots=True, eq=False)
class Way:
    """What happens from a point on: some statements, then a decision, or it goes on elsewhere.

    Without loops, jumps lead forward only, and the ways are a tree. Instructions are followed in
    their order; the ways that meet at one are folded into one before it.
    """

    goto: int
    stack: list[ast.expr]
    statements: list[ast.stmt] = field(default_factory=list)
    place: dis.Positions | None = None
    """Where the `return` stands that it ended with."""
    decision: tuple[ast.expr, Way, Way] | None = None
    """A test, the way on where it is true, and the way that jumps."""

    def ends(self) -> Iterator[Way]:
        """Where it leads, after all decisions."""
        pending = [self]
        while pending:
            way = pending.pop()
            if way.decision is None:
                yield way
            else:
                pending += way.decision[1:]

    def body(self) -> list[ast.stmt]:
        """The statements of a way that returns."""
        if self.decision is None:
            return [*self.statements, at(self.place, ast.Return(self.stack[-1]))]
        test, yes, no = self.decision
        return [*self.statements, at(test, ast.If(test, yes.body(), [])), *no.body()]


def at(place: ast.AST | dis.Positions | None, node: Node) -> Node:
    """Put a node on a line: the compiler keeps some jumps for the sake of lines."""
    line = getattr(place, "lineno", None) or 1
    for name, number in zip(ast.stmt._attributes, (line, 0, line, 0), strict=True):
        setattr(node, name, number)
    return node


def fold(way: Way) -> None:
    """Make one of the decisions, and one of the ways, that belong together."""
    if way.decision is None:
        return
    test, yes, no = way.decision
    fold(yes)
    fold(no)
    while (folded := _one_decision(test, yes, no)) is not None:
        way.decision = test, yes, no = folded
    if yes.decision is no.decision is None and yes.goto == no.goto:
        _join(way, test, yes, no)


def settle(way: Way) -> None:
    """Make an `if` of each decision one of whose ways returns, while the other one goes on."""
    if way.decision is None:
        return
    test, yes, no = way.decision
    settle(yes)
    settle(no)
    for condition, ended, other in ((test, yes, no), (negated(test), no, yes)):
        returns = all(end.goto == EXIT for end in ended.ends())
        goes_on = other.decision is None and other.goto != EXIT and not other.stack
        if returns and goes_on:
            choice = at(test, ast.If(condition, ended.body(), []))
            way.statements += [choice, *other.statements]
            way.goto, way.stack, way.decision = other.goto, other.stack, None
            return


def _one_decision(test: ast.expr, yes: Way, no: Way) -> tuple[ast.expr, Way, Way] | None:
    """Two decisions one after the other, as one."""
    first = yes.decision if not yes.statements else None
    second = no.decision if not no.statements else None
    if first is not None:
        inner, then, otherwise = first
        if _is_same(otherwise, no):
            return bool_op(ast.And, test, inner), then, no
        if _is_same(then, no):
            return bool_op(ast.Or, negated(test), inner), then, otherwise
    if second is not None:
        inner, then, otherwise = second
        if _is_same(then, yes):
            return bool_op(ast.Or, test, inner), yes, otherwise
        if _is_same(otherwise, yes):
            return bool_op(ast.And, negated(test), inner), then, yes
    if first and second and _is_same(first[1], second[1]) and _is_same(first[2], second[2]):
        return at(test, ast.IfExp(test, first[0], second[0])), first[1], first[2]
    return None


def _is_same(one: Way, two: Way) -> bool:
    """Whether two ways go on alike, with nothing done before."""
    plain = not (one.statements or two.statements or one.decision or two.decision)
    return plain and one.goto == two.goto and _is_alike(one, two)


def _is_alike(one: Way, two: Way) -> bool:
    """Whether two ways that meet leave the same behind."""
    if one.goto != EXIT:
        return _are_same(one.stack, two.stack)
    (first,), (second,) = one.stack, two.stack  # the compiler may have copied a `return`
    none = ast.dump(first) == ast.dump(ast.Constant(None))
    line = getattr(one.place, "lineno", None) == getattr(two.place, "lineno", None)
    return (one.place == two.place or (none and line)) and ast.dump(first) == ast.dump(second)


def _are_same(one: list[ast.expr], two: list[ast.expr]) -> bool:
    return len(one) == len(two) and all(a is b for a, b in zip(one, two, strict=True))


def _join(way: Way, test: ast.expr, yes: Way, no: Way) -> None:
    """Two ways that meet: they differ in a value, or else in their statements."""
    if yes.statements or no.statements or _are_same(yes.stack, no.stack):
        if not _is_alike(yes, no):
            return
        if yes.statements or not no.statements:
            choice = ast.If(test, yes.statements or [ast.Pass()], no.statements)
        else:
            choice = ast.If(negated(test), no.statements, [])
        way.statements.append(at(test, choice))
        way.stack = yes.stack
    elif _are_same(yes.stack[:-1], no.stack[:-1]) and yes.place == no.place:
        way.stack = [*yes.stack[:-1], _merged(test, yes.stack[-1], no.stack[-1])]
    else:
        return
    way.goto, way.place, way.decision = yes.goto, yes.place, None


def _merged(test: ast.expr, yes: ast.expr, no: ast.expr) -> ast.expr:
    """The one value of two ways, where the compiler may have copied what followed their meeting."""
    origin = getattr(yes, "origin", None)
    copied = origin is not None and origin == getattr(no, "origin", None) and type(yes) is type(no)
    if not copied or _is_kept(test, no, ast.Or):  # as the parts of a chain stand in one place
        return _either(test, yes, no)
    merged = copy(yes)
    for name, one in ast.iter_fields(yes):
        two = getattr(no, name)
        if isinstance(one, ast.expr) and isinstance(two, ast.expr):
            setattr(merged, name, one if one is two else _merged(test, one, two))
        elif isinstance(one, list) and all(isinstance(item, ast.expr) for item in (*one, *two)):
            pairs = zip(one, two, strict=True)
            setattr(merged, name, [a if a is b else _merged(test, a, b) for a, b in pairs])
    return merged


def _either(test: ast.expr, yes: ast.expr, no: ast.expr) -> ast.expr:
    """The value of `yes if test else no`; `and` and `or` keep the value that decided."""
    if _is_kept(test, no, ast.Or):
        return bool_op(ast.And, test, yes)
    opposite = negated(test)
    if _is_kept(opposite, no, ast.And):
        return bool_op(ast.Or, opposite, yes)
    return at(yes, ast.IfExp(test, yes, no))


def _is_kept(test: ast.expr, value: ast.expr, op: type[ast.boolop]) -> bool:
    while test is not value:
        if not (isinstance(test, ast.BoolOp) and isinstance(test.op, op)):
            return False
        test = test.values[-1]
    return True


def negated(test: ast.expr) -> ast.expr:
    """The opposite of a test; of that again, the test itself: a kept value must be found in it."""
    known: ast.expr | None = getattr(test, "opposite", None)
    if known is None:
        match test:
            case ast.UnaryOp(ast.Not(), operand):
                known = operand
            case ast.BoolOp(op, values):
                dual = ast.Or() if isinstance(op, ast.And) else ast.And()
                known = at(test, ast.BoolOp(dual, [negated(value) for value in values]))
            case _:
                known = at(test, ast.UnaryOp(ast.Not(), test))
        test.opposite, known.opposite = known, test  # type: ignore[attr-defined]
    return known


def bool_op(op: type[ast.boolop], left: ast.expr, right: ast.expr) -> ast.expr:
    """`left and right`, or a chain of comparisons, or `left or right`."""
    flat = right.values if isinstance(right, ast.BoolOp) and isinstance(right.op, op) else [right]
    chain: ast.expr | None = None
    match left, flat[0]:
        case ast.Compare() as one, ast.Compare() as two if op is ast.And:
            chain = _chain(one, two)
        case ast.UnaryOp(ast.Not(), ast.Compare() as one), ast.UnaryOp(
            ast.Not(), ast.Compare() as two
        ) if op is ast.Or:
            found = _chain(one, two)
            chain = found and negated(found)
    values = [left, *flat] if chain is None else [chain, *flat[1:]]
    return values[0] if len(values) == 1 else at(left, ast.BoolOp(op(), values))


def _chain(one: ast.Compare, two: ast.Compare) -> ast.expr | None:
    """A chain of comparisons, if the operand in the middle is evaluated once."""
    if one.comparators[-1] is not two.left:
        return None
    ops, comparators = [*one.ops, *two.ops], [*one.comparators, *two.comparators]
    return at(one, ast.Compare(one.left, ops, comparators))
