"""Following `match`: each pattern is a test of the subject, and may bind names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from predicate_extract.algebra.predicate import Compare, Truthy
from predicate_extract.algebra.simplify import conjunction, negation
from predicate_extract.algebra.terms import Call, Const, Field
from predicate_extract.analysis.describe import describe
from predicate_extract.analysis.following import Frame, Got, State
from predicate_extract.analysis.operations import apply, as_term, compare
from predicate_extract.analysis.tree import Tree, bind
from predicate_extract.analysis.values import Display, Known, Value
from predicate_extract.report import Weaken

if TYPE_CHECKING:
    from predicate_extract.analysis.statements import Statements

Then = Callable[[State], Tree[Any]]

_BUILTIN = (bool, bytes, dict, float, frozenset, int, list, set, str, tuple)


def matched(
    run: Statements,
    pattern: ast.pattern,
    subject: Value,
    frame: Frame,
    state: State,
    then: Then,
    otherwise: Then,
) -> Tree[Any]:
    """Go on with `then` where the subject matches the pattern, else with `otherwise`.

    Names that a pattern binds before it fails are taken to be unused.
    """
    typed = run.content.typed

    def test(op: ast.cmpop, value: Value) -> Tree[Any]:
        return run.when(
            lambda: compare(op, subject, value, typed),
            pattern,
            frame,
            lambda: then(state),
            lambda: otherwise(state),
        )

    match pattern:
        case ast.MatchValue(node):

            def equals(got: Got) -> Tree[Any]:
                return test(ast.Eq(), got.value)

            return bind(run.value(node, frame, state), equals)
        case ast.MatchSingleton(constant):
            return test(ast.Is(), Const(constant))
        case ast.MatchAs(None, None):
            return then(state)
        case ast.MatchAs(None, str() as name):
            return then(_bound(state, name, subject, frame))
        case ast.MatchAs(ast.pattern() as inner, str() as name):
            return matched(
                run,
                inner,
                subject,
                frame,
                state,
                lambda after: then(_bound(after, name, subject, frame)),
                otherwise,
            )
        case ast.MatchOr(alternatives):
            return _any_of(run, alternatives, subject, frame, state, then, otherwise)
        case ast.MatchSequence(parts) if isinstance(subject, Display) and subject.kind in (
            "tuple",
            "list",
        ):
            if any(isinstance(part, ast.MatchStar) for part in parts):
                raise Weaken("unsupported", "a star in a pattern is not analysed")
            if len(parts) != len(subject.items):
                return otherwise(state)
            pairs = list(zip(parts, subject.items, strict=True))
            return _each(run, pairs, frame, state, then, otherwise)
        case ast.MatchSequence(parts) if as_term(subject) is not None:
            return _sequence(run, parts, pattern, subject, frame, state, then, otherwise)
        case ast.MatchMapping(keys, parts, None):
            term = as_term(subject)
            if term is None:
                raise Weaken("unsupported", "this mapping pattern is not analysed")
            mapping = Truthy(Call("isinstance", (term, Const("Mapping"))))

            def within() -> Tree[Any]:
                return _keys(run, keys, parts, subject, frame, state, then, otherwise)

            return run.when(lambda: mapping, pattern, frame, within, lambda: otherwise(state))
        case ast.MatchClass(cls, positional, names, parts):
            return _class(run, pattern, cls, positional, names, parts, subject, frame, state,
                          then, otherwise)  # fmt: skip
    raise Weaken(*describe(pattern))


def _bound(state: State, name: str, value: Value, frame: Frame) -> State:
    if not frame.code.is_local(name):
        raise Weaken("assignment", f"{name} is seen outside this function")
    return state.set(name, value)


def _any_of(
    run: Statements,
    alternatives: Sequence[ast.pattern],
    subject: Value,
    frame: Frame,
    state: State,
    then: Then,
    otherwise: Then,
) -> Tree[Any]:
    first, *others = alternatives
    if not others:
        return matched(run, first, subject, frame, state, then, otherwise)
    return matched(
        run,
        first,
        subject,
        frame,
        state,
        then,
        lambda after: _any_of(run, others, subject, frame, after, then, otherwise),
    )


def _each(
    run: Statements,
    pairs: Sequence[tuple[ast.pattern, Value]],
    frame: Frame,
    state: State,
    then: Then,
    otherwise: Then,
) -> Tree[Any]:
    if not pairs:
        return then(state)
    (pattern, subject), *others = pairs
    return matched(
        run,
        pattern,
        subject,
        frame,
        state,
        lambda after: _each(run, others, frame, after, then, otherwise),
        otherwise,
    )


def _sequence(
    run: Statements,
    parts: Sequence[ast.pattern],
    pattern: ast.pattern,
    subject: Value,
    frame: Frame,
    state: State,
    then: Then,
    otherwise: Then,
) -> Tree[Any]:
    """A sequence that is computed from the content, of as many items."""
    starred = any(isinstance(part, ast.MatchStar) for part in parts)
    if starred and not isinstance(parts[-1], ast.MatchStar):
        raise Weaken("unsupported", "a star in the midst of a pattern is not analysed")
    fixed = parts[:-1] if starred else parts
    if starred and parts[-1].name is not None:  # type: ignore[attr-defined]
        raise Weaken("unsupported", "a star that binds a name is not analysed")
    term = as_term(subject)
    assert term is not None
    count = Compare(">=" if starred else "==", Call("len", (term,)), Const(len(fixed)))
    test = conjunction(
        Truthy(Call("isinstance", (term, Const("Sequence")))),
        negation(Truthy(Call("isinstance", (term, Const("str"), Const("bytes"))))),
        count,
    )

    def inside() -> Tree[Any]:
        pairs = [(part, _element(subject, index)) for index, part in enumerate(fixed)]
        return _each(run, pairs, frame, state, then, otherwise)

    return run.when(lambda: test, pattern, frame, inside, lambda: otherwise(state))


def _element(subject: Value, index: int) -> Value:
    if isinstance(subject, Field):
        return subject.step(index, keyed=True)
    return apply("item", subject, Const(index))


def _keys(
    run: Statements,
    keys: Sequence[ast.expr],
    parts: Sequence[ast.pattern],
    subject: Value,
    frame: Frame,
    state: State,
    then: Then,
    otherwise: Then,
) -> Tree[Any]:
    """All the keys are there, and what is behind them matches. Python looks with `get`."""
    if not keys:
        return then(state)
    key, part = keys[0], parts[0]
    if not isinstance(key, ast.Constant):
        raise Weaken("unsupported", "a computed key in a pattern is not analysed")
    name = Const(key.value)  # type: ignore[arg-type]

    def there() -> Tree[Any]:
        if isinstance(subject, Field) and isinstance(key.value, str):
            value: Value = subject.step(key.value, keyed=True)
        else:
            value = apply("item", subject, name)
        return matched(
            run,
            part,
            value,
            frame,
            state,
            lambda after: _keys(run, keys[1:], parts[1:], subject, frame, after, then, otherwise),
            otherwise,
        )

    return run.when(
        lambda: compare(ast.In(), name, subject, run.content.typed),
        key,
        frame,
        there,
        lambda: otherwise(state),
    )


def _class(
    run: Statements,
    pattern: ast.pattern,
    cls: ast.expr,
    positional: Sequence[ast.pattern],
    names: Sequence[str],
    parts: Sequence[ast.pattern],
    subject: Value,
    frame: Frame,
    state: State,
    then: Then,
    otherwise: Then,
) -> Tree[Any]:
    def known(got: Got) -> Tree[Any]:
        wanted = got.value.it if isinstance(got.value, Known) else None
        inside: list[tuple[ast.pattern, str]] = list(zip(parts, names, strict=True))
        captured = list(positional)
        if wanted not in _BUILTIN:
            fields = getattr(wanted, "__match_args__", ())
            inside = [*zip(captured, fields, strict=False), *inside]
            captured = []
        if len(captured) > 1 or (captured and inside):
            raise Weaken("unsupported", "this class pattern is not analysed")

        def instance() -> Tree[Any]:
            if captured:
                return matched(run, captured[0], subject, frame, state, then, otherwise)
            return _attributes(run, inside, subject, frame, state, then, otherwise)

        return run.when(
            lambda: run.is_instance(subject, got.value),
            pattern,
            frame,
            instance,
            lambda: otherwise(state),
        )

    def guarded(got: Got) -> Tree[Any]:
        try:
            return known(got)
        except Weaken as weaken:
            return run.stop(weaken, pattern, frame)

    return bind(run.value(cls, frame, state), guarded)


def _attributes(
    run: Statements,
    inside: Sequence[tuple[ast.pattern, str]],
    subject: Value,
    frame: Frame,
    state: State,
    then: Then,
    otherwise: Then,
) -> Tree[Any]:
    """A missing attribute fails the pattern; of an instance of the class, none is missing."""
    if not inside:
        return then(state)
    (pattern, name), *others = inside

    def read(got: Got) -> Tree[Any]:
        return matched(
            run,
            pattern,
            got.value,
            frame,
            got.state,
            lambda after: _attributes(run, others, subject, frame, after, then, otherwise),
            otherwise,
        )

    return bind(run.attribute(subject, name, pattern, frame, state), read)
