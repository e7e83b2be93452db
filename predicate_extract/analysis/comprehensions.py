"""Following comprehensions, round by round, over collections whose items are known."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from predicate_extract.analysis.following import Following, Frame, Got, State
from predicate_extract.analysis.operations import collection
from predicate_extract.analysis.tree import Leaf, Tree, bind, remember
from predicate_extract.analysis.unpacking import assigned, iterated, names_in
from predicate_extract.analysis.values import Display
from predicate_extract.report import Weaken

_FOUND = ".found"  # no name of Python's: where a comprehension collects


class Comprehensions(Following):
    """Follows comprehensions and generator expressions."""

    def collected(
        self,
        kind: str,
        element: ast.expr,
        generators: Sequence[ast.comprehension],
        frame: Frame,
        state: State,
    ) -> Tree[Got]:
        """All that a comprehension gives, as one collection."""

        def visit(at: State, more: Callable[[State], Tree[Got]]) -> Tree[Got]:
            def add(got: Got) -> Tree[Got]:
                so_far = got.state.get(_FOUND)
                assert isinstance(so_far, Display)
                found = Display("list", (*so_far.items, got.value))
                return self.checked(got.value, more(got.state.set(_FOUND, found)))

            return bind(self.value(element, frame, at), add)

        def done(at: State) -> Tree[Got]:
            found = at.get(_FOUND)
            assert isinstance(found, Display)
            made = collection(kind, found.items)
            return self.checked(made, Leaf(Got(made, at)))

        start = state.set(_FOUND, Display("list", ()))
        return self.each(generators, frame, start, visit, done, state)

    def each(
        self,
        generators: Sequence[ast.comprehension],
        frame: Frame,
        start: State,
        visit: Callable[[State, Callable[[State], Tree[Got]]], Tree[Got]],
        done: Callable[[State], Tree[Got]],
        around: State,
    ) -> Tree[Got]:
        """Visit every round of a comprehension in order; its names end with it."""
        own = [_FOUND, *(name for each in generators for name in names_in(each.target))]

        def end(got: Got) -> Tree[Got]:
            state = got.state
            for name in own:  # what `:=` binds inside stays
                state = state.set(name, around.get(name))
            return Leaf(Got(got.value, state))

        return bind(self._each(generators, frame, start, visit, done), end)

    def _each(
        self,
        generators: Sequence[ast.comprehension],
        frame: Frame,
        state: State,
        visit: Callable[[State, Callable[[State], Tree[Got]]], Tree[Got]],
        done: Callable[[State], Tree[Got]],
    ) -> Tree[Got]:
        if not generators:
            return visit(state, done)
        first, *inner = generators
        if first.is_async:
            raise Weaken("unsupported", "async comprehensions are not analysed")

        def go(got: Got) -> Tree[Got]:
            try:
                items = iterated(got.value)
            except Weaken as weaken:
                return self.stop(weaken, first.iter, frame)

            def round(index: int, at: State) -> Tree[Got]:
                if index == len(items):
                    return done(at)

                def following(after: State) -> Tree[Got]:
                    return round(index + 1, after)

                more = remember(following)
                try:
                    self.step()
                    named = assigned(at, first.target, items[index])
                except Weaken as weaken:
                    return self.stop(weaken, first.target, frame)
                return self._all_true(
                    first.ifs,
                    frame,
                    named,
                    lambda chosen: self._each(inner, frame, chosen, visit, more),
                    more,
                )

            return round(0, got.state)

        return bind(self.value(first.iter, frame, state), go)

    def _all_true(
        self,
        tests: Sequence[ast.expr],
        frame: Frame,
        state: State,
        then: Callable[[State], Tree[Got]],
        otherwise: Callable[[State], Tree[Got]],
    ) -> Tree[Got]:
        if not tests:
            return then(state)
        return self.decide(
            tests[0],
            frame,
            state,
            lambda after: self._all_true(tests[1:], frame, after, then, otherwise),
            otherwise,
        )
