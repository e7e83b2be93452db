"""A filter that cannot work is refused where it is derived, and told what to do."""

from __future__ import annotations

import abc
import asyncio
import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pytest

import activebroker as ab
from activebroker import FIFOFilter
from activebroker.core.errors import FilterWarning, InvalidFilter
from activebroker.events import ANY, Event, EventType
from activebroker.filters import FilterSpec, analyse, pack

T = TypeVar("T")


@dataclass(frozen=True)
class Number:
    value: int


def derive(given: object, type: EventType = ANY) -> None:
    """All that `derive` does before it asks the fabric."""
    spec = FilterSpec.of(given)
    pack(spec, type, analyse(spec, type), key=b"key")


class Above(FIFOFilter):
    def __init__(self, limit: int, *, name: str = "") -> None:
        self.limit = limit

    def enqueue(self, event: Event) -> None:
        if event.content > self.limit:
            super().enqueue(event)


class NamedOnly(Above):
    def __init__(self, *, limit: int) -> None:
        self.limit = limit


@dataclass
class Fields(Above):
    low: int
    high: int


class Plain(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if event.content:
            super().enqueue(event)


class Makes(Plain):
    def __new__(cls, limit: int) -> Makes:
        return super().__new__(cls)


class PastNew(Plain):
    def __new__(cls) -> PastNew:
        return object.__new__(cls)


class Abstract(Plain, abc.ABC):
    @abc.abstractmethod
    def limit(self) -> int: ...

    @property
    @abc.abstractmethod
    def size(self) -> int: ...


class Of(Plain, Generic[T]):
    pass


def with_method(name: str, method: object, base: type[FIFOFilter] = Plain) -> type[FIFOFilter]:
    return type("Odd", (base,), {name: method})


async def awaits(self: Any, *args: Any) -> None: ...
def yields(self: Any, *args: Any) -> Any:
    yield


async def yields_later(self: Any, *args: Any) -> Any:
    yield


def takes_nothing() -> None: ...
def takes_many(self: Any, one: Any, two: Any, three: Any) -> None: ...


class Answers:
    async def __call__(self, content: object) -> bool:
        return True

    async def asks(self, content: object) -> bool:
        return True

    def pair(self, one: object, two: object) -> bool:
        return True


async def answer(content: object) -> bool:
    return True


def items(content: object) -> Any:
    yield content


def pair(one: object, two: object) -> bool:
    return True


def no_return(content: Any) -> None:
    content.price > 100  # noqa: B015


CONSTRUCTORS = {
    "a missing argument": (Above, "missing a required argument: 'limit'"),
    "a missing keyword": (NamedOnly, "missing a required (keyword-only )?argument: 'limit'"),
    "arguments by place for keywords": ((NamedOnly, 1), "too many positional arguments"),
    "too many": ((Above, 1, 2), "too many positional arguments"),
    "too few for a dataclass": ((Fields, 1), "missing a required argument: 'high'"),
    "too few for __new__": (Makes, "missing a required argument: 'limit'"),
    "any where there is no constructor": ((Plain, 1), "Plain takes no arguments, and got 1"),
    "an abstract class": (Abstract, "defines limit, size"),
    "type arguments": (Of[int], "derive Of itself"),
    "type arguments and others": ((Of[int], 1), "derive Of itself"),
    "type arguments of no filter": (list[int], "list is not a filter class"),
    "an instance made past the base class": (PastNew(), r"super\(\).__new__\(cls\)"),
}
METHODS = {
    f"{name}, {what}": (with_method(name, method), says)
    for name in ("enqueue", "on_start", "on_end", "on_idle", "snapshot", "restore")
    for what, method, says in (
        ("async", awaits, f"Odd.{name} is async"),
        ("a generator", yields, f"Odd.{name} is a generator function"),
        ("an async generator", yields_later, f"Odd.{name} is async"),
        ("of no arguments", takes_nothing, f"Odd.{name} cannot be called with"),
        ("of too many", takes_many, f"Odd.{name} cannot be called with"),
        ("no function", 3, f"Odd.{name} is 3|no enqueue of its own"),
        ("a partial of one that is async", functools.partialmethod(awaits), f"{name} is async"),
    )
}
METHODS["a static enqueue"] = (with_method("enqueue", staticmethod(print)), "cannot forward")
METHODS["an enqueue of the class"] = (with_method("enqueue", classmethod(print)), "cannot forward")
FUNCTIONS = {
    "async": (answer, "answer is async"),
    "an async lambda in a partial": (functools.partial(answer), "is async"),
    "a partial of a partial": (functools.partial(functools.partial(answer)), "is async"),
    "an async method": (Answers().asks, "asks is async"),
    "an object with an async call": (Answers(), "is async"),
    "a generator function": (items, "items is a generator function"),
    "two arguments": (pair, "cannot be called with"),
    "two arguments of a method": (Answers().pair, "cannot be called with"),
    "no argument left": (functools.partial(pair, 1, 2), "cannot be called with"),
    "no arguments": (lambda: True, "cannot be called with"),
    "no return": (no_return, "no_return returns nothing"),
    "returns None": (lambda content: None, "returns nothing"),
}
ATTRIBUTES = {
    f"{name} = {value!r}": (with_method(name, value), rf"Odd\.{name} is ")
    for name, values in {
        "on_error": ("ignore", None),
        "effects": ("none", True),
        "shared": ("yes", 1),
        "idle_after": (0, -1.5, "10", True),
        "output": ("Trade", 3, list[int]),
    }.items()
    for value in values
}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        pytest.param(given, says, id=f"{group}: {what}")
        for group, cases in {
            "constructor": CONSTRUCTORS,
            "method": METHODS,
            "function": FUNCTIONS,
            "attribute": ATTRIBUTES,
        }.items()
        for what, (given, says) in cases.items()
    ],
)
def test_what_cannot_work_is_refused(given: object, says: str) -> None:
    with pytest.raises(InvalidFilter, match=says):
        derive(given)


@pytest.mark.parametrize(
    "given",
    [
        *((Above, 1), Above(1), (Fields, 1, 2), (Makes, 1), Plain, Of, Of[int]()),
        *(
            functools.partial(pair, 1),
            functools.partial(pair, two=1),
            len,
            bool.__call__,
            str.isdigit,
        ),
        *("IBM".startswith, lambda content, limit=3: content > limit, lambda *content: True),
        with_method("on_start", staticmethod(takes_nothing)),
        with_method("enqueue", functools.wraps(awaits)(lambda self, event: None)),
    ],
)
def test_what_may_work_is_taken(given: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FilterWarning)
        derive(given)


def test_an_instance_s_own_methods_are_looked_at() -> None:
    instance = Above(1)
    instance.enqueue = functools.partial(awaits, instance)  # type: ignore[method-assign]
    with pytest.raises(InvalidFilter, match="enqueue of this Above is async"):
        derive(instance)


# -- filters that never forward ------------------------------------------------------------------


class Returns(FIFOFilter):
    def enqueue(self, event: Event) -> bool:  # type: ignore[override]
        return bool(event.content.value == 1)


class DoesNothing(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        pass


class Counts(FIFOFilter):
    def __init__(self) -> None:
        self.count = 0

    def enqueue(self, event: Event) -> bool:  # type: ignore[override]
        self.count += 1
        return bool(event.content == 1)


class Writes(FIFOFilter):
    """For its effects alone."""

    def enqueue(self, event: Event) -> None:
        print(event.content)


class AtTheEnd(Counts):
    def on_end(self) -> None:
        super().enqueue(Event(self.count, "", 0, 0))
        FIFOFilter.enqueue(self, Event(self.count, "", 0, 0))


class Never(FIFOFilter):
    """Forwards nothing with this limit."""

    limit = 0

    def enqueue(self, event: Event) -> None:
        if self.limit > 3:
            super().enqueue(event)


@pytest.mark.parametrize("cls", [Returns, DoesNothing])
def test_a_filter_that_surely_does_nothing_is_refused(cls: type[FIFOFilter]) -> None:
    with pytest.raises(InvalidFilter, match=r"never forwards: call super\(\).enqueue\(event\)"):
        derive(cls, EventType.of(Number))


def test_one_that_returns_a_value_and_does_not_forward_is_warned_of() -> None:
    with pytest.warns(FilterWarning, match=r"Counts.enqueue returns a value, which nobody reads"):
        derive(Counts)


@pytest.mark.parametrize("cls", [Writes, AtTheEnd, Never])
def test_one_that_may_be_of_use_is_taken_without_a_word(cls: type[FIFOFilter]) -> None:
    derive(cls)


# -- what shows only when it runs ----------------------------------------------------------------


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: function(*args)


class Later(FIFOFilter):
    @decorated
    async def enqueue(self, event: Event) -> None:
        await asyncio.sleep(0)
        super().enqueue(event)


@pytest.mark.parametrize("given", [Later, decorated(answer), decorated(items)])
def test_what_a_call_made_and_nobody_runs_is_an_error_of_the_event(
    fabric: ab.Fabric, given: Any
) -> None:
    channel = fabric.channel("numbers", object)
    derived = channel.derive(given, at="atlanta")
    with derived.subscribe(timeout=10) as events, channel.supplier() as supplier:
        supplier.publish(1)
        channel.close()
        assert list(events) == []
    (failure,) = derived.errors
    assert "which nobody runs" in failure.error


def test_derive_refuses_before_anything_is_asked_of_the_fabric(fabric: ab.Fabric) -> None:
    channel = fabric.channel("numbers", object)
    with pytest.raises(InvalidFilter, match="is async"):
        channel.derive(answer, name="odd")
    assert "odd" not in str(fabric.status())
