"""Filters: what a user writes, how it travels, how it runs."""

from activebroker.filters.analysis import analyse
from activebroker.filters.filter import FIFOFilter, FunctionFilter
from activebroker.filters.keyed import KeyedFilter
from activebroker.filters.keyed_runner import KeyedRunner, make_runner
from activebroker.filters.keys import in_utc, key_fields
from activebroker.filters.payload import (
    PYTHON_VERSION,
    Envelope,
    FilterSpec,
    Payload,
    load,
    pack,
    unpack,
    verify,
)
from activebroker.filters.runner import SHARED, Failure, FilterRunner, Runner, RunResult

__all__ = [
    "PYTHON_VERSION",
    "SHARED",
    "Envelope",
    "FIFOFilter",
    "Failure",
    "FilterRunner",
    "FilterSpec",
    "FunctionFilter",
    "KeyedFilter",
    "KeyedRunner",
    "Payload",
    "RunResult",
    "Runner",
    "analyse",
    "in_utc",
    "key_fields",
    "load",
    "make_runner",
    "pack",
    "unpack",
    "verify",
]
