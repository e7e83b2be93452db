"""What an extraction tells its reader: the predicate, and each spot where the code weakened it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from predicate_extract.algebra.predicate import Predicate


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the predicate is weaker than the filter at one spot.

    `line` counts from 1 in the filter's file (0: no line), `code` is the source there, `kind` a
    stable slug, `hint` how to rewrite it ("" if there is nothing to say). What was met in another
    file shows where it is called; the message says where it is.
    """

    line: int
    code: str
    kind: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class FieldUse:
    """An attribute or item chain that the filter reads off the content.

    `guarded` reads stand in a `try`, or ask with `getattr`'s default or `hasattr` first.
    """

    path: tuple[str, ...]
    line: int
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class Extraction:
    """The result of `extract`.

    The filter forwards, changes, reports or raises only for events that `predicate` matches. It is
    `exact` when the predicate also says what happens: where it is true the filter forwards that
    event once, unchanged, and does nothing else; where it is false, nothing; and if it `raises`, it
    raises where the predicate does (else an exception may be caught). `stateful` says that the
    filter may change itself, or anything else, outside `__init__` (when in doubt, it does; methods
    of the content are taken to change nothing else). `reads` are the fields that it can read at
    all, and None where it may read any. `as_it_is` says that all it can forward is the event it is
    given, once, while it has it.
    """

    name: str
    predicate: Predicate
    exact: bool
    stateful: bool
    reasons: tuple[Reason, ...]
    fields: tuple[FieldUse, ...]
    source: str | None
    filename: str | None
    first_line: int
    reads: frozenset[str] | None = None
    as_it_is: bool = False
    raises: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As plain data, with the predicate as text and in the form that is sent to brokers."""
        return {
            "name": self.name,
            "filename": self.filename,
            "first_line": self.first_line,
            "predicate": str(self.predicate),
            "predicate_json": self.predicate.to_json(),
            "exact": self.exact,
            "raises": self.raises,
            "stateful": self.stateful,
            "reasons": [asdict(reason) for reason in self.reasons],
            "fields": [asdict(use) for use in self.fields],
            "reads": None if self.reads is None else sorted(self.reads),
            "as_it_is": self.as_it_is,
            "source": self.source,
        }


class Weaken(Exception):
    """The analysis cannot say what this piece of code does; its events are kept."""

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
