"""Building predicates: and, or, not, if-then-else, simplified.

Every rule here keeps the three-valued result (true, false, raised) for every content, so a
simplified predicate may stand for the filter as well as the first one did. Hence no part is ever
moved in front of another, and nothing that may raise is dropped, unless it surely is evaluated
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from predicate_extract.algebra.implication import follows, subject
from predicate_extract.algebra.predicate import (
    FALSE,
    TRUE,
    Always,
    And,
    Compare,
    Defined,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
)
from predicate_extract.algebra.terms import Const, Term

_OPPOSITE = {"==": "!=", "!=": "=="}


@dataclass(slots=True)
class Facts:
    """What has been evaluated before: each condition's answer, and the true ones by subject."""

    answers: dict[Predicate, bool] = field(default_factory=dict)
    about: dict[Term, tuple[Predicate, ...]] = field(default_factory=dict)

    def copy(self) -> Facts:
        return Facts(self.answers.copy(), self.about.copy())

    def add(self, predicate: Predicate, value: bool) -> None:
        """Learn that `predicate` was evaluated, with this result."""
        self.answers[predicate] = value
        for evaluated in certain(predicate):
            self.answers.setdefault(Defined(evaluated), True)
        match predicate:
            case Not(part):
                self.answers[part] = not value
            case And(parts) if value:
                for part in parts:
                    self.add(part, True)
            case Or(parts) if not value:
                for part in parts:
                    self.add(part, False)
            case Compare(op, left, right) if op in _OPPOSITE:
                self.answers[Compare(_OPPOSITE[op], left, right)] = not value
        of = subject(predicate)
        if of is not None:
            true = predicate if value else negation(predicate)
            self.about[of] = (*self.about.get(of, ()), true)

    def are_safe(self, part: Predicate) -> bool:
        """Whether evaluating `part` again surely does not raise."""
        match part:
            case Always():
                return True
            case And(parts) | Or(parts):
                return all(map(self.are_safe, parts))
            case Not(inner):
                return self.are_safe(inner)
            case Compare(op, left, right) if op in _OPPOSITE:
                return any(
                    self.answers.get(Defined(c), False)
                    for c in (part, Compare(_OPPOSITE[op], left, right))
                )
        return self.answers.get(Defined(part), False)

    def answer(self, asked: Predicate) -> bool | None:
        """What `asked` gives, if that is settled."""
        known = self.answers.get(asked)
        if known is not None or not self.about:
            return known
        of = subject(asked)
        for true in self.about.get(of, ()) if of is not None else ():
            known = follows(true, asked)
            if known is not None:
                return known
        return None


def conjunction(*parts: Predicate) -> Predicate:
    """`a AND b AND …`, evaluated in this order."""
    return _all(parts, Facts())


def disjunction(*parts: Predicate) -> Predicate:
    """`a OR b OR …`, evaluated in this order."""
    return _any(parts, Facts())


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


def checked(of: Term) -> Predicate:
    """True unless computing `of` raises."""
    match of:
        case Always() | Const():
            return TRUE
        case Defined():
            return of
        case Not(part):
            return checked(part)
        case IsNull(term):
            return checked(term)
        case _:
            return Defined(of)


def widened(predicate: Predicate) -> Predicate:
    """`TRUE` if the predicate matches everything (it is true or raises), else the predicate."""
    if isinstance(predicate, Defined):
        return TRUE
    if isinstance(predicate, Or) and any(widened(part) == TRUE for part in predicate.parts):
        return TRUE
    return predicate


@lru_cache(maxsize=4096)  # it is asked of the same ones time and again
def certain(term: Term) -> tuple[Term, ...]:
    """The terms and conditions that are evaluated whenever `term` is."""
    if isinstance(term, Always | Const):
        return ()
    found = [term]
    match term:
        case And(parts):
            for part in parts:
                found += certain(part)
                if not isinstance(part, Defined):  # it may be false, and the rest not looked at
                    break
        case Or(parts):
            found += certain(parts[0])
        case _:
            for operand in term.operands():
                found += certain(operand)
    return tuple(found)


def _all(parts: Iterable[Predicate], facts: Facts) -> Predicate:
    kept = list(_sequence(parts, And, TRUE, FALSE, facts))
    if kept and kept[-1] == FALSE:
        while len(kept) > 1 and facts.are_safe(kept[-2]):  # it decides nothing, and raises nothing
            del kept[-2]
    return _joined(And, _gathered(_without_idle_checks(kept), "!="), TRUE)


def _any(parts: Iterable[Predicate], facts: Facts) -> Predicate:
    kept = list(_sequence(parts, Or, FALSE, TRUE, facts))
    if len(kept) > 1 and kept[-1] == TRUE:
        return checked(_joined(Or, _gathered(kept[:-1], "=="), FALSE))
    return _joined(Or, _gathered(kept, "=="), FALSE)


def _gathered(parts: list[Predicate], op: str) -> list[Predicate]:
    """With `x = 1 OR x = 2` as `x IN (1, 2)`, and `x != 1 AND x != 2` as `x NOT IN (1, 2)`."""
    gathered: list[Predicate] = []
    before: tuple[Term, tuple[Const, ...]] | None = None
    for part in parts:
        this = _members(part, op)
        if before is not None and this is not None and before[0] == this[0]:
            before = before[0], tuple(dict.fromkeys((*before[1], *this[1])))
            gathered[-1] = In(*before) if op == "==" else Not(In(*before))
        else:
            before = this
            gathered.append(part)
    return gathered


def _members(part: Predicate, op: str) -> tuple[Term, tuple[Const, ...]] | None:
    """The term and the constants that it is, or is not, equal to one of."""
    match part:
        case Compare(own, of, Const() as const) if own == op and not const.is_nan:
            return of, (const,)
        case In(of, values, False) if op == "==":
            return of, values
        case Not(In(of, values, False)) if op == "!=":
            return of, values
    return None


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
                facts.add(known, neutral == TRUE)


def _pieces(part: Predicate, kind: type[And] | type[Or]) -> tuple[Predicate, ...]:
    return part.parts if isinstance(part, kind) else (part,)


def _given(predicate: Predicate, facts: Facts) -> Predicate:
    """`predicate` where the conditions in `facts` have been evaluated already."""
    known = facts.answer(predicate)
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


def evaluates(after: Predicate, of: Term) -> bool:
    """Whether `after` evaluates `of` in any case, before anything else that could end it."""
    if isinstance(of, And) and isinstance(after, And):
        return after.parts[: len(of.parts)] == of.parts
    return of in certain(after)


def _without_idle_checks(parts: list[Predicate]) -> list[Predicate]:
    """Drop each `Defined` of what the parts after it evaluate anyway, and each condition that is
    part of the one after it, as `x IS NOT NULL` is of `x = 1`."""
    kept: list[Predicate] = []
    ahead: set[Term] = set()
    for part in reversed(parts):
        if kept and _implied(part, kept[-1]):
            continue
        if isinstance(part, Defined):
            if part.of in ahead:
                continue
            if isinstance(part.of, And) and tuple(kept[: -len(part.of.parts) - 1 : -1]) == (
                part.of.parts
            ):
                continue
        else:
            ahead.clear()
        ahead.update(certain(part))
        kept.append(part)
    return kept[::-1]


def _implied(part: Predicate, after: Predicate) -> bool:
    """Whether `after` is false, and does not raise, wherever `part` is false."""
    of = subject(after)
    if of is None or of != subject(part):
        return False
    match part:
        case Not(IsNull()):
            return follows(IsNull(of), after) is False
        case Not(In(hashed=False)) | Compare("!=", _, Const()):
            equality = isinstance(after, In) or (isinstance(after, Compare) and after.op == "==")
            return equality and follows(after, part) is True
    return False
