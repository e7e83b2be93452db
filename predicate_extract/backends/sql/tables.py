"""Look-ups in a dict of constants, in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from predicate_extract.algebra.constants import Plain
from predicate_extract.algebra.terms import Const, Term
from predicate_extract.backends.sql.comparisons import hits
from predicate_extract.backends.sql.logic import FALSE, any_of, written
from predicate_extract.backends.sql.values import Value, constant, is_null
from predicate_extract.backends.truth import Unfaithful

_KEYS = ("str", "integer", "date", "naive")


def looked_up(table: Sequence[Term], key: Value, other: Const | None = None) -> Value:
    """The item of a dict, whose keys and values follow each other; or `other`, or an error.

    Raises: Unfaithful.
    """
    entries = [_constants(*entry) for entry in zip(table[::2], table[1::2], strict=True)]
    if key.family not in _KEYS or not entries:
        raise Unfaithful
    results = [result for _, result in entries] + ([] if other is None else [other.value])
    known = [constant(result) for result in results if result is not None]
    kinds = {(each.family, each.sql_type == "BOOLEAN") for each in known}
    if len(kinds) != 1 or known[0].family not in _KEYS:
        raise Unfaithful
    choice, found = exp.case(), []
    for name, result in entries:
        hit = key.none if name is None else hits("==", key, constant(name)) & ~key.none
        found.append(hit)
        choice = choice.when(written(hit), constant(result).sql)
    raised = key.raised
    if other is None:
        raised |= ~any_of(found)
    else:
        choice = choice.else_(constant(other.value).sql)
    null = is_null(choice)
    some_none = other is None or len(known) < len(results)
    return Value(
        choice,
        known[0].family,
        nulls=(null,) if some_none else (),
        none=null & ~raised if len(known) < len(results) else FALSE,
        raised=raised,
        sure=key.sure,
        low=min(each.low for each in known),
        high=max(each.high for each in known),
        sql_type=known[0].sql_type,
    )


def _constants(name: Term, result: Term) -> tuple[Plain, Plain]:
    if isinstance(name, Const) and isinstance(result, Const):
        return name.value, result.value
    raise Unfaithful
