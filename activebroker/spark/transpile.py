"""Plain Python UDFs as conditions of Spark's own, by the analysis of filters.

Spark 4.3 has a place for it: it asks transpilers, which get a UDF's syntax tree, for a column over
`_udf_param_0`, `_udf_param_1`, …. Of a parameter is known only whether it is a text, a number, a
truth value or bytes.
"""

from __future__ import annotations

import ast
import copy
import linecache
import math
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from activebroker.core.errors import MissingExtra
from activebroker.spark.session import require_extra
from predicate_extract import Call, Compare, Const, Field, In, Predicate, Term, extract
from predicate_extract.algebra.constants import Plain

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

NAME = "activebroker"
"""Of the transpiler, in `spark.sql.experimental.optimizer.pyTranspilers`."""

_CONF = "spark.sql.experimental.optimizer"
_TYPES = {
    "string": pa.string(),
    "numeric": pa.float64(),
    "bool": pa.bool_(),
    "binary": pa.binary(),
}
_EXACT = 2**53  # smaller numbers compare alike with integers and floats
_TESTS = frozenset(
    ("startswith", "endswith", "isdigit", "isalpha", "isalnum", "isspace", "isupper", "islower")
)
_numbers = count()


def transpile_udfs(session: SparkSession) -> None:
    """Let plain Python UDFs that return truth values run without Python in this session.

    Those are transpiled that surely give the same, whatever NaN and null do in them, and read
    nothing but their arguments. The others run as before, and Spark warns of each. Spark's own
    transpiler, to which NaN is larger than all numbers, is not asked.

    Raises MissingExtra, if this PySpark has no transpilers.
    """
    require_extra()
    try:
        from pyspark.sql.transpile import AbstractTranspiler
    except ImportError as error:
        raise MissingExtra("Transpiling UDFs needs PySpark 4.3 or newer.") from error

    class Transpiler(AbstractTranspiler):  # type: ignore[misc]
        variety = NAME

        def _transpile_from_ast(
            self,
            src: str | None,
            ast_info: ast.AST,
            function_ast: ast.FunctionDef,
            params: list[str],
            returnType: Any,
            param_categories: dict[int, str] | None = None,
        ) -> Column | None:
            if returnType != "boolean" and getattr(returnType, "typeName", str)() != "boolean":
                return None
            return _column(function_ast, params, param_categories or {})

    Transpiler.register()
    session.conf.set(f"{_CONF}.pyTranspilers", NAME)
    session.conf.set(f"{_CONF}.transpilePyUDFs", "true")


def _column(function: ast.FunctionDef, params: list[str], kinds: dict[int, str]) -> Column | None:
    """The UDF's result; None if it is not sure to be that of Python."""
    from pyspark.sql import functions as f

    from predicate_extract.backends.sql import where

    if len(function.args.args) != len(params) or not _only_truth(function.body):
        return None
    if not _names(function) <= {*params, *_names(function, ast.Store)}:
        return None
    schema = pa.schema(
        [(f"_udf_param_{n}", _TYPES[kinds.get(n, "numeric")]) for n in range(len(params))]
    )
    found = extract(_rule(function, schema.names), schema=schema)
    numbers = {each.name for each in schema if each.type == pa.float64()}
    sql = where(found.predicate, schema, "spark")
    told = found.raises or sql.raised is None
    if not (found.exact and sql.exact and told and _simple(found.predicate, numbers)):
        return None
    result = f.lit(True) if sql.keep is None else f.coalesce(f.expr(sql.keep), f.lit(False))
    if sql.raised is not None:
        error = f.raise_error(f.lit(f"The Python function {function.name} raises on this row"))
        result = f.when(f.expr(sql.raised), error.cast("boolean")).otherwise(result)
    return result.cast("boolean")


def _rule(function: ast.FunctionDef, names: list[str]) -> Any:
    """The function of a row with these fields, from a file that only `linecache` knows."""
    bare = copy.deepcopy(function)
    bare.name, bare.decorator_list, bare.returns = "_udf", [], None
    for each in bare.args.args:
        each.annotation = None
    called = ", ".join(f"row.{name}" for name in names)
    text = f"{ast.unparse(bare)}\n\ndef rule(row):\n    return _udf({called})\n"
    filename = f"<udf {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": filename}
    exec(compile(text, filename, "exec", dont_inherit=True), namespace)
    return namespace["rule"]


def _names(function: ast.FunctionDef, of: type[ast.expr_context] = ast.Load) -> set[str]:
    return {
        node.id
        for statement in function.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, of)
    }


def _only_truth(body: list[ast.stmt]) -> bool:
    """Whether it returns a truth value, however it runs; of another value, or of none, a UDF makes
    a null."""
    returned = [node for each in body for node in ast.walk(each) if isinstance(node, ast.Return)]
    return _ends(body) and all(_is_truth(node.value) for node in returned)


def _ends(body: list[ast.stmt]) -> bool:
    match body[-1]:
        case ast.Return() | ast.Raise():
            return True
        case ast.If(body=then, orelse=[*other]) if other:
            return _ends(then) and _ends(other)
    return False


def _is_truth(node: ast.expr | None) -> bool:
    match node:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=bool()):
            return True
        case ast.BoolOp(values=values):
            return all(map(_is_truth, values))
        case ast.IfExp(body=then, orelse=other):
            return _is_truth(then) and _is_truth(other)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _TESTS
    return False


def _simple(predicate: Predicate, numbers: set[str]) -> bool:
    """Whether it means the same of integers as of floats: they are compared with small constants
    only."""
    for part in _parts(predicate):
        constants: tuple[Term, ...] = part.values if isinstance(part, In) else ()
        if isinstance(part, Compare):
            constants = (part.left, part.right)
        if not numbers.isdisjoint(str(field.path[0]) for field in part.fields()):
            if isinstance(part, Call):
                return False
            if isinstance(part, Compare) and not any(isinstance(c, Const) for c in constants):
                return False
        if not all(_is_small(each.value) for each in constants if isinstance(each, Const)):
            return False
    return True


def _is_small(value: Plain) -> bool:
    return not isinstance(value, int | float) or abs(value) < _EXACT or abs(value) == math.inf


def _parts(term: Term) -> Iterator[Term]:
    yield term
    if not isinstance(term, Field):
        for part in term.operands():
            yield from _parts(part)
