"""What a function's text shows about changes of its instance."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from predicate_extract.analysis.nodes import FunctionNode
from predicate_extract.analysis.source import Source

PURE_BUILTINS = frozenset(
    {
        *("abs", "bool", "bytes", "dict", "float", "frozenset", "int", "len", "list", "max", "min"),
        *("round", "set", "sorted", "str", "sum", "tuple"),
    }
)


def self_name(source: Source) -> str | None:
    a = source.node.args
    first = [*a.posonlyargs, *a.args][:1]
    return first[0].arg if first else None


def leaks_self(source: Source) -> bool:
    """Whether the function uses its instance other than by reading and setting attributes."""
    name = self_name(source)
    if name is None:
        return _leaks_arguments(source)
    for node in source.walk():
        if isinstance(node, ast.Name) and node.id == name:
            parent = source.file.parents.get(node)
            match parent:
                # A parent's methods are looked at as well.
                case ast.Call(ast.Attribute(attr="enqueue"), [first, *_]) if first is node:
                    continue
            if not isinstance(parent, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                return True
            if parent.attr in ("__dict__", "__class__"):
                return True
    return False


def _leaks_arguments(source: Source) -> bool:
    """Whether a function of `*args` does more with them than hand them on by `f(*args)`."""
    a = source.node.args
    parents = source.file.parents
    for node in source.walk():
        if isinstance(node, ast.Name) and a.vararg is not None and node.id == a.vararg.arg:
            starred = parents.get(node)
            call = parents.get(starred) if starred is not None else None
            if not (isinstance(starred, ast.Starred) and isinstance(call, ast.Call)):
                return True
            if not isinstance(call.func, ast.Name):
                return True
    return False


def stores(source: Source) -> Iterator[tuple[ast.Attribute, bool]]:
    """Every attribute the function sets or deletes, and whether it does so not by itself, or not
    on its own instance."""
    name, nodes = self_name(source), source.file.nodes
    for node in source.walk():
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            own = isinstance(node.value, ast.Name) and node.value.id == name
            inside = any(isinstance(each, FunctionNode) for each in nodes.above(node, source.node))
            yield node, inside or not own
