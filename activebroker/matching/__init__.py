"""Matching: which events of a batch a predicate wants, on whole columns."""

from activebroker.matching.parcel import Parcel, parse, renumbered, select, split, union

__all__ = ["Parcel", "parse", "renumbered", "select", "split", "union"]
