"""What `predicate_extract` raises. Code that it merely cannot analyse is a `Reason`, no error."""

from __future__ import annotations


class PredicateError(Exception):
    """Base class of the errors of this package."""


class NotAFilter(PredicateError, TypeError):
    """The target is neither a filter class, nor an instance of one, nor a predicate function."""


class PredicateFormatError(PredicateError, ValueError):
    """The text is not a predicate, or one of a version that this release does not read."""
