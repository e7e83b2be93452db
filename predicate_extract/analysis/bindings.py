"""What binds names in a scope of a syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from predicate_extract.analysis.nodes import FunctionNode, children

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, *COMPREHENSIONS)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a scope: the nodes that bind each, with whether that is in a loop; and those
    that the functions inside declare `global` or `nonlocal`."""

    bindings: dict[str, list[tuple[ast.AST, bool]]]
    declared: frozenset[str]


def names_of(scope: ast.AST, below: Sequence[ast.AST]) -> Names:
    """The names of a scope, with all nodes `below` it."""
    bindings: dict[str, list[tuple[ast.AST, bool]]] = {}
    if isinstance(scope, FunctionNode):
        a = scope.args
        for argument in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg):
            if argument is not None:
                bindings.setdefault(argument.arg, []).append((argument, False))
    body = scope.body if isinstance(scope, ast.Module | FunctionNode) else [scope]
    pending = [(node, False) for node in (body if isinstance(body, list) else [body])]
    while pending:
        node, looped = pending.pop()
        bound = bound_name(node)
        if bound is not None:
            bindings.setdefault(bound, []).append((node, looped))
        if isinstance(node, ast.ClassDef | FunctionNode):
            continue
        looped = looped or isinstance(node, _LOOPS)
        pending.extend((child, looped) for child in children(node))
    declared = frozenset(
        name for node in below if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names
    )
    return Names(bindings, declared)


def bound_name(node: ast.AST) -> str | None:
    """The name that a node binds; `*` for any."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return name
        case ast.alias(name=name, asname=None):
            return name.partition(".")[0]
        case ast.alias(asname=name):
            return name
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.name
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            return node.name
        case ast.MatchMapping():
            return node.rest
    return None


def local_names(node: ast.AST) -> frozenset[str]:
    """The names that a function binds and that are its own."""
    bound: set[str] = set()
    shared: set[str] = set()
    pending = list(children(node))
    while pending:
        child = pending.pop()
        match child:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bound.add(name)
            case ast.arg(arg=name):
                bound.add(name)
            case ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
                bound.add(name)
            case ast.MatchStar(name=str() as name) | ast.MatchMapping(rest=str() as name):
                bound.add(name)
            case ast.Global(names) | ast.Nonlocal(names):
                shared.update(names)
            case ast.alias(name=name, asname=asname):
                bound.add(asname or name.partition(".")[0])
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(child.name)
        elif not isinstance(child, ast.Lambda):
            pending.extend(children(child))
    return frozenset(bound - shared)
