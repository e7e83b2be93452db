"""What is known about the contents of the events: their schema, and their class."""

from __future__ import annotations

import dataclasses
import typing
from enum import Enum
from functools import lru_cache
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

from predicate_extract.algebra.enums import keeps
from predicate_extract.algebra.predicate import Predicate
from predicate_extract.algebra.terms import Call, Const, Field
from predicate_extract.analysis.choices import choice_of
from predicate_extract.analysis.code import Code, code_of
from predicate_extract.analysis.scope import wrap
from predicate_extract.analysis.values import Choice, Function, Known, Opaque, Value
from predicate_extract.report import Weaken

if TYPE_CHECKING:
    import pyarrow as pa

    from predicate_extract.algebra.schema import Slot

_MOMENT_PARTS = frozenset(
    ("year", "month", "day", "hour", "minute", "second", "microsecond", "days", "seconds")
)


class Content:
    """The contents that a filter will see.

    Without a schema and a class, every attribute and item is taken for plain data. With a schema
    only its fields are; with a class, its properties, methods and constants are known as well.
    """

    def __init__(self, schema: pa.Schema | None, cls: type | None) -> None:
        self.schema = schema
        self.cls = cls

    @property
    def typed(self) -> bool:
        """Whether a content is an object, rather than some data."""
        return self.schema is not None

    def can_raise(self, test: Predicate) -> bool:
        if self.schema is None:
            return True
        from predicate_extract.algebra.schema import can_raise

        return can_raise(test, self.schema)

    def check_item(self, owner: Field) -> None:
        """Refuse to read an item of what is an object.

        Raises: Weaken.
        """
        if self.schema is not None and not owner.path:
            raise Weaken("not-a-field", "the content is an object, and has attributes, not items")

    def member(self, owner: Field, name: str) -> Value | Code:
        """What `owner.name` is: a field, a constant of the class, or code to run.

        Raises: Weaken.
        """
        cls = self.class_of(owner)
        if cls is not None and name not in _field_names(cls):
            found = _class_member(cls, name)
            if found is not None:
                return found
        if self.schema is None:
            return owner.step(name)
        from predicate_extract.algebra.schema import find

        field = owner.step(name)
        slot = find(self.schema, field)
        if slot is not None:
            return self._read(field, slot)
        if name in _MOMENT_PARTS and find(self.schema, owner) is not None:
            return Call(name, (owner,))
        path = ".".join(map(str, (*owner.path, name)))
        raise Weaken("not-a-field", f"{path} is not a plain field of the schema")

    def _read(self, field: Field, slot: Slot) -> Value:
        """A field's value, as something that behaves as it does."""
        cls, owner = self.class_of(field), self.class_of(Field(field.path[:-1]))
        if owner is not None and _is_computed(owner, str(field.path[-1])):
            raise Weaken("call", f"reading {field} runs code of {owner.__name__}")
        if slot.member_of is not None and cls is not None and issubclass(cls, Enum):
            return choice_of(field, cls, slot.nullable)
        return field if slot.plain else Opaque(field, "what its column holds in another form")

    def method(self, owner: Field, name: str) -> Function | None:
        """The method that `owner.name()` calls, if the class is known and has one."""
        cls = self.class_of(owner)
        member = None if cls is None else _static(cls, name)
        match member:
            case FunctionType():
                return Function(code_of(member), (owner,))
            case staticmethod():
                return Function(code_of(member.__func__))  # type: ignore[arg-type]
        return None

    def surely_is(self, field: Field, cls: object) -> bool:
        """Whether a field's values that are not None surely are instances of a class."""
        own = self.class_of(field)
        ours = own is not None and dataclasses.is_dataclass(own)
        return self.typed and ours and isinstance(cls, type) and issubclass(own, cls)  # type: ignore

    def class_of(self, field: Field) -> type | None:
        """The class of a field's values, as far as annotations tell."""
        cls: Any = self.cls
        for name in field.path if not field.keyed else ():
            if cls is None or not isinstance(name, str):
                return None
            cls = _hints(cls).get(name)
        return cls if not field.keyed and isinstance(cls, type) else None


def _is_computed(cls: type, name: str) -> bool:
    """Whether reading an attribute runs code of the class, though it is a field."""
    kind = type(_in_class(cls, name))
    computed = hasattr(kind, "__set__") and kind is not MemberDescriptorType
    return computed or _in_class(cls, "__getattribute__") is not object.__getattribute__


def _in_class(cls: type, name: str) -> object:
    """What the first class that has the name has by it; None if none does."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def of_choice(choice: Choice, name: str) -> Value:
    """The name or value of an enum's member, for each.

    Raises: Weaken.
    """
    rows: list[tuple[Const, Value]] = []
    for key, row in choice.rows:
        if not isinstance(row, Known) or name not in ("name", "value"):
            raise Weaken("unsupported", f"the attribute {name} is not analysed here")
        if not keeps(type(row.it), name):
            raise Weaken("call", f"{name} runs code of {type(row.it).__name__}")
        rows.append((key, wrap(getattr(row.it, f"_{name}_"))))
    return Choice(choice.field, tuple(rows))


@lru_cache(maxsize=1024)
def _field_names(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else ()


@lru_cache(maxsize=1024)
def _hints(cls: type) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(cls)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return {}
    return {name: _without_none(hint) for name, hint in hints.items()}


def _without_none(hint: Any) -> Any:
    rest = [arg for arg in typing.get_args(hint) if arg is not type(None)]
    return rest[0] if len(rest) == 1 and len(typing.get_args(hint)) == 2 else hint


def _static(cls: type, name: str) -> object | None:
    """The member of a user's class, looked up without running anything; None if overridden."""
    if not dataclasses.is_dataclass(cls) or _overridden(cls, name):
        return None
    *parents, _ = cls.__mro__
    hooks = ("__getattr__", "__getattribute__")
    if any(hook in vars(parent) for parent in parents for hook in hooks):
        return None
    return next((vars(parent)[name] for parent in parents if name in vars(parent)), None)


def _overridden(cls: type, name: str) -> bool:
    children: list[type] = cls.__subclasses__()
    return any(name in vars(child) or _overridden(child, name) for child in children)


def _class_member(cls: type, name: str) -> Value | Code | None:
    member = _static(cls, name)
    match member:
        case None:
            return None
        case property(fget=FunctionType() as getter):
            return code_of(getter)
        case FunctionType() | staticmethod() | classmethod():
            return None
    if hasattr(type(member), "__get__"):
        raise Weaken("call", f"{cls.__name__}.{name} runs code of the class")
    return wrap(member)
