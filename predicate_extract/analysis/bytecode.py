"""Functions read back from their bytecode, where no source can be trusted.

`decompile` guesses a tree. It is compiled again, and handed out only if that gives the same code:
the same instructions, constants, names, variables and flags, in the functions inside as well.
Whatever the guess gets wrong, or does not know, compares unequal, and then there is no tree. So the
guess is free, and is never trusted; the comparison, `_essence`, is all that must be complete.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
from collections.abc import Hashable
from functools import lru_cache
from types import CodeType, FunctionType

from predicate_extract.analysis.decompile import FAILED, guesses

_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag


def reconstructed(function: FunctionType) -> ast.FunctionDef | ast.Lambda | None:
    """A tree that surely compiles to the function's code, as does the text that `ast.unparse` makes
    of it; None if none is found.

    Annotations and decorators are gone. A default value shows as a call, `default()`, for nothing
    is known of the expression that gave it.
    """
    if getattr(function, "__builtins__", None) is not vars(builtins):
        return None  # its built-in names may stand for anything
    code = function.__code__
    count = min(len(function.__defaults__ or ()), code.co_argcount)
    return _reconstructed(code, count, frozenset(function.__kwdefaults__ or ()))


@lru_cache(maxsize=256)
def _reconstructed(
    code: CodeType, defaults: int, named: frozenset[str]
) -> ast.FunctionDef | ast.Lambda | None:
    if _has_private_names(code):
        return None  # the class's other methods may show them as they were written
    try:
        tree = next((tree for tree in guesses(code) if _is_proven(tree, code)), None)
    except FAILED:
        return None
    if tree is not None:
        default = ast.Call(ast.Name("default", ast.Load()), [], [])
        tree.args.defaults = [default] * defaults
        tree.args.kw_defaults = [default if a.arg in named else None for a in tree.args.kwonlyargs]
    return tree


def _has_private_names(code: CodeType) -> bool:
    """Whether there is a name like `_Class__name`, which was written `__name`."""
    inside = (const for const in code.co_consts if isinstance(const, CodeType))
    private = (name[:1] == "_" != name[1:2] and "__" in name for name in code.co_names)
    return any(private) or any(map(_has_private_names, inside))


def _is_proven(tree: ast.FunctionDef | ast.Lambda, code: CodeType) -> bool:
    """Whether the tree, in scopes like those it stood in, compiles to this code."""
    statement: ast.stmt = ast.Expr(tree) if isinstance(tree, ast.Lambda) else tree
    (again,) = ast.parse(ast.unparse(statement)).body
    if ast.dump(again) != ast.dump(statement):
        return False
    scopes = []
    if "__class__" in code.co_freevars:
        scopes.append("class _: pass")  # a name that mangles no other one
    if code.co_flags & inspect.CO_NESTED:
        cells = ", ".join(name for name in code.co_freevars if name != "__class__")
        scopes.append(f"def _({cells}): pass")
    for scope in scopes:
        (outer,) = ast.parse(scope).body
        outer.body = [statement]  # type: ignore[attr-defined]
        statement = outer
    module = ast.fix_missing_locations(ast.Module([statement], type_ignores=[]))
    found = compile(module, "", "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)
    for _ in ("module", *scopes):
        (found,) = (const for const in found.co_consts if isinstance(const, CodeType))
    return _essence(found) == _essence(code)


def _essence(constant: object) -> Hashable:
    """All of a constant, or of a code object, that has to do with what it does. It tells 1 from
    True, and a variable from a cell; places in files have no part in it."""
    match constant:
        case CodeType() as code:
            return (
                *(code.co_code, code.co_exceptiontable, code.co_flags, code.co_name),
                *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
                *(code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars),
                _essence(code.co_consts),
            )
        case tuple():
            return tuple, tuple(map(_essence, constant))
        case frozenset():
            return frozenset, frozenset(map(_essence, constant))
    return type(constant), repr(constant)
