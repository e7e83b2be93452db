"""What the names in a function stand for, where that is constant.

A global or a closure's variable counts as a constant when its scope binds the name once, outside
any loop. A mutable collection counts when, in addition, it is built where it is bound and the whole
file only ever reads it.
"""

from __future__ import annotations

import ast
from enum import Enum
from types import FunctionType

from predicate_extract.algebra.constants import is_plain, member_of
from predicate_extract.algebra.terms import Const
from predicate_extract.analysis.bindings import COMPREHENSIONS
from predicate_extract.analysis.nodes import FunctionNode
from predicate_extract.analysis.source import Source, SourceFile
from predicate_extract.analysis.values import Display, Known, Value
from predicate_extract.report import Weaken

_BUILDERS = frozenset({"set", "frozenset", "list", "tuple", "dict", "sorted"})
_READING_CALLS = frozenset(
    {
        *("len", "any", "all", "min", "max", "sum", "sorted", "set", "frozenset", "list", "tuple"),
        *("enumerate", "zip", "reversed", "range", "str", "dict"),
    }
)
_READING_METHODS = frozenset({"get", "keys", "values", "items", "index", "count", "isdisjoint"})
MUTABLE = (list, set, dict)


def wrap(value: object) -> Value:
    """A Python object as a value of the analysis."""
    if is_plain(value):
        return Const(value)  # type: ignore[arg-type]
    if isinstance(value, Enum):
        member = member_of(value)
        return Known(value) if member is None else Const(member)
    if type(value) in (tuple, list, set, frozenset, dict):
        return _display(value)  # type: ignore[arg-type]
    return Known(value)


def _display(value: tuple[object, ...] | list[object] | dict[object, object]) -> Value:
    kind = "set" if isinstance(value, set | frozenset) else type(value).__name__
    if isinstance(value, dict):
        items = [wrap(part) for pair in value.items() for part in pair]
    else:
        items = [wrap(item) for item in value]
    if kind == "set":  # the order of a set is no order
        items.sort(key=lambda item: (type(item).__name__, str(item)))
    if any(isinstance(item, Const) and item.is_nan for item in items):
        return Known(value)  # NaN is found by its identity
    return Display(kind, tuple(items))


def is_mutable(value: object) -> bool:
    """Whether a collection may change, or something in it."""
    if type(value) in MUTABLE:
        return True
    return type(value) is tuple and any(map(is_mutable, value))


def is_fresh(node: ast.expr | None) -> bool:
    """Whether the expression builds a new collection, which nothing else can refer to."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _BUILDERS
    displays = (ast.Set, ast.List, ast.Dict, ast.Tuple, ast.ListComp, ast.SetComp, ast.DictComp)
    return isinstance(node, displays)


def only_reads(node: ast.AST, parents: dict[ast.AST, ast.AST], deep: bool) -> bool:
    """Whether the collection that `node` gives is only read there.

    `deep`: what it holds may change too, and so must not get away either.
    """
    parent = parents[node]
    match parent:
        case ast.Compare():
            return True
        case ast.Subscript(value, _, ast.Load()) if value is node:
            return not deep or only_reads(parent, parents, deep=False)
        case ast.For(_, source) | ast.comprehension(_, source) if source is node:
            return not deep
        case ast.Call(ast.Name(name)) if node is not parent.func:
            return name in _READING_CALLS and not deep
        case ast.Attribute(value, name, ast.Load()) if value is node and name in _READING_METHODS:
            call = parents[parent]
            called = isinstance(call, ast.Call) and call.func is parent
            return called and (not deep or only_reads(call, parents, deep=False))
        case ast.BoolOp() | ast.UnaryOp(ast.Not()):
            return isinstance(parents.get(parent), ast.If | ast.BoolOp | ast.IfExp | ast.UnaryOp)
        case ast.If() | ast.IfExp(test=_):
            return isinstance(parent, ast.If) or parent.test is node
    return False


def resolve(name: str, function: FunctionType, source: Source) -> Value:
    """What a free or global name stands for in `function`.

    Raises: Weaken, if that is not surely constant.
    """
    if not source.file.whole:
        raise Weaken(
            "rebound-name",
            f"whether {name} is constant does not show without the file of {function.__name__}",
            f"define the function in a file, or give it the value by a default: {name}={name}",
        )
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
    binding = _only_binding(name, scope, source)
    if is_mutable(value) and not (
        isinstance(binding, ast.expr) and is_fresh(binding) and _only_read(name, value, source)
    ):
        raise Weaken(
            "mutable-collection",
            f"{name} is a {type(value).__name__} that may change",
            f"make {name} a tuple or a frozenset",
        )
    return wrap(value)


def is_bound_once(name: str, scope: ast.AST, file: SourceFile) -> bool:
    """Whether a module or function binds a name once, outside any loop, and nothing inside it
    declares it its own."""
    names = file.names(scope)
    bindings = [*names.bindings.get(name, ()), *names.bindings.get("*", ())]
    looped = isinstance(scope, COMPREHENSIONS) or any(loop for _, loop in bindings)
    return len(bindings) == 1 and not looped and name not in names.declared


def _defining_scope(name: str, source: Source) -> ast.AST:
    """The enclosing function (or comprehension) that binds a closure's name."""
    node: ast.AST = source.node
    while (node := source.file.parents.get(node, source.file.tree)) is not source.file.tree:
        if (
            isinstance(node, (*COMPREHENSIONS, FunctionNode))
            and name in source.file.names(node).bindings
        ):
            return node
    raise Weaken("unknown-name", f"the variable {name} has no visible definition")


def _only_binding(name: str, scope: ast.AST, source: Source) -> ast.AST:
    """What the one statement that binds `name` in its scope assigns, or else its node."""
    if not is_bound_once(name, scope, source.file):
        raise Weaken(
            "rebound-name",
            f"{name} is bound more than once",
            f"bind {name} once, or pass the value to the filter as an argument",
        )
    names = source.file.names(scope)
    node = (names.bindings.get(name) or names.bindings["*"])[0][0]
    parent = source.file.parents.get(node)
    if isinstance(parent, ast.Assign) and parent.targets == [node]:
        return parent.value
    if isinstance(parent, ast.AnnAssign) and parent.value is not None:
        return parent.value
    return node


def _only_read(name: str, value: object, source: Source) -> bool:
    inside = value.values() if isinstance(value, dict) else value
    deep = any(map(is_mutable, inside))  # type: ignore[call-overload]
    parents = source.file.parents
    return all(only_reads(node, parents, deep) for node in source.file.loads.get(name, ()))
