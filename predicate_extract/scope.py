"""The constants that a function's names stand for.

A global or a closure's variable counts as a constant when its value is a plain one and its scope
binds the name once, outside any loop. A mutable collection counts when, in addition, it is built
where it is bound and the whole file only ever tests membership in it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType

from predicate_extract.constants import Const, Plain, is_plain
from predicate_extract.report import Weaken
from predicate_extract.source import FunctionNode, Source

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, *_COMPREHENSIONS)
_BUILDERS = frozenset({"set", "frozenset", "list", "tuple", "dict", "sorted"})


@dataclass(frozen=True, slots=True)
class Container:
    """A collection of constants, to test membership in."""

    values: tuple[Const, ...]
    hashed: bool


def freeze(value: object) -> Const | Container | None:
    """The constant or collection that a Python value is, or None if it is neither."""
    if is_plain(value):
        return Const(value)  # type: ignore[arg-type]
    if type(value) not in (tuple, list, set, frozenset, dict):
        return None
    hashed = type(value) not in (tuple, list)
    return container(list(value), hashed)  # type: ignore[call-overload]


def container(values: list[Plain], hashed: bool) -> Container | None:
    """Plain values as a collection, or None if one is not plain, or NaN (equal to nothing)."""
    if not all(map(is_plain, values)):
        return None
    constants = list(dict.fromkeys(map(Const, values)))
    if any(const.is_nan for const in constants):
        return None
    if hashed:  # the order of a set is no order
        constants.sort(key=lambda const: (type(const.value).__name__, repr(const._key())))
    return Container(tuple(constants), hashed)


def is_fresh(node: ast.expr | None) -> bool:
    """Whether the expression builds a new collection, which nothing else can refer to."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _BUILDERS
    displays = (ast.Set, ast.List, ast.Dict, ast.Tuple, ast.ListComp, ast.SetComp, ast.DictComp)
    return isinstance(node, displays)


def is_membership(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether the expression is what a test `… in node` looks into."""
    parent = parents.get(node)
    return isinstance(parent, ast.Compare) and any(
        operand is node and isinstance(op, ast.In | ast.NotIn)
        for op, operand in zip(parent.ops, parent.comparators, strict=True)
    )


def resolve(name: str, function: FunctionType, source: Source) -> Const | Container:
    """The constant that a free or global name stands for in `function`.

    Raises: Weaken, if it is not surely one.
    """
    code = function.__code__
    if name in code.co_freevars:
        cell = (function.__closure__ or ())[code.co_freevars.index(name)]
        try:
            value = cell.cell_contents
        except ValueError:
            raise Weaken("unbound", f"{name} has no value yet") from None
        scope = _defining_scope(name, source)
    elif name in function.__globals__:
        value, scope = function.__globals__[name], source.file.tree
    else:
        raise Weaken("unknown-name", f"{name} is not a constant")
    frozen = freeze(value)
    if frozen is None:
        raise Weaken("unknown-name", f"{name} is a {type(value).__name__}, not a constant")
    binding = _only_binding(name, scope, source)
    if type(value) in (list, set, dict) and not (
        isinstance(binding, ast.expr) and is_fresh(binding) and _only_tested(name, source)
    ):
        raise Weaken(
            "mutable-collection",
            f"{name} is a {type(value).__name__} that may change",
            f"make {name} a tuple or a frozenset",
        )
    return frozen


def _defining_scope(name: str, source: Source) -> ast.AST:
    """The enclosing function (or comprehension) that binds a closure's name."""
    node: ast.AST = source.node
    while (node := source.file.parents.get(node, source.file.tree)) is not source.file.tree:
        if isinstance(node, (*_COMPREHENSIONS, FunctionNode)) and name in _names(node).bindings:
            return node
    raise Weaken("unknown-name", f"the variable {name} has no visible definition")


def _only_binding(name: str, scope: ast.AST, source: Source) -> ast.AST:
    """What the one statement that binds `name` in its scope assigns, or else its node."""
    names = _names(scope)
    bindings = [*names.bindings.get(name, ()), *names.bindings.get("*", ())]
    looped = isinstance(scope, _COMPREHENSIONS) or any(loop for _, loop in bindings)
    if len(bindings) != 1 or looped or name in names.declared:
        raise Weaken(
            "rebound-name",
            f"{name} is bound more than once",
            f"bind {name} once, or pass the value to the filter as an argument",
        )
    node: ast.AST = bindings[0][0]
    parent = source.file.parents.get(node)
    if isinstance(parent, ast.Assign) and parent.targets == [node]:
        return parent.value
    if isinstance(parent, ast.AnnAssign) and parent.value is not None:
        return parent.value
    return node


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of a scope: the nodes that bind each, with whether that is in a loop; and those
    that the functions inside declare `global` or `nonlocal`."""

    bindings: dict[str, list[tuple[ast.AST, bool]]]
    declared: frozenset[str]


@lru_cache(maxsize=256)
def _names(scope: ast.AST) -> _Names:
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
        bound = _bound(node)
        if bound is not None:
            bindings.setdefault(bound, []).append((node, looped))
        if isinstance(node, ast.ClassDef | FunctionNode):
            continue
        looped = looped or isinstance(node, _LOOPS)
        pending.extend((child, looped) for child in ast.iter_child_nodes(node))
    declared = frozenset(
        name
        for node in ast.walk(scope)
        if isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names
    )
    return _Names(bindings, declared)


def _bound(node: ast.AST) -> str | None:
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


def _only_tested(name: str, source: Source) -> bool:
    return all(is_membership(node, source.file.parents) for node in source.file.loads.get(name, ()))
