"""The terms of a predicate, over the columns of a schema."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from predicate_extract.algebra.constants import Plain, is_plain
from predicate_extract.algebra.schema import family, find
from predicate_extract.algebra.terms import Call, Const, Field, Key, Term
from predicate_extract.backends.sql.functions import applied, over
from predicate_extract.backends.sql.literals import literal
from predicate_extract.backends.sql.logic import FALSE, Test, any_of
from predicate_extract.backends.sql.tables import looked_up
from predicate_extract.backends.sql.texts import split_part
from predicate_extract.backends.sql.values import Value, binary, call, constant, is_null
from predicate_extract.backends.truth import Unfaithful

_ITEMS = ("integer", "float", "str", "date", "naive")
_FAR = 2**30  # an index that no list has


class Terms:
    """Writes the terms over the rows of one schema.

    Where texts may be `collated`, they are compared without their column's collation.
    """

    def __init__(self, schema: pa.Schema, *, collated: bool = False) -> None:
        self._schema = schema
        self._collated = collated

    def value(self, term: Term) -> Value:
        """The value of a term.

        Raises: Unfaithful.
        """
        match term:
            case Field(keyed=[*inner, True]) if not any(inner):
                return self._item(self.value(Field(term.path[:-1])), term.path[-1])
            case Field():
                return self._field(term)
            case Const(value):
                return constant(value)
            case Call("item", (Call("split", (of, Const(str() as part))), Const(int() as place))):
                text = self.value(of)
                return over([text], split_part(text, part, place))
            case Call("get", (Call("dict", table), key, Const() as other)) if key.fields():
                return looked_up(table, self.value(key), other)
            case Call("item", (Call("dict", table), key)) if key.fields():
                return looked_up(table, self.value(key))
            case Call(function, args) if term.fields():
                return applied(function, [self.value(arg) for arg in args])
            case Call():
                return constant(_computed(term))
        raise Unfaithful

    def _field(self, field: Field) -> Value:
        slot = find(self._schema, field)
        if slot is None:
            raise Unfaithful
        if pa.types.is_dictionary(slot.type):
            slot = replace(slot, type=slot.type.value_type)
        sql = self._column(field.path)
        null = is_null(sql)
        if self._collated and slot.family in ("str", "member"):
            sql = exp.cast(sql, "VARCHAR")
        missing = FALSE
        if not slot.reachable:
            ways = (field.path[:depth] for depth in range(1, len(field.path)))
            missing = any_of(is_null(self._column(way)) for way in ways)
        value = Value(
            sql,
            slot.family or ("list" if slot.plain and pa.types.is_list(slot.type) else None),
            nulls=(null,) if slot.nullable or not slot.reachable else (),
            none=null & ~missing if slot.nullable else FALSE,
            raised=missing,
            slot=slot,
        )
        return _typed(value, slot.type)

    def _item(self, of: Value, place: Key) -> Value:
        """An item of a list, or a letter of a text."""
        if not isinstance(place, int):
            raise Unfaithful
        if of.family != "list" or of.slot is None:
            return applied("item", [of, constant(place)])
        type = of.slot.type.value_type
        kind = family(type)
        if kind not in _ITEMS or abs(place) >= _FAR:
            raise Unfaithful
        sql = call("LIST_EXTRACT", of.sql, literal(place + 1 if place >= 0 else place))
        null = is_null(sql)
        if self._collated and kind == "str":
            sql = exp.cast(sql, "VARCHAR")
        least = literal(place + 1 if place >= 0 else -place)
        beyond = Test.of(binary(exp.LT, call("LEN", of.sql), least), of.nulls)
        raised = of.absent | beyond
        found = Value(sql, kind, (null,), null & ~raised, raised, of.sure)
        return _typed(found, type)

    def _column(self, path: tuple[Key, ...]) -> exp.Expr:
        level: pa.Schema | pa.StructType = self._schema
        sql: exp.Expr | None = None
        for key in path:
            name = str(key)
            # In SQL, `a` and `A` are one name.
            if [other.casefold() for other in level.names].count(name.casefold()) != 1:
                raise Unfaithful
            if sql is None:
                sql = exp.column(exp.to_identifier(name))
            else:
                sql = exp.Bracket(this=sql, expressions=[literal(name)])
            level = level.field(name).type
        assert sql is not None, "a field that is found has a path"
        return sql


def _typed(value: Value, type: pa.DataType) -> Value:
    """The value, as one of a column of this type."""
    types = pa.types
    if types.is_boolean(type):
        return replace(value, sql_type="BOOLEAN", high=1)
    if types.is_signed_integer(type):
        limit = 2 ** (type.bit_width - 1)
        name = "BIGINT" if type.bit_width == 64 else ""
        return replace(value, sql_type=name, low=-limit, high=limit - 1)
    if types.is_unsigned_integer(type):
        return replace(value, high=2**type.bit_width - 1)
    if types.is_float64(type):
        return replace(value, nan=True)
    if types.is_float32(type):
        return replace(value, sql=exp.cast(value.sql, "DOUBLE"), nan=True)
    if types.is_floating(type):
        raise Unfaithful
    if types.is_decimal(type) and type.scale >= 0:
        return replace(value, digits=type.precision, scale=type.scale)
    return value


def _computed(term: Term) -> Plain:
    """The value of a term without fields."""
    try:
        value = term.compute(lambda field: None)
    except Exception as error:  # it always raises, and each row is the filter's
        raise Unfaithful from error
    if not is_plain(value):
        raise Unfaithful
    return value  # type: ignore[return-value]
