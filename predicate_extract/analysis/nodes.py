"""Syntax trees, gone through fast: every analysis does so many times."""

from __future__ import annotations

import ast

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

# They hold text and numbers, or operators and contexts: marks without a place, which trees share.
_MARKS = {
    *("ctx", "op", "ops", "id", "attr", "arg", "kind", "type_comment", "level", "module"),
    *("asname", "is_async", "conversion", "simple", "rest"),
}
_FIELDS = {
    kind: tuple(name for name in kind._fields if name not in _MARKS)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes directly below one that have a place of their own."""
    found: list[ast.AST] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def preorder(tree: ast.AST) -> tuple[list[ast.AST], dict[ast.AST, ast.AST]]:
    """All nodes of a tree, each before those below it; and every node's parent."""
    nodes: list[ast.AST] = []
    parents: dict[ast.AST, ast.AST] = {}
    pending = [tree]
    while pending:
        node = pending.pop()
        nodes.append(node)
        below = children(node)
        below.reverse()
        pending += below
        for child in below:
            parents[child] = node
    return nodes, parents
