"""The keys and the times of events, as a keyed filter's class names them; and whether it can."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

from activebroker.core.errors import (
    ActiveBrokerError,
    EventRefused,
    InvalidFilter,
    UnknownField,
    suggestion,
)
from activebroker.events import ANY, Event, EventType
from activebroker.events.columns.kinds import Kind
from activebroker.events.columns.records import Record
from activebroker.filters.filter import FIFOFilter
from activebroker.filters.keyed import KeyedFilter

_FIXED = ("key", "time", "lateness", "ttl", "max_keys")  # the class alone says these


class Lost(NamedTuple):
    """An event without a key or a time, and how many with both come before it."""

    place: int
    event: Event
    error: BaseException


class Read(NamedTuple):
    """Events with their keys and their times; no times, where no clock matters."""

    events: list[Event]
    keys: list[Hashable]
    times: list[Any]
    lost: list[Lost]

    def until(self, first: Lost) -> Read:
        """Those before one that is lost, and that one."""
        end = first.place
        return Read(self.events[:end], self.keys[:end], self.times[:end], [first])


def key_fields(cls: type[KeyedFilter]) -> tuple[str, ...] | None:
    """The fields that make the key; None if a method does."""
    if callable(cls.key):
        return None
    return (cls.key,) if isinstance(cls.key, str) else tuple(cls.key)


def normal(key: Any) -> Any:
    """The key itself, with one NaN for all: NaNs are unequal to each other, and would each be a key
    of its own."""
    if key.__class__ is tuple:
        return tuple(map(normal, key)) if any(each != each for each in key) else key
    return key if key == key else math.nan


def in_utc(time: Any) -> Any:
    """A moment in UTC: two of another time zone compare by what its clocks show, which may be the
    same hour twice."""
    return time.astimezone(UTC) if isinstance(time, datetime) and time.tzinfo is not None else time


class Keys:
    """What the events of a type have for keys and times. `make` makes an instance of `cls`, whose
    method `key` is called where it has one."""

    def __init__(
        self, cls: type[KeyedFilter], type: EventType, make: Callable[[], KeyedFilter]
    ) -> None:
        self._cls = cls
        self._make = make
        self._prototype: KeyedFilter | None = None
        self._timed = cls.moves_clock()
        self._sort: object = None  # of times: the first one decides, where the type does not
        fields = key_fields(cls)
        known = type.codec.fields if isinstance(type.codec, Record) else None
        self._kinds = [known[name] for name in fields] if known and fields else []
        self._float_keys = any(map(_is_float, self._kinds))
        self._get_key = _getter(cls.key) if fields else None
        name = cls.time
        self._get_time = attrgetter("time" if name is None else f"content.{name}")
        kind = known[name] if known and name else None
        # Whether nothing can go wrong with them; or only a missing value, a NaN.
        self._sure = bool(self._kinds) and (not self._timed or name is None or kind is not None)
        self._zoned = kind is not None and getattr(kind.arrow, "tz", None) not in (None, "UTC")
        self._gaps = kind is not None and (kind.nullable or _is_float(kind))

    def read(self, events: list[Event]) -> Read:
        """The events that have a key and a time, and what is wrong with the others."""
        if self._sure and self._get_key is not None:
            keys = list(map(self._get_key, events))
            if self._float_keys:
                keys = list(map(normal, keys))
            times = list(map(self._get_time, events)) if self._timed else []
            if not self._gaps or all(time is not None and time == time for time in times):
                return Read(events, keys, list(map(in_utc, times)) if self._zoned else times, [])
        good: list[Event] = []
        keys, times = [], []
        lost: list[Lost] = []
        for event in events:
            try:
                key = self._key_of(event)
                time = self._time_of(event) if self._timed else None
            except BaseException as error:  # noqa: BLE001 - user code
                lost.append(Lost(len(good), event, error))
            else:
                good.append(event)
                keys.append(key)
                times.append(time)
        return Read(good, keys, times if self._timed else [], lost)

    def anew(self) -> None:
        """The filter has other parameters."""
        self._prototype = None

    def plain(self, keys: Iterable[Hashable]) -> list[Any]:
        """Keys as plain data: members of enums, which may be another class elsewhere, as names."""
        return self._each(keys, lambda kind, values: kind.encode(values).to_pylist())

    def meant(self, plain: Iterable[Any]) -> list[Hashable]:
        """The keys of which `plain` has made plain data."""
        keys = self._each(plain, lambda kind, values: kind.decode(pa.array(values, kind.arrow)))
        return list(map(normal, keys))

    def _each(
        self, keys: Iterable[Any], convert: Callable[[Kind, list[Any]], list[Any]]
    ) -> list[Any]:
        found = list(keys)
        if not found or not any(kind.classes for kind in self._kinds):
            return found
        if isinstance(self._cls.key, str):
            return convert(self._kinds[0], found)
        columns = map(list, zip(*found, strict=True))
        return list(zip(*map(convert, self._kinds, columns), strict=True))

    def _key_of(self, event: Event) -> Hashable:
        if self._get_key is not None:
            key = self._get_key(event)
        else:
            if self._prototype is None:
                self._prototype = self._make()
            key = self._prototype.key(event.content)
        try:
            hash(key)
        except TypeError:
            raise InvalidFilter(
                f"The key of {self._cls.__qualname__} is a {type(key).__name__}, which cannot tell "
                "instances apart: let the method key return text, numbers, or a tuple of these."
            ) from None
        return normal(key)  # type: ignore[no-any-return]

    def _time_of(self, event: Event) -> Any:
        time = self._get_time(event)
        is_moment = isinstance(time, datetime)
        if not is_moment and (not isinstance(time, int | float) or isinstance(time, bool)):
            raise EventRefused(self._no_time(time))
        if time != time:
            raise EventRefused(self._no_time(time))
        sort = (is_moment, is_moment and time.utcoffset() is not None)
        if self._sort is None:
            self._sort = sort
        if sort != self._sort:
            raise EventRefused(f"{self._no_time(time)} Earlier events had times of another kind.")
        return in_utc(time)

    def _no_time(self, time: Any) -> str:
        return (
            f"The event has no time that {self._cls.__qualname__} could go by: expected a datetime "
            f"or a number in {self._cls.time or 'event.time'}, got {time!r}."
        )


def check_keyed(cls: type[FIFOFilter], type: EventType) -> None:
    """Raise InvalidFilter or UnknownField for a keyed filter whose class attributes make no sense
    for these events."""
    if not issubclass(cls, KeyedFilter):
        return
    name = cls.__qualname__
    if cls.on_idle is not KeyedFilter.on_idle or cls.idle_after is not None:
        raise InvalidFilter(
            f"{name} has on_idle or idle_after: a keyed filter goes by the time of events, not by "
            "the clock on the wall. Use set_timer and on_timer, or ttl and on_expire."
        )
    if fixed := [each for each in cls.parameters if each in _FIXED]:
        raise InvalidFilter(
            f"{name}.parameters names {fixed[0]!r}, which the class alone says: it cannot change "
            "while the filter runs."
        )
    _check_number(cls, "lateness", cls.lateness, least=0)
    _check_number(cls, "ttl", cls.ttl, least=None)
    most = cls.max_keys
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise InvalidFilter(f"{name}.max_keys is a number of keys, 1 or more; got {most!r}.")
    fields = _declared(cls)
    if cls.time is not None and not isinstance(cls.time, str):
        raise InvalidFilter(f"{name}.time is None or the name of a field; got {cls.time!r}.")
    if type is ANY:
        return
    for field in (*fields, *((cls.time,) if cls.time is not None else ())):
        if field not in type.schema.names:
            raise UnknownField(
                f"{name} goes by the field {field!r}, which events of type {type.name} lack."
                + suggestion(field, type.schema.names)
            )
    for field in fields:
        if pa.types.is_nested(type.schema.field(field).type):
            raise _unfit(name, "key", field, type, "let a method key make one of it")
    if cls.time is not None:
        arrow = type.schema.field(cls.time).type
        is_number = pa.types.is_integer(arrow) or pa.types.is_floating(arrow)
        if not is_number and not pa.types.is_timestamp(arrow):
            raise _unfit(name, "time", cls.time, type, "expected a datetime, an int or a float")


def _declared(cls: type[KeyedFilter]) -> tuple[str, ...]:
    """The fields of the key. Raises InvalidFilter."""
    key = cls.key
    names = (key,) if isinstance(key, str) else key
    if callable(key):
        return ()
    if not isinstance(names, tuple) or not names or not all(isinstance(n, str) for n in names):
        raise InvalidFilter(
            f'{cls.__qualname__}.key is a field, as in key = "route", a tuple of fields, or a '
            f"method key(self, content); got {key!r}."
        )
    return names


def _check_number(cls: type[KeyedFilter], what: str, value: Any, least: int | None) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or (number and math.isfinite(value) and (value > 0 or value == least)):
        return
    least_of_all = "0 or more" if least == 0 else "above 0"
    raise InvalidFilter(
        f"{cls.__qualname__}.{what} is None or a number of seconds, {least_of_all}; got {value!r}."
    )


def _unfit(name: str, what: str, field: str, type: EventType, hint: str) -> ActiveBrokerError:
    found = type.schema.field(field).type
    return InvalidFilter(f"{name}.{what}: the field {field!r} is of type {found}: {hint}.")


def _getter(key: str | Sequence[str]) -> Callable[[Event], Any]:
    names = (key,) if isinstance(key, str) else tuple(key)
    get = attrgetter(*(f"content.{name}" for name in names))
    if isinstance(key, str) or len(names) > 1:
        return get
    return lambda event: (get(event),)


def _is_float(kind: Kind) -> bool:
    return bool(pa.types.is_floating(kind.arrow))
