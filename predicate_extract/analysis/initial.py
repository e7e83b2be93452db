"""What the statements that set an attribute say of its value, without running them."""

from __future__ import annotations

import ast
from types import FunctionType

from predicate_extract.algebra.functions import METHODS
from predicate_extract.algebra.terms import Const
from predicate_extract.analysis.code import MAKERS
from predicate_extract.analysis.effects import PURE_BUILTINS
from predicate_extract.analysis.members import member_of
from predicate_extract.analysis.scope import resolve
from predicate_extract.analysis.source import Source, trusted_source
from predicate_extract.analysis.values import Known, Value
from predicate_extract.report import Weaken

_REPEATABLE = (
    ast.Constant,
    ast.Tuple,
    ast.List,
    ast.Set,
    ast.Dict,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
    ast.GeneratorExp,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.comprehension,
    ast.JoinedStr,
    ast.FormattedValue,
)


def assigned_once(node: ast.Attribute, source: Source) -> ast.expr | None:
    """What a top-level statement of the function assigns to this attribute."""
    statement, value = _statement_of(node, source)
    top_level = statement is not None and source.file.parents.get(statement) is source.node
    return value if top_level else None


def _statement_of(node: ast.Attribute, source: Source) -> tuple[ast.AST | None, ast.expr | None]:
    """The statement that assigns to an attribute, and what: `self.a, self.b = a, b` is two."""
    parent = source.file.parents.get(node)
    if not isinstance(parent, ast.Tuple):
        match parent:
            case ast.Assign([target], value) if target is node:
                return parent, value
            case ast.AnnAssign(value=value):
                return parent, value
        return parent, None
    statement = source.file.parents.get(parent)
    match statement:
        case ast.Assign([target], ast.Tuple(values)) if target is parent:
            if len(values) == len(parent.elts):
                return statement, values[parent.elts.index(node)]
    return statement, None


def assigned_by(node: ast.Attribute, source: Source) -> ast.AST | None:
    """What any statement of the function assigns to this attribute; the statement for `+=`."""
    statement = source.file.parents.get(node)
    match statement:
        case ast.Assign(targets, value) if node in targets:
            return value
        case ast.AnnAssign(value=value) | ast.AugAssign(target=ast.Attribute(), value=value):
            return statement if isinstance(statement, ast.AugAssign) else value
    return None


def bound_in_class(cls: type, name: str) -> ast.expr | None:
    """What the body of the class that has the attribute assigns to it."""
    owner = next((parent for parent in cls.__mro__ if name in vars(parent)), None)
    for function in vars(owner).values() if owner is not None else ():
        if not isinstance(function, FunctionType):
            continue
        try:
            source = trusted_source(function)
        except Weaken:
            continue
        body = source.file.parents.get(source.node)
        for statement in body.body if isinstance(body, ast.ClassDef) else ():
            match statement:
                case ast.Assign([ast.Name(id=bound)], value) if bound == name:
                    return value
                case ast.AnnAssign(ast.Name(id=bound), _, ast.expr() as value) if bound == name:
                    return value
    return None


def family_of_expression(node: ast.AST | None) -> str | None:
    """The family of what an expression gives, by its form; `same` where it keeps the family."""
    match node:
        case ast.Constant(bool() | int()):
            return "integer"
        case ast.Constant(float()):
            return "float"
        case ast.Constant(str()) | ast.JoinedStr():
            return "str"
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float()) as number):
            return family_of_expression(number)
        case ast.UnaryOp(ast.Not()) | ast.Compare():
            return "integer"
        case ast.Set() | ast.SetComp() | ast.Call(ast.Name(id="set")):
            return "set"
        case (
            ast.Dict()
            | ast.DictComp()
            | ast.Call(ast.Name(id="dict" | "defaultdict" | "Counter" | "OrderedDict"))
        ):
            return "dict"
        case ast.List() | ast.ListComp() | ast.Call(ast.Name(id="list" | "deque")):
            return "list"
        case ast.Call(ast.Name(id="len" | "int")):
            return "integer"
        case ast.Call(ast.Name(id="float")):
            return "float"
        case ast.AugAssign(op=ast.Add() | ast.Sub(), value=ast.Constant(int())):
            return "same"
        case ast.AugAssign(op=ast.Add() | ast.Sub(), value=ast.Constant(float())):
            return "float"
    return None


def is_repeatable(node: ast.expr | None, source: Source, function: FunctionType) -> bool:
    """Whether the expression gives the same value wherever the arguments are the same."""
    if node is None:
        return False
    a = source.node.args
    _, *given = (*a.posonlyargs, *a.args)  # without the instance
    arguments = {
        argument.arg
        for argument in (*given, *a.kwonlyargs, a.vararg, a.kwarg)
        if argument is not None
    }
    if any(
        isinstance(part, ast.Call)
        for d in (*a.defaults, *a.kw_defaults)
        if d
        for part in ast.walk(d)
    ):
        return False
    rebound = {
        n.id for n in source.walk() if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    }
    inner = {
        name.id
        for part in ast.walk(node)
        if isinstance(part, ast.comprehension)
        for name in ast.walk(part.target)
        if isinstance(name, ast.Name)
    }
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in inner:
            continue
        if isinstance(part, ast.Name):
            called = source.file.parents.get(part)
            if isinstance(called, ast.Call) and called.func is part and part.id in PURE_BUILTINS:
                if part.id in function.__globals__ or part.id in arguments | rebound:
                    return False
            elif part.id in arguments:
                if part.id in rebound:
                    return False
            else:
                try:
                    resolved = resolve(part.id, function, source)
                except Weaken:
                    return False
                makes = isinstance(resolved, Known) and resolved.it in MAKERS
                if isinstance(called, ast.Call) and called.func is part and not makes:
                    return False
        elif isinstance(part, ast.Call):
            named = isinstance(part.func, ast.Name) or _is_maker(part.func, source, function)
            if not named and not (
                isinstance(part.func, ast.Attribute) and part.func.attr in METHODS
            ):
                return False
        elif isinstance(part, ast.Attribute):
            called = source.file.parents.get(part)
            method_of_value = isinstance(called, ast.Call) and called.func is part
            if not (
                (method_of_value and part.attr in METHODS)
                or _is_maker(part, source, function)
                or isinstance(_member(part, source, function), Const)
            ):
                return False
        elif not isinstance(part, _REPEATABLE):
            return False
    return True


def _is_maker(node: ast.expr, source: Source, function: FunctionType) -> bool:
    """Whether `module.function` makes constants of constants, as `re.compile` does."""
    found = _member(node, source, function)
    return isinstance(found, Known) and any(found.it == maker for maker in MAKERS)


def _member(node: ast.expr, source: Source, function: FunctionType) -> Value | None:
    """What `module.name` or `Class.name` is, if that is constant."""
    match node:
        case ast.Attribute(ast.Name(id=name), attribute):
            try:
                owner = resolve(name, function, source)
                if isinstance(owner, Known):
                    return member_of(owner.it, attribute, source.file)
            except Weaken:
                pass
    return None
