"""Following `match`: each pattern is a test of the subject, and may bind names.

CPython binds the names of a pattern only when the whole of it matches.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from predicate_extract.algebra.predicate import Compare, Predicate, Truthy
from predicate_extract.algebra.simplify import conjunction, negation
from predicate_extract.algebra.terms import Call, Const, Field, Term
from predicate_extract.analysis.builtin_calls import BuiltinCalls
from predicate_extract.analysis.choices import choice_in
from predicate_extract.analysis.describe import describe
from predicate_extract.analysis.following import Frame, Got, State
from predicate_extract.analysis.operations import apply, as_term, compare
from predicate_extract.analysis.tree import Leaf, Tree, bind
from predicate_extract.analysis.values import Display, Known, Value
from predicate_extract.report import Weaken

_BUILTIN = (bool, bytes, dict, float, frozenset, int, list, set, str, tuple)

Then = Callable[[State], Tree[Any]]
Part = tuple[ast.pattern, Callable[[State], Tree[Got]]]
"""A pattern, and how what it is matched with is computed."""


class Matching:
    """Matches patterns in one function; `otherwise` is where a path goes when one fails."""

    def __init__(self, run: BuiltinCalls, frame: Frame, otherwise: Then) -> None:
        self._run = run
        self._frame = frame
        self._otherwise = otherwise

    def match(self, pattern: ast.pattern, subject: Value, state: State, then: Then) -> Tree[Any]:
        """Go on with `then` where the subject matches.

        Raises: Weaken, if the pattern is not understood.
        """
        if choice_in((subject,)) is None or isinstance(pattern, ast.MatchAs | ast.MatchClass):
            return self._match(pattern, subject, state, then)
        return self._run.chosen(
            (subject,), pattern, self._frame, lambda v: self._match(pattern, v[0], state, then)
        )

    def _match(self, pattern: ast.pattern, subject: Value, state: State, then: Then) -> Tree[Any]:
        match pattern:
            case ast.MatchValue(node):
                return bind(
                    self._run.value(node, self._frame, state),
                    lambda got: self._test(ast.Eq(), subject, got.value, pattern, state, then),
                )
            case ast.MatchSingleton(constant):
                return self._test(ast.Is(), subject, Const(constant), pattern, state, then)
            case ast.MatchAs(None, None):
                return then(state)
            case ast.MatchAs(None, str() as name):
                return then(self._bound(state, name, subject))
            case ast.MatchAs(ast.pattern() as inner, str() as name):
                return self.match(
                    inner, subject, state, lambda after: then(self._bound(after, name, subject))
                )
            case ast.MatchOr(alternatives):
                return self._any_of(alternatives, subject, state, then)
            case ast.MatchSequence(parts):
                return self._sequence(parts, pattern, subject, state, then)
            case ast.MatchMapping() if isinstance(subject, Display) and subject.kind != "dict":
                return self._otherwise(state)
            case ast.MatchMapping(keys, parts, None):
                mapping = Truthy(Call("isinstance", (_term(subject), Const("Mapping"))))
                return self._when(
                    lambda: mapping,
                    pattern,
                    state,
                    lambda: self._keys(keys, parts, subject, state, then),
                )
            case ast.MatchClass():
                return self._class(pattern, subject, state, then)
        raise Weaken(*describe(pattern))

    def _when(
        self,
        condition: Callable[[], Predicate],
        node: ast.AST,
        state: State,
        then: Callable[[], Tree[Any]],
    ) -> Tree[Any]:
        return self._run.when(condition, node, self._frame, then, lambda: self._otherwise(state))

    def _test(
        self,
        op: ast.cmpop,
        subject: Value,
        value: Value,
        node: ast.AST,
        state: State,
        then: Then,
    ) -> Tree[Any]:
        typed = self._run.content.typed
        return self._when(
            lambda: compare(op, subject, value, typed), node, state, lambda: then(state)
        )

    def _bound(self, state: State, name: str, value: Value) -> State:
        if not self._frame.code.is_local(name):
            raise Weaken("assignment", f"{name} is seen outside this function")
        return state.set(name, value)

    def _any_of(
        self, alternatives: Sequence[ast.pattern], subject: Value, state: State, then: Then
    ) -> Tree[Any]:
        first, *others = alternatives
        if not others:
            return self.match(first, subject, state, then)

        def other(after: State) -> Tree[Any]:
            return self._any_of(others, subject, after, then)

        return Matching(self._run, self._frame, other).match(first, subject, state, then)

    def _all_of(self, parts: Sequence[Part], state: State, then: Then) -> Tree[Any]:
        """Every part in turn."""
        if not parts:
            return then(state)
        (pattern, read), *others = parts

        def go(got: Got) -> Tree[Any]:
            return self.match(
                pattern, got.value, got.state, lambda after: self._all_of(others, after, then)
            )

        return bind(read(state), go)

    def _sequence(
        self,
        parts: Sequence[ast.pattern],
        pattern: ast.pattern,
        subject: Value,
        state: State,
        then: Then,
    ) -> Tree[Any]:
        starred = [part for part in parts if isinstance(part, ast.MatchStar)]
        if starred and (starred != [parts[-1]] or starred[0].name is not None):
            raise Weaken("unsupported", "a star like this in a pattern is not analysed")
        fixed = parts[: len(parts) - len(starred)]
        inside = [(part, _element_of(subject, index)) for index, part in enumerate(fixed)]
        if isinstance(subject, Display) and subject.kind in ("tuple", "list"):
            count = len(subject.items)
            fits = count >= len(fixed) if starred else count == len(fixed)
            return self._all_of(inside, state, then) if fits else self._otherwise(state)
        term = _term(subject)
        test = conjunction(
            Truthy(Call("isinstance", (term, Const("Sequence")))),
            negation(Truthy(Call("isinstance", (term, Const("str"), Const("bytes"))))),
            Compare(">=" if starred else "==", Call("len", (term,)), Const(len(fixed))),
        )
        return self._when(lambda: test, pattern, state, lambda: self._all_of(inside, state, then))

    def _keys(
        self,
        keys: Sequence[ast.expr],
        parts: Sequence[ast.pattern],
        subject: Value,
        state: State,
        then: Then,
    ) -> Tree[Any]:
        """All the keys are there, and what is behind them matches."""
        if not keys:
            return then(state)
        key, part = keys[0], parts[0]
        if not isinstance(key, ast.Constant):
            raise Weaken("unsupported", "a computed key in a pattern is not analysed")

        def rest(after: State) -> Tree[Any]:
            return self._keys(keys[1:], parts[1:], subject, after, then)

        def there(at: State) -> Tree[Any]:
            return self._all_of([(part, _element_of(subject, key.value))], at, rest)

        return self._test(ast.In(), Const(key.value), subject, key, state, there)  # type: ignore

    def _class(
        self, pattern: ast.MatchClass, subject: Value, state: State, then: Then
    ) -> Tree[Any]:
        def go(got: Got) -> Tree[Any]:
            try:
                inside = self._inside(pattern, got.value, subject)
            except Weaken as weaken:
                return self._run.stop(weaken, pattern, self._frame)
            return self._when(
                lambda: self._run.is_instance(subject, got.value),
                pattern,
                state,
                lambda: self._all_of(inside, state, then),
            )

        return bind(self._run.value(pattern.cls, self._frame, state), go)

    def _inside(self, pattern: ast.MatchClass, cls: Value, subject: Value) -> list[Part]:
        """What is matched within an instance. One of the class lacks no attribute of it."""
        wanted = cls.it if isinstance(cls, Known) else None
        names = list(getattr(wanted, "__match_args__", ()))
        parts: list[Part] = []
        positional = list(pattern.patterns)
        if wanted in _BUILTIN and positional:  # `int(x)` binds the whole
            parts.append((positional.pop(0), lambda state: Leaf(Got(subject, state))))
            names = []
        if len(positional) > len(names):
            raise Weaken("raises", "this class pattern takes fewer parts")
        attributes = [
            *zip(names, positional, strict=False),
            *zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True),
        ]
        for name, part in attributes:
            parts.append((part, self._attribute(subject, name, part)))
        return parts

    def _attribute(self, subject: Value, name: str, node: ast.AST) -> Callable[[State], Tree[Got]]:
        return lambda state: self._run.attribute(subject, name, node, self._frame, state)


def _term(subject: Value) -> Term:
    term = as_term(subject)
    if term is None:
        raise Weaken("unsupported", "what this pattern is matched with is not analysed")
    return term


def _element(subject: Value, key: Any) -> Value:
    match subject:
        case Display("tuple" | "list", items):
            item: Value = items[key]
            return item
        case Field() if type(key) in (str, int):
            return subject.step(key, keyed=True)
    return apply("item", subject, Const(key))


def _element_of(subject: Value, key: Any) -> Callable[[State], Tree[Got]]:
    return lambda state: Leaf(Got(_element(subject, key), state))
