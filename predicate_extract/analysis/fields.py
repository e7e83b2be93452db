"""Which fields a filter reads off the content, as far as its text shows.

Only sure reads are reported: chains that start at the content, or at a local name that stands for
nothing else. A chain ends before a method call (`s.name.upper()` reads `name`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from predicate_extract.analysis.source import Source
from predicate_extract.report import FieldUse

Path = tuple[str, ...]


def field_uses(
    source: Source, *, content: str | None = None, event: str | None = None
) -> list[FieldUse]:
    """The reads in a function whose parameter is the `content`, or the `event`."""
    reader = Reader(source, content, event)
    guarded = set(reader.asked())
    uses = {
        (path, node.lineno): FieldUse(path, node.lineno, path in guarded or reader.in_try(node))
        for node, path in reader.chains()
    }
    for path, line in reader.asked().items():
        uses.setdefault((path, line), FieldUse(path, line, guarded=True))
    return sorted(uses.values(), key=lambda use: (use.line, use.path))


class Reader:
    """Follows the content, and the names that stand for it, through a function.

    `follows`: the parameter itself is not bound anew.
    """

    def __init__(self, source: Source, content: str | None, event: str | None) -> None:
        self._source = source
        self._parents = source.file.parents
        self._nodes = source.walk()
        self._event = event
        self._names: dict[str, Path] = {}
        bound = self._bound_names()
        self.follows = not (bound.get(content or "") or bound.get(event or ""))
        if content is not None and not bound.get(content):
            self._names[content] = ()
        if event is not None and bound.get(event):
            self._event = None
        # An alias of an alias needs another round.
        for _ in range(3):
            for node in self._nodes:
                match node:
                    case ast.Assign([ast.Name(id=name)], value) if bound[name] == 1:
                        path = self.path(value)
                        if path is not None and name not in (content, event):
                            self._names[name] = path

    def chains(self) -> Iterator[tuple[ast.expr, Path]]:
        """The longest chains, each with its path."""
        for node in self._nodes:
            if not isinstance(node, ast.Attribute | ast.Subscript):
                continue
            path = self.path(node)
            if not path or not isinstance(node.ctx, ast.Load):
                continue
            parent = self._parents.get(node)
            if isinstance(parent, ast.Attribute | ast.Subscript) and self.path(parent) is not None:
                called = self._parents.get(parent)
                if not (isinstance(called, ast.Call) and called.func is parent):
                    continue
            if isinstance(parent, ast.Call) and parent.func is node:
                continue
            yield node, path

    def asked(self) -> dict[Path, int]:
        """Paths that `hasattr` or `getattr` with a default asks for, with the line."""
        found: dict[Path, int] = {}
        for node in self._nodes:
            match node:
                case ast.Call(
                    ast.Name(id="hasattr" | "getattr" as function),
                    [owner, ast.Constant(str() as name), *default],
                ) if function == "hasattr" or default:
                    path = self.path(owner)
                    if path is not None:
                        found.setdefault((*path, name), node.lineno)
        return found

    def in_try(self, node: ast.AST) -> bool:
        """Whether an exception of this node is caught in the function."""
        child: ast.AST = node
        while child is not self._source.node:
            parent = self._parents[child]
            if (
                isinstance(parent, ast.Try | ast.TryStar)
                and parent.handlers
                and child in parent.body
            ):
                return True
            child = parent
        return False

    def path(self, node: ast.AST) -> Path | None:
        """The fields that lead from the content to a node; None, if it is something else."""
        match node:
            case ast.Name(id=name):
                return self._names.get(name)
            case ast.Attribute(ast.Name(id=name), "content") if name == self._event:
                return ()
            case ast.Attribute(owner, name) | ast.Subscript(owner, ast.Constant(str() as name)):
                path = self.path(owner)
                return None if path is None else (*path, name)
        return None

    def _bound_names(self) -> dict[str, int]:
        """How often each name is bound in the function, its parameters aside."""
        counts: dict[str, int] = {}
        for node in self._nodes:
            names: list[str | None] = []
            match node:
                case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                    names = [name]
                case ast.arg(arg=name) if self._parents.get(node) is not self._source.node.args:
                    names = [name]
                case (
                    ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name)
                ):
                    names = [name]
                case ast.FunctionDef() | ast.ClassDef() if node is not self._source.node:
                    names = [node.name]
                case ast.Global() | ast.Nonlocal():
                    names = [*node.names, *node.names]
            for bound in names:
                if bound is not None:
                    counts[bound] = counts.get(bound, 0) + 1
        return counts
