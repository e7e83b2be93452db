"""What a filter's code says about its events: the predicate, and the fields it reads."""

from __future__ import annotations

from activebroker.core.errors import UnknownField, suggestion
from activebroker.events import ANY, EventType
from activebroker.filters.filter import FunctionFilter
from activebroker.filters.payload import FilterSpec
from predicate_extract import Extraction, extract


def analyse(spec: FilterSpec, input_type: EventType) -> Extraction:
    """Find the predicate of a filter on events of a type.

    Raises UnknownField where the filter reads a field that the type lacks.
    """
    schema = None if input_type is ANY else input_type.schema
    content = None if input_type is ANY or input_type.generic else input_type.cls
    target: object = spec.cls if spec.instance is None else spec.instance
    args = spec.args if spec.instance is None else ()
    if spec.cls is FunctionFilter:
        target, args = spec.args[0], ()
    extraction = extract(target, *args, schema=schema, content=content, parameters=spec.values)
    if schema is not None:
        _check_fields(extraction, input_type)
    return extraction


def _check_fields(extraction: Extraction, input_type: EventType) -> None:
    for use in extraction.fields:
        name = use.path[0]
        if use.guarded or name in input_type.schema.names or hasattr(input_type.cls, name):
            continue
        raise UnknownField(
            f"Filter {extraction.name} reads the field {name!r} (line {use.line} of "
            f"{extraction.filename}), which events of type {input_type.name} lack."
            + suggestion(name, input_type.schema.names)
        )
