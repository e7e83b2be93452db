"""Filter code in, predicate out.

`extract` reads a filter class, or a predicate function, and finds a condition that every event the
filter forwards, or reacts to in any way, satisfies. The condition is data: it can be evaluated here
(`matches`), on whole Arrow columns (`predicate_extract.columns`), in Spark
(`predicate_extract.spark`), compared (`covers`) and sent (`to_json`).

    >>> extract(lambda flight: flight.dep_delay > 60 and flight.carrier == "DL").predicate.fields()
    (Field(path=('dep_delay',), keyed=()), Field(path=('carrier',), keyed=()))
"""

from predicate_extract.constants import Const
from predicate_extract.errors import NotAFilter, PredicateError, PredicateFormatError
from predicate_extract.extraction import extract
from predicate_extract.predicate import (
    FALSE,
    TRUE,
    Always,
    And,
    Compare,
    Defined,
    Field,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    Truthy,
)
from predicate_extract.report import Extraction, FieldUse, Reason

__all__ = [
    "FALSE",
    "TRUE",
    "Always",
    "And",
    "Compare",
    "Const",
    "Defined",
    "Extraction",
    "Field",
    "FieldUse",
    "In",
    "IsNull",
    "Not",
    "NotAFilter",
    "Or",
    "Predicate",
    "PredicateError",
    "PredicateFormatError",
    "Reason",
    "Truthy",
    "extract",
]
