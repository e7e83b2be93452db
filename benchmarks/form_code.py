"""The statements of a form, and the functions that are made of them."""

from __future__ import annotations

import ast
import copy
import linecache
from collections.abc import Mapping, Sequence
from itertools import count
from types import FunctionType
from typing import Any

ANNOTATED = (bool, int, float, str)


def nested(body: list[ast.stmt]) -> list[ast.stmt]:
    """What follows an `if` that returns stands in its `else`."""
    for place, statement in enumerate(body):
        if isinstance(statement, ast.If):
            statement.body = nested(statement.body)
            returns = isinstance(statement.body[-1], ast.Return)
            rest = body[place + 1 :] if returns else []
            statement.orelse = nested([*statement.orelse, *rest])
            if returns:
                return body[: place + 1]
    return body


def folded(body: list[ast.stmt]) -> list[ast.stmt]:
    """`if a: return True` as `return a`, with what is nested and what follows in `elif`."""
    condition = _condition(body)
    return body if condition is None else [ast.Return(condition)]


def _condition(body: Sequence[ast.stmt]) -> ast.expr | None:
    match body:
        case [ast.Return(ast.Constant(True))]:
            return ast.Constant(True)
        case [ast.If(test, then, otherwise)]:
            inner = _condition(then)
            if inner is None:
                return None
            both = test if _is_true(inner) else ast.BoolOp(ast.And(), [test, inner])
            if not otherwise:
                return both
            rest = _condition(otherwise)
            # After `if a: if b: return True`, an `else` is reached by other events than `or`.
            if rest is None or not _is_true(inner):
                return None
            return ast.BoolOp(ast.Or(), [both, rest])
    return None


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


_numbers = count()


def compiled(
    body: list[ast.stmt], kinds: Mapping[str, type], names: Mapping[str, Any], row: bool = False
) -> FunctionType:
    """A function with a source that `inspect` finds."""
    if row:
        lines = ast.unparse(_InRow(kinds).visit(ast.Module(copy.deepcopy(body), [])))
        head = "row"
    else:
        lines = ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))
        head = ", ".join(
            f"{name}: {kind.__name__}" if kind in ANNOTATED else name
            for name, kind in kinds.items()
        )
    text = f"def rule({head}):\n" + "".join(f"    {line}\n" for line in lines.splitlines())
    filename = f"<form {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope = dict(names)
    exec(compile(text, filename, "exec", dont_inherit=True), scope)
    rule = scope["rule"]
    assert isinstance(rule, FunctionType)
    return rule


class _InRow(ast.NodeTransformer):
    def __init__(self, columns: Mapping[str, type]) -> None:
        self._columns = columns

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._columns:
            return node
        return ast.Subscript(ast.Name("row", ast.Load()), ast.Constant(node.id), ast.Load())
