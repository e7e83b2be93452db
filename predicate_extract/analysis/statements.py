"""Following statements: where a function goes, and what it has done when it gets there.

The first thing on a path that is not understood for certain (an unknown call, a change of state, a
raise) ends the path: its events are kept. An exception caught inside needs no path of its own: an
event that raises is kept, whatever the handler does with it.
"""

from __future__ import annotations

import ast
import contextlib
import enum
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from predicate_extract.algebra.terms import Const
from predicate_extract.analysis.calls import Calls
from predicate_extract.analysis.describe import describe, describe_target
from predicate_extract.analysis.following import Frame, Got, GotAll, State
from predicate_extract.analysis.operations import BINARY, arithmetic
from predicate_extract.analysis.patterns import Matching
from predicate_extract.analysis.tree import Leaf, Stop, Tree, bind, remember
from predicate_extract.analysis.unpacking import assigned, iterated
from predicate_extract.analysis.values import Display, Known, Value
from predicate_extract.report import Weaken

MAX_ROUNDS = 16
"""A `while` loop is followed for no more rounds."""


NONE = Const(None)


class Way(enum.Enum):
    """How control leaves a statement."""

    NEXT = "next"
    RETURN = "return"
    BREAK = "break"
    CONTINUE = "continue"


@dataclass(frozen=True, slots=True)
class Point:
    """Where a path is after a statement; `value` is what a `return` gives."""

    state: State
    way: Way = Way.NEXT
    value: Value = NONE


Run = Callable[[State], Tree[Point]]


class Statements(Calls):
    """Follows statements; what belongs to filters is the subclass's."""

    @abstractmethod
    def stores(self, target: ast.expr, frame: Frame, state: State) -> Weaken | None:
        """Why an assignment to an attribute or item matters; None where it does not."""

    def body(self, frame: Frame, state: State) -> Tree[Got]:
        tree = self.block(frame.code.body, frame, state)
        return bind(tree, lambda point: Leaf(Got(point.value, point.state)))

    def block(self, body: Sequence[ast.stmt], frame: Frame, state: State) -> Tree[Point]:
        """Follow statements one after the other."""
        tree: Tree[Point] = Leaf(Point(state))
        for statement in body:
            tree = self._then(tree, lambda at, s=statement: self.statement(s, frame, at))  # type: ignore
            if not _goes_on(tree):
                break
        return tree

    def statement(self, node: ast.stmt, frame: Frame, state: State) -> Tree[Point]:
        try:
            self.step()
            return self._statement(node, frame, state)
        except Weaken as weaken:
            return self.stop(weaken, node, frame)

    def _then(self, tree: Tree[Point], go: Run) -> Tree[Point]:
        """Go on where the path falls through."""
        go = remember(go)
        return bind(tree, lambda at: go(at.state) if at.way is Way.NEXT else Leaf(at))

    def _statement(self, node: ast.stmt, frame: Frame, state: State) -> Tree[Point]:
        match node:
            case ast.Pass() | ast.Global() | ast.Nonlocal():
                return Leaf(Point(state))
            case ast.Expr(value):
                return self._after(value, frame, state, lambda got: Leaf(Point(got.state)))
            case ast.If(test, body, orelse):
                return self.decide(
                    test,
                    frame,
                    state,
                    lambda after: self.block(body, frame, after),
                    lambda after: self.block(orelse, frame, after),
                )
            case ast.Assign(targets, value):
                return self._after(
                    value, frame, state, lambda got: self._assign(targets, got, frame)
                )
            case ast.AnnAssign(target, _, value):
                if value is None:
                    return Leaf(Point(state))
                return self._after(
                    value, frame, state, lambda got: self._assign([target], got, frame)
                )
            case ast.AugAssign(ast.Name(id=name) as target, op, value) if type(op) in BINARY:
                return self._augment(name, target, BINARY[type(op)], value, frame, state)
            case ast.AugAssign(target=target) | ast.Delete([target]):
                return self._store(target, node, frame, state)
            case ast.Return(value):
                if value is None:
                    return Leaf(Point(state, Way.RETURN))
                return bind(
                    self.value(value, frame, state),
                    lambda got: Leaf(Point(got.state, Way.RETURN, got.value)),
                )
            case ast.Assert(test):
                failed = Weaken("raises", "a failed assertion has to be reported")
                return self.decide(
                    test,
                    frame,
                    state,
                    lambda after: Leaf(Point(after)),
                    lambda after: self.stop(failed, node, frame),
                )
            case ast.Raise():
                raise Weaken("raises", "the exception has to be reported")
            case ast.Break():
                return Leaf(Point(state, Way.BREAK))
            case ast.Continue():
                return Leaf(Point(state, Way.CONTINUE))
            case ast.For(target, source, body, orelse):
                return self._for(target, source, body, orelse, frame, state)
            case ast.While(test, body, orelse):
                return self._while(test, body, orelse, node, frame, state, 0)
            case ast.Try(body, handlers, orelse, final):
                return self._try(body, handlers, orelse, final, frame, state)
            case ast.With(items, body):
                return self._with(items, body, frame, state)
            case ast.Match(subject, cases):
                return self._after(
                    subject,
                    frame,
                    state,
                    lambda got: self._match(cases, got.value, frame, got.state),
                )
            case ast.FunctionDef(name=name) if not node.decorator_list:
                self._check_local(name, frame)
                function = self.inner_function(node, frame, state)
                return Leaf(Point(state.set(name, function)))
        raise Weaken(*describe(node))

    # -- assignments ---------------------------------------------------------------------------

    def _after(
        self,
        node: ast.expr,
        frame: Frame,
        state: State,
        go: Callable[[Got], Tree[Point]],
    ) -> Tree[Point]:
        """Go on behind an expression, whose computation may raise."""

        def then(got: Got) -> Tree[Point]:
            try:
                return self.checked(got.value, go(got))
            except Weaken as weaken:
                return self.stop(weaken, node, frame)

        return bind(self.value(node, frame, state), then)

    def _assign(self, targets: Sequence[ast.expr], got: Got, frame: Frame) -> Tree[Point]:
        tree: Tree[Point] = Leaf(Point(got.state))
        for target in targets:
            tree = self._then(tree, lambda at, t=target: self._bind(t, got.value, frame, at))  # type: ignore
        return tree

    def _bind(self, target: ast.expr, value: Value, frame: Frame, state: State) -> Tree[Point]:
        if isinstance(target, ast.Attribute | ast.Subscript):
            return self._store(target, target, frame, state)
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self._check_local(node.id, frame)
        return Leaf(Point(assigned(state, target, value)))

    def _check_local(self, name: str, frame: Frame) -> None:
        if not frame.code.is_local(name):
            raise Weaken("assignment", f"{name} is seen outside this function")

    def _store(self, target: ast.expr, node: ast.AST, frame: Frame, state: State) -> Tree[Point]:
        if isinstance(target, ast.Name):
            self._check_local(target.id, frame)
            return Leaf(Point(state.set(target.id, None)))
        weaken = self.stores(target, frame, state)
        return Leaf(Point(state)) if weaken is None else self.stop(weaken, node, frame)

    def _augment(
        self, name: str, target: ast.expr, op: str, value: ast.expr, frame: Frame, state: State
    ) -> Tree[Point]:
        self._check_local(name, frame)
        old = state.get(name)
        if old is None or (isinstance(old, Display) and old.kind != "tuple"):
            raise Weaken(*describe_target(target))

        def go(got: Got) -> Tree[Point]:
            def added(values: tuple[Value, ...]) -> Tree[Point]:
                result = arithmetic(op, *values)
                return self.checked(result, Leaf(Point(got.state.set(name, result))))

            return self.chosen((old, got.value), target, frame, added)

        return self._after(value, frame, state, go)

    # -- loops ---------------------------------------------------------------------------------

    def _for(
        self,
        target: ast.expr,
        source: ast.expr,
        body: Sequence[ast.stmt],
        orelse: Sequence[ast.stmt],
        frame: Frame,
        state: State,
    ) -> Tree[Point]:
        def go(got: Got) -> Tree[Point]:
            items = iterated(got.value)

            def round(index: int, at: State) -> Tree[Point]:
                if index == len(items):
                    return self.block(orelse, frame, at)
                self.step()
                tree = self._then(
                    self._bind(target, items[index], frame, at),
                    lambda named: self.block(body, frame, named),
                )
                return self._looped(tree, lambda after: round(index + 1, after))

            return round(0, got.state)

        return self._after(source, frame, state, go)

    def _while(
        self,
        test: ast.expr,
        body: Sequence[ast.stmt],
        orelse: Sequence[ast.stmt],
        node: ast.stmt,
        frame: Frame,
        state: State,
        rounds: int,
    ) -> Tree[Point]:
        if rounds > MAX_ROUNDS:
            unknown = Weaken("loop", "how often this repeats is not known", "test before it")
            return self.stop(unknown, node, frame)
        return self.decide(
            test,
            frame,
            state,
            lambda after: self._looped(
                self.block(body, frame, after),
                lambda again: self._while(test, body, orelse, node, frame, again, rounds + 1),
            ),
            lambda after: self.block(orelse, frame, after),
        )

    def _looped(self, tree: Tree[Point], again: Run) -> Tree[Point]:
        """What follows one round of a loop."""
        again = remember(again)

        def go(at: Point) -> Tree[Point]:
            match at.way:
                case Way.NEXT | Way.CONTINUE:
                    return again(at.state)
                case Way.BREAK:
                    return Leaf(Point(at.state))
            return Leaf(at)

        return bind(tree, go)

    # -- blocks --------------------------------------------------------------------------------

    def _try(
        self,
        body: Sequence[ast.stmt],
        handlers: Sequence[ast.ExceptHandler],
        orelse: Sequence[ast.stmt],
        final: Sequence[ast.stmt],
        frame: Frame,
        state: State,
    ) -> Tree[Point]:
        self.notes.catches = True
        tree = self.block([*body, *orelse], frame, state)
        if not final:
            return tree

        def at_last(point: Point) -> Tree[Point]:
            def leave(end: Point) -> Tree[Point]:
                if end.way is not Way.NEXT:  # a return or break here replaces the first one
                    return Leaf(end)
                return Leaf(replace(point, state=end.state))

            return bind(self.block(final, frame, point.state), leave)

        return bind(tree, at_last)

    def _with(
        self, items: Sequence[ast.withitem], body: Sequence[ast.stmt], frame: Frame, state: State
    ) -> Tree[Point]:
        for item in items:
            if item.optional_vars is not None or not self._is_harmless(
                item.context_expr, frame, state
            ):
                what = ast.unparse(item.context_expr)
                raise Weaken("call", f"what {what} does is not known", "test before it")
        self.notes.catches = True
        return self.block(body, frame, state)

    def _is_harmless(self, manager: ast.expr, frame: Frame, state: State) -> bool:
        """Whether a context manager only lets pass, or suppresses, what raises inside."""
        match manager:
            case ast.Call(func, args, []):
                match self.values([func, *args], frame, state):
                    case Leaf(GotAll((Known(it), *given))):
                        known = all(isinstance(each, Known) for each in given)
                        return known and it in (contextlib.suppress, contextlib.nullcontext)
        return False

    def _match(
        self, cases: Sequence[ast.match_case], subject: Value, frame: Frame, state: State
    ) -> Tree[Point]:
        if not cases:
            return Leaf(Point(state))
        first, *others = cases

        @remember
        def no(after: State) -> Tree[Point]:
            return self._match(others, subject, frame, after)

        @remember
        def yes(after: State) -> Tree[Point]:
            if first.guard is None:
                return self.block(first.body, frame, after)
            return self.decide(
                first.guard, frame, after, lambda at: self.block(first.body, frame, at), no
            )

        try:
            return Matching(self, frame, no).match(first.pattern, subject, state, yes)
        except Weaken as weaken:
            return self.stop(weaken, first.pattern, frame)


def _goes_on(tree: Tree[Point]) -> bool:
    return not (isinstance(tree, Stop) or (isinstance(tree, Leaf) and tree.state.way != Way.NEXT))
