"""Filter code in, predicate out.

`extract` reads a filter class, or a predicate function, and finds a condition that every event the
filter forwards, or reacts to in any way, satisfies. The condition is data (`algebra`): it can be
evaluated here (`matches`), on whole Arrow columns, in Spark or as SQL (`backends`), compared
(`covers`), read and sent. How the code is followed is in `analysis`.

    >>> str(extract(lambda flight: flight.dep_delay > 60 and flight.carrier == "DL").predicate)
    "dep_delay > 60 AND carrier = 'DL'"
"""

from predicate_extract.algebra.constants import Member
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
    Truthy,
)
from predicate_extract.algebra.terms import Call, Const, Field, Term
from predicate_extract.errors import NotAFilter, PredicateError, PredicateFormatError
from predicate_extract.extraction import extract
from predicate_extract.report import Extraction, FieldUse, Reason

__all__ = [
    "FALSE",
    "TRUE",
    "Always",
    "And",
    "Call",
    "Compare",
    "Const",
    "Defined",
    "Extraction",
    "Field",
    "FieldUse",
    "In",
    "IsNull",
    "Member",
    "Not",
    "NotAFilter",
    "Or",
    "Predicate",
    "PredicateError",
    "PredicateFormatError",
    "Reason",
    "Term",
    "Truthy",
    "extract",
]
