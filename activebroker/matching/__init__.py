"""Matching: which events of a batch a predicate wants, on whole columns."""

from activebroker.matching.parcel import (
    Parcel,
    Selection,
    doubted,
    parse,
    renumbered,
    select,
    split,
    union,
)

__all__ = ["Parcel", "Selection", "doubted", "parse", "renumbered", "select", "split", "union"]
