"""Matching: which events of a batch a predicate wants, on whole columns."""

from activebroker.matching.parcel import Parcel, doubted, parse, renumbered, select, split, union

__all__ = ["Parcel", "doubted", "parse", "renumbered", "select", "split", "union"]
