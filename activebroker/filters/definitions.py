"""Which definition of an event class a filter means, where there are several.

A cell of a notebook that is run again, or a module that is loaded again, defines its classes anew:
equal by name, but `isinstance` tells them apart. So a filter is given instances of the class to
which its own code refers.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable

from activebroker.core.errors import EventTypeError, InvalidFilter
from activebroker.events import ANY, EventType
from activebroker.filters.shipping import classes_in


def meant(name: str, code: object, module: str, input_type: EventType) -> EventType:
    """The event type of a channel as the code of a filter of this module knows it: with its own
    class.

    Raises InvalidFilter where the code refers to a class, and the channel's events are made of
    another one of that name.
    """
    if input_type is ANY:
        return input_type
    try:
        classes = _classes(code, module)
    except Exception:  # noqa: BLE001 - it cannot be pickled: `pack` tells that
        return input_type
    same = [type_ for type_ in _event_types(classes) if type_ == input_type]
    if input_type.cls not in classes:  # code that goes by name refers to what its module has now
        input_type = same[-1] if same else input_type.latest()
    parts = {
        _key(each): each
        for each in (
            *_classes(input_type.cls, input_type.cls.__module__),
            *input_type.cls.__mro__,
        )
    }
    for each in classes:
        part = parts.get(_key(each), each)
        if part is not each and "<locals>" not in each.__qualname__:
            raise InvalidFilter(
                f"Filter {name} refers to another {each.__qualname__} than the events of this "
                f"channel, {input_type.name}, are made of: the class was defined anew since, as by "
                "a cell of a notebook that was run again. Run all cells after it again: the one "
                f"that defines {input_type.name}, the one that opens the channel, and the filter's."
            )
    return input_type


def subtypes(code: object, module: str, input_type: EventType) -> list[type]:
    """The classes of more special events to which the code of a filter refers."""
    found = _event_types(_classes(code, module))
    return [each.cls for each in found if each.parent is not None and each.is_a(input_type)]


def is_live(code: Callable[..., object]) -> bool:
    """Whether code refers to what its module has now, and not to copies that came with it."""
    module = sys.modules.get(code.__module__)
    return module is not None and getattr(code, "__globals__", None) is vars(module)


def _classes(code: object, module: str) -> dict[type, None]:
    try:
        return classes_in(code, module)
    except Exception:  # noqa: BLE001 - not all modules are made to be looked into
        return classes_in(code)


def _event_types(classes: Iterable[type]) -> list[EventType]:
    types: list[EventType] = []
    for each in classes:
        if dataclasses.is_dataclass(each):
            try:
                types.append(EventType.of(each))
            except EventTypeError:
                continue  # a dataclass of the filter's own
    return types


def _key(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__
