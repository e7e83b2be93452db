"""A function as the analysis sees it: its tree, and the function object that it was read from."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import FunctionType
from zoneinfo import ZoneInfo

from predicate_extract.analysis.source import Source, trusted_source
from predicate_extract.report import Weaken

_COROUTINE_OR_GENERATOR = 0x20 | 0x80 | 0x200

# What these make of constants is constant, and the same everywhere.
MAKERS = (
    *(datetime, date, time, timedelta, timezone, Decimal, re.compile, range, frozenset, ZoneInfo),
    *(datetime.fromisoformat, date.fromisoformat, time.fromisoformat),
)


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """One function, or a lambda or `def` inside one (which has no function object yet)."""

    source: Source
    function: FunctionType
    """The function itself, or the one around it that was read."""
    inner: bool = False

    @property
    def name(self) -> str:
        return getattr(self.source.node, "name", "<lambda>")

    @property
    def body(self) -> tuple[ast.stmt, ...]:
        node = self.source.node
        if isinstance(node, ast.Lambda):
            return (ast.copy_location(ast.Return(node.body), node.body),)
        return tuple(node.body)

    @property
    def owner(self) -> type | None:
        """The class that `super()` in this function starts from."""
        free = self.function.__code__.co_freevars
        if "__class__" not in free:
            return None
        owner = (self.function.__closure__ or ())[free.index("__class__")].cell_contents
        return owner if isinstance(owner, type) else None

    def is_local(self, name: str) -> bool:
        """Whether a name that the function binds is seen by it alone."""
        names = self.source.file.names(self.source.node)
        return name in names.bindings and name not in names.shared


def code_of(function: FunctionType) -> Code:
    """The code of a function.

    Raises: Weaken, if its source is not surely what runs, or it is no plain function.
    """
    if function.__code__.co_flags & _COROUTINE_OR_GENERATOR:
        raise Weaken("signature", f"{function.__qualname__} is a generator or a coroutine")
    return Code(trusted_source(function), function)
