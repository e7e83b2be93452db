"""What binds names in a scope of a syntax tree."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from predicate_extract.analysis.nodes import FunctionNode, Nodes

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, *COMPREHENSIONS)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a scope: the nodes that bind each, with whether that is in a loop; those that it
    declares `global` or `nonlocal`, and those that it or a function inside does."""

    bindings: dict[str, list[tuple[ast.AST, bool]]]
    shared: frozenset[str]
    declared: frozenset[str]


def names_of(scope: ast.AST, nodes: Nodes) -> Names:
    """The names of a module, a function or a comprehension, one of `nodes`."""
    bindings: dict[str, list[tuple[ast.AST, bool]]] = {}
    parts: list[ast.AST] = [scope]
    if isinstance(scope, FunctionNode):
        parts = [scope.body] if isinstance(scope, ast.Lambda) else [*scope.body]
        a = scope.args
        for argument in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg):
            if argument is not None:
                bindings.setdefault(argument.arg, []).append((argument, False))
    own = [node for part in parts for node in nodes.walk_open(part, _SCOPES)]
    for node in own:
        for part in _evaluated_outside(node):
            own.extend(nodes.walk_open(part, _SCOPES))
        bound = bound_name(node)
        if bound is not None:
            looped = any(isinstance(each, _LOOPS) for each in nodes.above(node, scope))
            bindings.setdefault(bound, []).append((node, looped))
    return Names(bindings, _declared(own), _declared(nodes.walk(scope)))


def _evaluated_outside(scope: ast.AST) -> list[ast.expr]:
    """What of a definition is evaluated in the scope around it, where `:=` then binds a name."""
    match scope:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            a = scope.args
            defaults = [*a.defaults, *(each for each in a.kw_defaults if each is not None)]
            return [*getattr(scope, "decorator_list", ()), *defaults]
        case ast.ClassDef():
            keywords = [keyword.value for keyword in scope.keywords]
            return [*scope.decorator_list, *scope.bases, *keywords]
    return []


def _declared(nodes: Iterable[ast.AST]) -> frozenset[str]:
    found = (node.names for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)))
    return frozenset(itertools.chain.from_iterable(found))


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
