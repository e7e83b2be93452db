"""Syntax trees, gone through fast: every analysis does so many times."""

from __future__ import annotations

import ast
from collections.abc import Iterator

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
_FIELDS[ast.Constant] = ()


class Nodes:
    """The nodes of a tree that have a place of their own, in order: each before those below it."""

    def __init__(self, tree: ast.AST) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self._nodes: list[ast.AST] = []
        pending = [tree]
        while pending:
            node = pending.pop()
            self._nodes.append(node)
            below = _children(node)
            for child in below:
                self.parents[child] = node
            below.reverse()
            pending += below
        self._places = {node: place for place, node in enumerate(self._nodes)}
        self._sizes = [1] * len(self._nodes)  # with all below
        for place in range(len(self._nodes) - 1, 0, -1):
            above = self._places[self.parents[self._nodes[place]]]
            self._sizes[above] += self._sizes[place]

    def __iter__(self) -> Iterator[ast.AST]:
        return iter(self._nodes)

    def walk(self, node: ast.AST) -> list[ast.AST]:
        """A node and all below it."""
        start = self._places[node]
        return self._nodes[start : start + self._sizes[start]]

    def walk_open(self, node: ast.AST, closed: tuple[type[ast.AST], ...]) -> Iterator[ast.AST]:
        """A node and all below it, without what is below one of the `closed` kinds."""
        place = self._places[node]
        end = place + self._sizes[place]
        while place < end:
            node = self._nodes[place]
            yield node
            place += self._sizes[place] if isinstance(node, closed) else 1

    def above(self, node: ast.AST, top: ast.AST) -> Iterator[ast.AST]:
        """The nodes that a node is in, up to the one directly below `top`."""
        while (node := self.parents[node]) is not top:
            yield node


def _children(node: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found
