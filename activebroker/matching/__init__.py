"""Matching: which events of a batch a predicate wants, on whole columns."""

from activebroker.matching.chunk import (
    Chunk,
    Selection,
    doubted,
    parse,
    renumbered,
    select,
    split,
    union,
)

__all__ = ["Chunk", "Selection", "doubted", "parse", "renumbered", "select", "split", "union"]
