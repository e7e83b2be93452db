"""What the names in a function stand for, where that is constant.

A global or a closure's variable counts as a constant when its scope binds the name once, outside
any loop. A mutable collection counts when, in addition, it is built where it is bound and the whole
file only ever reads it. What was typed into a session is looked at otherwise: see `session`.
"""

from __future__ import annotations

import ast
import builtins
import sys
from enum import Enum
from importlib.util import resolve_name
from types import FunctionType

from predicate_extract.algebra.constants import is_plain, member_of
from predicate_extract.algebra.terms import Const
from predicate_extract.analysis.bindings import COMPREHENSIONS
from predicate_extract.analysis.code import Code
from predicate_extract.analysis.nodes import FunctionNode
from predicate_extract.analysis.session import binds_anew, is_of_session
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


def outer_value(name: str, code: Code) -> Value:
    """What a global, built-in or closed-over name stands for.

    Raises: Weaken, if that is not constant.
    """
    function = code.function
    variables = function.__code__
    if name in variables.co_varnames or name in variables.co_cellvars:
        raise Weaken("unknown-name", f"{name} has no known value here")
    known = name in variables.co_freevars or name in function.__globals__
    if not known and hasattr(builtins, name):
        found = getattr(builtins, name)
        # Ray puts a function of its own in the place of print; elsewhere the name may be free.
        return Known(object() if isinstance(found, FunctionType) else found)
    return resolve(name, function, code.source)


def resolve(name: str, function: FunctionType, source: Source) -> Value:
    """What a free or global name stands for in `function`.

    Raises: Weaken, if that is not surely constant.
    """
    code = function.__code__
    closed = name in code.co_freevars
    if closed:
        cell = (function.__closure__ or ())[code.co_freevars.index(name)]
        try:
            value = cell.cell_contents
        except ValueError:
            raise Weaken("unbound", f"{name} has no value yet") from None
    elif name in function.__globals__:
        value = function.__globals__[name]
    else:
        raise Weaken("unknown-name", f"{name} is not a constant")
    changing = Weaken(
        "mutable-collection",
        f"{name} is a {type(value).__name__} that may change",
        f"make {name} a tuple or a frozenset",
    )
    package = function.__globals__.get("__package__")
    if not closed and is_of_session(function):
        if binds_anew(name, function):
            why = f"a function declares {name} global, and may bind it anew"
            raise Weaken("rebound-name", why, _ONCE)
        if not is_mutable(value):
            return wrap(value)
        if not _bindings(name, source.file.tree, source.file, package):
            raise changing
    if not source.file.whole:
        raise Weaken(
            "rebound-name",
            f"whether {name} is constant does not show without the file of {function.__name__}",
            f"define the function in a file, or give it the value by a default: {name}={name}",
        )
    scope = _defining_scope(name, source) if closed else source.file.tree
    binding = _only_binding(name, scope, source, package)
    if is_mutable(value) and not (
        isinstance(binding, ast.expr) and is_fresh(binding) and _only_read(name, value, source)
    ):
        raise changing
    return wrap(value)


_ONCE = "bind it once, or pass the value to the filter as an argument"


def is_bound_once(name: str, scope: ast.AST, file: SourceFile, package: str | None = None) -> bool:
    """Whether a module (of this package) or function binds a name once, outside any loop, and
    nothing inside it declares it its own."""
    return not _why_not_once(name, _bindings(name, scope, file, package), scope, file)


def _bindings(
    name: str, scope: ast.AST, file: SourceFile, package: str | None
) -> list[tuple[ast.AST, bool]]:
    """What binds a name in a scope, and whether in a loop."""
    bindings = file.names(scope).bindings
    stars = [each for each in bindings.get("*", ()) if _gives(each[0], name, file, package)]
    return [*bindings.get(name, ()), *stars]


def _gives(star: ast.AST, name: str, file: SourceFile, package: str | None) -> bool:
    """Whether a `from module import *` binds a name, as far as is known."""
    statement = file.parents[star]
    assert isinstance(statement, ast.ImportFrom)
    try:
        path = resolve_name("." * statement.level + (statement.module or ""), package)
    except (ImportError, ValueError):
        return True
    module = sys.modules.get(path)
    if module is None:
        return True
    public = getattr(module, "__all__", None)
    return name in public if public is not None else name[:1] != "_" and hasattr(module, name)


def _why_not_once(
    name: str, bindings: list[tuple[ast.AST, bool]], scope: ast.AST, file: SourceFile
) -> str:
    if len(bindings) > 1:
        return f"{name} is bound more than once"
    if not bindings:
        return f"no statement of {file.filename} binds {name}, so others may bind it anew"
    if isinstance(scope, COMPREHENSIONS) or bindings[0][1]:
        return f"{name} is bound in a loop"
    if name in file.names(scope).declared:
        return f"a function declares {name} its own, and may bind it anew"
    return ""


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


def _only_binding(name: str, scope: ast.AST, source: Source, package: str | None) -> ast.AST:
    """What the one statement that binds `name` in its scope assigns, or else its node."""
    bindings = _bindings(name, scope, source.file, package)
    if why := _why_not_once(name, bindings, scope, source.file):
        raise Weaken("rebound-name", why, _ONCE)
    node = bindings[0][0]
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
