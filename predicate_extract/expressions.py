"""What an expression stands for, at one point on a path.

A value is the event, a field of its content, a constant, a collection of constants, or a condition.
Everything else raises `Weaken`: only what is listed here is free of effects and fully understood.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING

from predicate_extract.algebra import checked, choice, conjunction, disjunction, negation
from predicate_extract.constants import Const, Plain, is_plain
from predicate_extract.describe import describe
from predicate_extract.instance import FilterInstance
from predicate_extract.predicate import (
    COMPARISONS,
    FALSE,
    MIRRORED,
    TRUE,
    Compare,
    Defined,
    Field,
    In,
    IsNull,
    Predicate,
    Truthy,
)
from predicate_extract.report import Weaken
from predicate_extract.scope import Container, container, resolve
from predicate_extract.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

_COMPARE = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_ARITHMETIC: dict[type[ast.operator], Callable[..., object]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


class Symbol(enum.Enum):
    """What a name can stand for besides a field, a constant or a condition."""

    EVENT = enum.auto()
    SELF = enum.auto()


Value = Symbol | Field | Const | Container | Predicate
Env = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Routine:
    """A function under analysis; `owner` is the class whose `super()` it uses."""

    function: FunctionType
    source: Source
    owner: type | None

    @property
    def body(self) -> tuple[ast.stmt, ...]:
        node = self.source.node
        if isinstance(node, ast.Lambda):
            # Located as the body is, for the reports.
            return (ast.copy_location(ast.Return(node.body), node.body),)
        return tuple(node.body)


class Expressions:
    """The expressions of a routine, where its local names stand for what `env` says."""

    def __init__(
        self,
        routine: Routine,
        env: Env,
        instance: FilterInstance | None,
        schema: pa.Schema | None,
    ) -> None:
        self._routine = routine
        self._env = env
        self._instance = instance
        self._schema = schema

    def condition(self, test: ast.expr) -> Predicate:
        """The test as a predicate.

        Raises: Weaken, if it is not understood for certain.
        """
        match test:
            case ast.BoolOp(op, values):
                parts = [self.condition(value) for value in values]
                return (conjunction if isinstance(op, ast.And) else disjunction)(*parts)
            case ast.UnaryOp(ast.Not(), operand):
                return negation(self.condition(operand))
            case ast.IfExp(question, yes, no):
                return choice(
                    self.condition(question),
                    self.condition(yes),
                    self.condition(no),
                )
            case ast.Compare(left, ops, comparators):
                operands = [left, *comparators]
                return conjunction(
                    *(
                        self._comparison(one, op, two, test)
                        for one, op, two in zip(operands, ops, comparators, strict=False)
                    )
                )
        value = self.value(test)
        match value:
            case Predicate():
                return value
            case Const():
                return TRUE if value.value else FALSE
            case Container(members):
                return TRUE if members else FALSE
            case Field(path) if path or self._schema is None:
                return Truthy(value)
        raise Weaken(
            "unsupported", "the truth of this object is not a condition on a field", node=test
        )

    def _comparison(
        self, left: ast.expr, op: ast.cmpop, right: ast.expr, whole: ast.expr
    ) -> Predicate:
        one, two = self.value(left), self.value(right)
        match op, one, two:
            case ((ast.Is() | ast.IsNot()), Field(()), Const(None)) if self._schema is not None:
                return TRUE if isinstance(op, ast.IsNot) else FALSE
            case ((ast.Is() | ast.IsNot()), Field(), Const(None)):
                test: Predicate = IsNull(one)
                return test if isinstance(op, ast.Is) else negation(test)
            case ((ast.Is() | ast.IsNot()), Const(value), Const(None)):
                return TRUE if (value is None) == isinstance(op, ast.Is) else FALSE
            case ((ast.In() | ast.NotIn()), Field(path), Container(constants, hashed)) if (
                path or self._schema is None
            ):
                test = In(one, constants, hashed)
                return test if isinstance(op, ast.In) else negation(test)
            case ((ast.In() | ast.NotIn()), Const(value), Container(values)):
                inside = any(value == other.value for other in values)
                return TRUE if inside == isinstance(op, ast.In) else FALSE
            case _ if type(op) in _COMPARE:
                return self._ordered(_COMPARE[type(op)], one, two, whole)
        raise Weaken(
            "unsupported", "this comparison is not one of a field with constants", node=whole
        )

    def _ordered(self, op: str, one: Value, two: Value, whole: ast.expr) -> Predicate:
        match one, two:
            case Const(left), Const(right):
                try:
                    return TRUE if COMPARISONS[op](left, right) else FALSE
                except (TypeError, ArithmeticError) as error:
                    raise Weaken("raises", f"this comparison fails: {error}", node=whole) from error
            case ((Field() | Const()), (Field() | Const())):
                paths = [side.path for side in (one, two) if isinstance(side, Field)]
                if all(paths) or self._schema is None:
                    # A constant on the left asks the field's value all the same.
                    if isinstance(one, Const):
                        return Compare(MIRRORED[op], two, one)
                    return Compare(op, one, two)
        raise Weaken(
            "unsupported", "this comparison is not one of a field with constants", node=whole
        )

    # -- values --------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """What an expression stands for.

        Raises: Weaken, if it is not understood for certain.
        """
        match node:
            case ast.Constant(value) if is_plain(value):
                return Const(value)  # type: ignore[arg-type]
            case ast.Name(id=name):
                return self._name(name, node)
            case ast.Attribute(value, name):
                return self._attribute(self.value(value), name, node)
            case ast.Subscript(value, ast.Constant(str() as key)):
                whole = self.value(value)
                if isinstance(whole, Field):
                    return whole.step(key, keyed=True)
            case ast.Tuple(items) | ast.List(items) | ast.Set(items):
                values = [self.value(item) for item in items]
                constants: list[Plain] = [v.value for v in values if isinstance(v, Const)]
                if len(constants) == len(values):
                    found = container(constants, isinstance(node, ast.Set))
                    if found is not None:
                        return found
            case ast.UnaryOp(ast.USub() | ast.UAdd() as sign, operand):
                number = self.value(operand)
                if isinstance(number, Const) and type(number.value) in (int, float):
                    negative = isinstance(sign, ast.USub)
                    return Const(-number.value) if negative else number  # type: ignore[operator]
            case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC:
                return self._arithmetic(node, self.value(left), self.value(right))
            case ast.Compare() | ast.UnaryOp(ast.Not()):
                return self.condition(node)
            case ast.BoolOp(_, values) if all(map(_is_boolean, values)):
                return self.condition(node)
        raise Weaken(*describe(node), node=node)

    def _name(self, name: str, node: ast.AST) -> Value:
        for known, value in self._env:
            if known == name:
                return value
        code = self._routine.function.__code__
        if name in code.co_varnames or name in code.co_cellvars:
            raise Weaken("unknown-name", f"{name} has no known value here", node=node)
        _refuse_private(name, node)
        try:
            return resolve(name, self._routine.function, self._routine.source)
        except Weaken as weaken:
            weaken.node = node
            raise

    def _attribute(self, owner: Value, name: str, node: ast.AST) -> Value:
        _refuse_private(name, node)
        match owner:
            case Symbol.EVENT if name == "content":
                return Field(())
            case Symbol.EVENT:
                raise Weaken("header", f"event.{name} is not part of the content", node=node)
            case Symbol.SELF if self._instance is not None:
                try:
                    return self._instance.constant(name)
                except Weaken as weaken:
                    weaken.node = node
                    raise
            case Field():
                field = owner.step(name)
                if self._schema is not None and not field.keyed:
                    self._check_field(field, node)
                return field
        raise Weaken("unsupported", f"the attribute {name} is not one of the content", node=node)

    def _check_field(self, field: Field, node: ast.AST) -> None:
        from predicate_extract.schema import find

        if find(self._schema, field) is None:
            raise Weaken(
                "not-a-field",
                f"{'.'.join(field.path)} is not a plain field of the schema",
                node=node,
            )

    def _arithmetic(self, node: ast.BinOp, one: Value, two: Value) -> Const:
        match one, two:
            case Const(left), Const(right) if {type(left), type(right)} <= {int, float}:
                try:
                    result = _ARITHMETIC[type(node.op)](left, right)
                except ArithmeticError as error:
                    raise Weaken("raises", f"this fails: {error}", node=node) from error
                if is_plain(result):
                    return Const(result)  # type: ignore[arg-type]
        raise Weaken("arithmetic", "arithmetic on fields is not analysed", node=node)

    def checks(self, value: Value) -> list[Predicate]:
        """What a value's computation itself may raise."""
        match value:
            case Field(path) if path:
                readable: Predicate = Defined(value)
            case Predicate():
                readable = checked(value)
            case _:
                return []
        if self._schema is not None:
            from predicate_extract.schema import can_raise

            if not can_raise(readable, self._schema):
                return []
        return [readable]


def _refuse_private(name: str, node: ast.AST) -> None:
    if name.startswith("__"):
        raise Weaken("private-name", f"{name} is a private or special name", node=node)


def _is_boolean(node: ast.expr) -> bool:
    if isinstance(node, ast.BoolOp):
        return all(map(_is_boolean, node.values))
    return isinstance(node, ast.Compare) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )
