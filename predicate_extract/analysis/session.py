"""Functions typed into a session: a notebook, a shell.

Its pieces of source share one namespace, and none shows all that binds a name there. But the
values are known, and what is sent is a copy of the function with those of the moment. What it may
bind anew where it runs is what the session's own functions declare `global`.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType


def is_of_session(function: FunctionType) -> bool:
    """Whether a function was typed into a session, and goes from there as a copy.

    A method counts where its class is a filter: other classes may stay what they are in the process
    that defined them.
    """
    names = function.__globals__
    if names.get("__name__") != "__main__" or "__file__" in names:
        return False
    *outer, _ = function.__code__.co_qualname.split(".")
    if not outer or outer[-1] == "<locals>":
        return True
    owner = names.get(outer[0])
    for name in outer[1:]:
        owner = getattr(owner, name, None)
    return isinstance(owner, type) and callable(getattr(owner, "enqueue", None))


def binds_anew(name: str, function: FunctionType) -> bool:
    """Whether a function of the session may bind a global name."""
    return any(name in _bound(each.__code__) for each in _functions(function.__globals__))


def _functions(names: dict[str, object]) -> Iterator[FunctionType]:
    for value in (*names.values(), *_members(names)):
        inner = getattr(value, "__func__", value)
        if isinstance(inner, FunctionType) and inner.__globals__ is names:
            yield inner


def _members(names: dict[str, object]) -> Iterator[object]:
    for cls in names.values():
        if isinstance(cls, type) and cls.__module__ == "__main__":
            for member in vars(cls).values():
                yield from (member.fget, member.fset) if isinstance(member, property) else (member,)


@lru_cache(maxsize=1024)
def _bound(code: CodeType) -> frozenset[str]:
    """The globals that a code object, or one inside it, binds or deletes."""
    own = {each.argval for each in dis.get_instructions(code) if each.opname in _BINDING}
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return frozenset(own).union(*map(_bound, inner))


_BINDING = ("STORE_GLOBAL", "DELETE_GLOBAL")
