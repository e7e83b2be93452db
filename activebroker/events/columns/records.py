"""A dataclass as a list of named kinds: the codec of typed events and of nested dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import pyarrow as pa

from activebroker.core.errors import shortened, suggestion
from activebroker.events.columns.generated import builder, getter, record_tester
from activebroker.events.columns.kinds import Kind, Misfit, shown, sketch

_MISSING = object()


class Record:
    """How the objects of one dataclass are checked, stored in columns and built again."""

    def __init__(self, cls: type, fields: dict[str, Kind]) -> None:
        self.cls = cls
        self.fields = fields
        self.schema = pa.schema([kind.field(name) for name, kind in fields.items()])
        described = ", ".join(f"{name}: {kind.signature}" for name, kind in fields.items())
        self.signature = f"{cls.__name__}{{{described}}}"
        self.fits = record_tester(cls, fields)
        self.columns = getter(list(fields))
        self.build = builder(cls, list(fields))
        natives = [kind.native for kind in fields.values()]
        self.natives = None if None in natives else natives

    def fit(self, value: Any) -> Any:
        """Return an object whose fields all fit: the value itself, or one converted or built.

        A mapping is taken as the constructor's arguments. Raises `Misfit`.
        """
        if isinstance(value, Mapping) and not isinstance(value, self.cls):
            return self._from_mapping(value)
        if value.__class__ is not self.cls and not self._is_copy(value.__class__):
            raise Misfit.of(self.cls.__name__, value, self._other(value.__class__))
        changed = value.__class__ is not self.cls
        values = []
        for name in self.fields:
            given = getattr(value, name, _MISSING)
            values.append(self._fit_field(name, given))
            changed = changed or values[-1] is not given
        return self.build(1, *([v] for v in values))[0] if changed else value

    def encode(self, objects: list[Any]) -> list[pa.Array]:
        """One array a field, from objects that fit."""
        kinds = self.fields.values()
        return [k.encode(v) for k, v in zip(kinds, self.columns(objects), strict=True)]

    def decode(self, columns: list[pa.Array], rows: int) -> list[Any]:
        """Build the objects that `encode` stored."""
        kinds = self.fields.values()
        return self.build(rows, *(k.decode(c) for k, c in zip(kinds, columns, strict=True)))

    @cached_property
    def defaults(self) -> dict[str, pa.Array]:
        """By field that has one, its default, as a column of one row. What a factory makes is made
        once."""
        found = {}
        for field in dataclasses.fields(self.cls):
            factory, kind = field.default_factory, self.fields[field.name]
            if factory is dataclasses.MISSING and field.default is dataclasses.MISSING:
                continue
            with suppress(Exception):  # of a factory; and a default may not fit, such as None
                value = field.default if factory is dataclasses.MISSING else factory()
                found[field.name] = kind.encode([kind.fit(value)])
        return found

    def sketch(self, columns: list[pa.Array]) -> str:
        """What shows of the first row, which cannot be decoded."""
        values = ", ".join(
            f"{name}={_stored(column)}" for name, column in zip(self.fields, columns, strict=True)
        )
        return f"{self.cls.__name__}({values})"

    def conform(self, columns: Mapping[str, pa.Array]) -> list[pa.Array]:
        """Bring columns from elsewhere into this record's order and types; raise `Misfit`."""
        for name in columns:
            if name not in self.fields:
                raise self._unexpected(name, f"a column of {columns[name].type}")
        arrays = []
        for name, kind in self.fields.items():
            if name not in columns:
                raise Misfit(f"a column of {kind.expected}", "none", path=f".{name}")
            try:
                arrays.append(kind.conform(columns[name]))
            except Misfit as misfit:
                raise misfit.under(f".{name}") from None
            except pa.ArrowException as error:  # it cannot convert everything into everything
                why = shortened(str(error), 400)
                raise Misfit.column(kind, columns[name], why).under(f".{name}") from error
        return arrays

    def _fit_field(self, name: str, value: Any) -> Any:
        kind = self.fields[name]
        if value is _MISSING:
            raise Misfit(kind.expected, "nothing", path=f".{name}")
        try:
            return kind.fit(value)
        except Misfit as misfit:
            raise misfit.under(f".{name}") from None

    def _from_mapping(self, mapping: Mapping[str, Any]) -> Any:
        parameters = {field.name: field for field in dataclasses.fields(self.cls) if field.init}
        for name in mapping:
            if name not in parameters:
                raise self._unexpected(str(name), shown(mapping[name]))
        arguments = {}
        for name, field in parameters.items():
            if name in mapping or (
                field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING
            ):
                arguments[name] = self._fit_field(name, mapping.get(name, _MISSING))
        return self.fit(self.cls(**arguments))

    def _unexpected(self, name: str, got: str) -> Misfit:
        expected = f"a field of {self.cls.__name__}"
        return Misfit(expected, got, f"no such field.{suggestion(name, self.fields)}", f".{name}")

    def _other(self, cls: type) -> str:
        """What to say of a class that only bears the same name, as one that was defined anew."""
        if cls.__name__ != self.cls.__name__:
            return ""
        names = ", ".join(self.fields)
        return f"another class of this name; that of the channel has the fields {names}"

    def _is_copy(self, cls: type) -> bool:
        """Whether it is this class as another process has it; the values are checked anyway."""
        return (
            dataclasses.is_dataclass(cls)
            and cls.__name__ == self.cls.__name__
            and [field.name for field in dataclasses.fields(cls)] == list(self.fields)
        )


def _stored(column: pa.Array) -> str:
    try:
        return sketch(column[0].as_py())
    except (ValueError, OverflowError):  # such as a day that the calendar lacks
        return "".join(str(column).split())
