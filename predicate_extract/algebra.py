"""Building predicates: and, or, not, if-then-else, simplified.

Every rule here keeps the three-valued result (true, false, raised) for every content, so a
simplified predicate may stand for the filter as well as the first one did. Hence no part is ever
moved in front of another, and nothing that may raise is dropped, unless it surely is evaluated
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from predicate_extract.predicate import (
    FALSE,
    TRUE,
    Always,
    And,
    Compare,
    Defined,
    Field,
    IsNull,
    Not,
    Or,
    Predicate,
)

Facts = dict[Predicate, bool]

_OPPOSITE = {"==": "!=", "!=": "=="}


def conjunction(*parts: Predicate) -> Predicate:
    """`a AND b AND …`, evaluated in this order."""
    return _all(parts, {})


def disjunction(*parts: Predicate) -> Predicate:
    """`a OR b OR …`, evaluated in this order."""
    return _any(parts, {})


def negation(part: Predicate) -> Predicate:
    """`NOT part`, pushed down to the conditions (De Morgan holds in this logic).

    `==` and `!=` are each other's opposite; `<` and `>=` are not (NaN).
    """
    match part:
        case Always(value):
            return FALSE if value else TRUE
        case Not(inner):
            return inner
        case And(parts):
            return disjunction(*map(negation, parts))
        case Or(parts):
            return conjunction(*map(negation, parts))
        case Compare(op, left, right) if op in _OPPOSITE:
            return Compare(_OPPOSITE[op], left, right)
        case Defined():
            return conjunction(part, FALSE)
        case _:
            return Not(part)


def choice(test: Predicate, then: Predicate, otherwise: Predicate) -> Predicate:
    """`then if test else otherwise`."""
    if isinstance(test, Always):
        return then if test.value else otherwise
    if then == otherwise:
        return conjunction(checked(test), then)
    if otherwise == FALSE:
        return conjunction(test, then)
    if then == FALSE:
        return conjunction(negation(test), otherwise)
    if otherwise == TRUE:
        return disjunction(negation(test), then)
    return disjunction(conjunction(test, then), conjunction(negation(test), otherwise))


def checked(of: Field | Predicate) -> Predicate:
    """True unless reading or evaluating `of` raises."""
    match of:
        case Always():
            return TRUE
        case Defined():
            return of
        case Not(part):
            return checked(part)
        case IsNull(field):
            return Defined(field)
        case _:
            return Defined(of)


def widened(predicate: Predicate) -> Predicate:
    """`TRUE` if the predicate matches everything (it is true or raises), else the predicate."""
    if isinstance(predicate, Defined):
        return TRUE
    if isinstance(predicate, Or) and any(widened(part) == TRUE for part in predicate.parts):
        return TRUE
    return predicate


def certain(predicate: Predicate) -> Iterator[Field | Predicate]:
    """The fields and conditions that are evaluated whenever `predicate` is."""
    if isinstance(predicate, Always):
        return
    yield predicate
    match predicate:
        case Defined(of):
            yield of
            if isinstance(of, Predicate):
                yield from certain(of)
        case Not(part):
            yield from certain(part)
        case And(parts):
            for part in parts:
                yield from certain(part)
                if not isinstance(part, Defined):  # it may be false, and the rest not looked at
                    break
        case Or(parts):
            yield from certain(parts[0])
        case _:
            yield from predicate.fields()


def _all(parts: Iterable[Predicate], facts: Facts) -> Predicate:
    kept = _without_idle_checks(list(_sequence(parts, And, TRUE, FALSE, facts)))
    return _joined(And, kept, TRUE)


def _any(parts: Iterable[Predicate], facts: Facts) -> Predicate:
    kept = list(_sequence(parts, Or, FALSE, TRUE, facts))
    if len(kept) > 1 and kept[-1] == TRUE:
        return checked(_joined(Or, kept[:-1], FALSE))
    return _joined(Or, kept, FALSE)


def _joined(kind: type[And] | type[Or], parts: list[Predicate], empty: Predicate) -> Predicate:
    if not parts:
        return empty
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


def _sequence(
    parts: Iterable[Predicate],
    kind: type[And] | type[Or],
    neutral: Predicate,
    final: Predicate,
    facts: Facts,
) -> Iterator[Predicate]:
    """The parts, flattened, each simplified by what was decided before it."""
    facts = facts.copy()
    for part in parts:
        for piece in _pieces(part, kind):
            for known in _pieces(_given(piece, facts), kind):
                if known == neutral:
                    continue
                yield known
                if known == final:
                    return
                _learn(known, neutral == TRUE, facts)


def _pieces(part: Predicate, kind: type[And] | type[Or]) -> tuple[Predicate, ...]:
    return part.parts if isinstance(part, kind) else (part,)


def _given(predicate: Predicate, facts: Facts) -> Predicate:
    """`predicate` where the conditions in `facts` have been evaluated already."""
    if not facts:
        return predicate
    known = facts.get(predicate)
    if known is not None:
        return TRUE if known else FALSE
    match predicate:
        case And(parts):
            return _all(parts, facts)
        case Or(parts):
            return _any(parts, facts)
        case Not(part):
            return negation(_given(part, facts))
        case _:
            return predicate


def _learn(predicate: Predicate, value: bool, facts: Facts) -> None:
    facts[predicate] = value
    for evaluated in certain(predicate):
        facts.setdefault(Defined(evaluated), True)
    match predicate:
        case Not(part):
            _learn(part, not value, facts)
        case And(parts) if value:
            for part in parts:
                _learn(part, True, facts)
        case Or(parts) if not value:
            for part in parts:
                _learn(part, False, facts)
        case Compare(op, left, right) if op in _OPPOSITE:
            facts[Compare(_OPPOSITE[op], left, right)] = not value


def _without_idle_checks(parts: list[Predicate]) -> list[Predicate]:
    """Drop each `Defined` whose reading or condition the parts after it evaluate anyway."""
    kept: list[Predicate] = []
    ahead: set[Field | Predicate] = set()
    for part in reversed(parts):
        idle = isinstance(part, Defined) and part.of in ahead
        if idle:
            continue
        if not isinstance(part, Defined):
            ahead.clear()
        ahead.update(certain(part))
        kept.append(part)
    return kept[::-1]
