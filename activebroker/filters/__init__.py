"""Filters: what a user writes, how it travels, how it runs."""

from activebroker.filters.analysis import analyse
from activebroker.filters.filter import FIFOFilter, FunctionFilter
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
    "Payload",
    "RunResult",
    "Runner",
    "analyse",
    "load",
    "pack",
    "unpack",
    "verify",
]
