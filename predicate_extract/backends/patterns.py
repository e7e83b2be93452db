"""Regular expressions on whole columns, by Arrow's RE2: see `algebra/linear.py`."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from predicate_extract.algebra.linear import MAX_STEPS, NotLinear, linear
from predicate_extract.algebra.terms import Const, Term
from predicate_extract.backends.truth import Unfaithful


def found_in(column: Any, how: str, pattern: str, flags: tuple[Term, ...]) -> tuple[Any, Any]:
    """Where texts of a column match, and where nobody can say (None: nowhere); both Arrow arrays,
    null where the text is.

    Raises: Unfaithful, if the pattern is not to be searched for here.
    """
    match flags:
        case ():
            number = 0
        case (Const(int() as number),):
            pass
        case _:
            raise Unfaithful
    try:
        wanted = linear(pattern, number, how)
    except NotLinear as error:
        raise Unfaithful from error
    longest = pc.max(pc.binary_length(column)).as_py() or 0
    if longest * wanted.size > MAX_STEPS:
        raise Unfaithful
    hits = pc.match_substring_regex(column, pattern=wanted.anywhere(how))
    return hits, pc.invert(pc.string_is_ascii(column)) if wanted.ascii else None
