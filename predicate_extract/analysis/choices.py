"""Values that depend on one field with few values: what is known of each is put in their place."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, EnumMeta

from predicate_extract.algebra.constants import Member
from predicate_extract.algebra.predicate import Compare, In, IsNull, Predicate
from predicate_extract.algebra.terms import Const, Field
from predicate_extract.analysis.scope import wrap
from predicate_extract.analysis.values import Choice, Display, Known, Opaque, Value, display

MAX_MEMBERS = 64


def choice_of(field: Field, cls: type[Enum], nullable: bool) -> Choice | Opaque:
    """The members of an enum, one of which a field holds."""
    members = list(cls)
    named = cls.__name__.isidentifier() and all(each._name_.isidentifier() for each in members)
    if not named or type(cls) is not EnumMeta or len(members) > MAX_MEMBERS:
        return Opaque(field, f"the members of {cls.__name__}")
    rows: list[tuple[Const, Value]] = [
        (Const(Member(cls.__name__, each._name_)), Known(each)) for each in members
    ]
    if nullable:
        rows.append((Const(None), Const(None)))
    return Choice(field, tuple(rows))


def choice_in(values: Iterable[Value]) -> Choice | None:
    """The first such value among, or inside, some values."""
    for value in values:
        if type(value) is Choice:
            return value
        if type(value) is Display and (found := choice_in(value.items)) is not None:
            return found
    return None


def given(value: Value, field: Field, row: int) -> Value:
    """The value where a field holds one of its constants."""
    match value:
        case Choice(of, rows) if of == field:
            found = rows[row][1]
            return wrap(found.it) if isinstance(found, Known) else found
        case Display(kind, items):
            return display(kind, [given(item, field, row) for item in items])
    return value


def holds_one(field: Field, keys: list[Const]) -> Predicate:
    """The condition that a field holds one of these constants."""
    match keys:
        case [Const(None)]:
            return IsNull(field)
        case [key]:
            return Compare("==", field, key)
    return In(field, tuple(keys))
