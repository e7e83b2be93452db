"""What `derive` accepts as a filter, and what it says of the rest."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from activebroker.core.errors import InvalidFilter
from activebroker.events import Event
from activebroker.filters import FIFOFilter, FilterSpec, FunctionFilter


class AtLeast(FIFOFilter):
    def __init__(self, limit: int, *names: str) -> None:
        self.limit = limit
        self.names = names

    def enqueue(self, event: Event) -> None:
        if event.content >= self.limit:
            super().enqueue(event)


class Stricter(AtLeast):
    """Inherits its enqueue, which is one of its own for our purpose."""


def is_odd(content: int) -> bool:
    return content % 2 == 1


def test_a_class() -> None:
    spec = FilterSpec.of(AtLeast)
    assert (spec.cls, spec.args, spec.instance, spec.name) == (AtLeast, (), None, "AtLeast")
    assert FilterSpec.of(Stricter).cls is Stricter
    assert FilterSpec.of((Stricter,)).args == ()


def test_a_class_with_arguments() -> None:
    spec = FilterSpec.of((AtLeast, 3, "IBM"))
    assert (spec.cls, spec.args, spec.instance) == (AtLeast, (3, "IBM"), None)


def test_an_instance() -> None:
    instance = AtLeast(3)
    spec = FilterSpec.of(instance)
    assert (spec.cls, spec.args, spec.instance) == (AtLeast, (), instance)


@pytest.mark.parametrize(
    ("function", "name"),
    [(is_odd, "is_odd"), (lambda content: content, "<lambda>"), ("IBM".startswith, "startswith")],
)
def test_a_function_of_the_content(function: Any, name: str) -> None:
    for given in (function, (function,)):
        spec = FilterSpec.of(given)
        assert (spec.cls, spec.args, spec.name) == (FunctionFilter, (function,), name)


def test_a_callable_without_a_name_shows_itself() -> None:
    spec = FilterSpec.of(functools.partial(is_odd))
    assert spec.cls is FunctionFilter
    assert spec.name.startswith("functools.partial(")


def test_the_output_type_is_the_class_s() -> None:
    class Names(AtLeast):
        output = str

    assert FilterSpec.of(Names).output is str
    assert FilterSpec.of(AtLeast).output is None


class NoFilter:
    pass


class AlmostFilter:
    def enqueue(self, event: Event) -> None: ...


class Idle(FIFOFilter):
    def on_idle(self) -> None: ...


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            NoFilter,
            "NoFilter is not a filter class: derive it from activebroker.FIFOFilter and give it a "
            "method enqueue(self, event).",
        ),
        (
            AlmostFilter,
            "AlmostFilter is not a filter class: derive it from activebroker.FIFOFilter.",
        ),
        (
            Idle,
            "Idle has no enqueue of its own: define enqueue(self, event) and forward with "
            "super().enqueue(event).",
        ),
        (
            FIFOFilter,
            "FIFOFilter has no enqueue of its own: define enqueue(self, event) and forward with "
            "super().enqueue(event).",
        ),
        (
            "price > 100",
            "Expected a FIFOFilter class, (class, args…), an instance of one, or a function of the "
            "content; got 'price > 100'.",
        ),
        (
            (),
            "Expected a FIFOFilter class, (class, args…), an instance of one, or a function of the "
            "content; got ().",
        ),
        (
            (is_odd, 3),
            "Expected a FIFOFilter class, (class, args…), an instance of one, or a function of the "
            f"content; got ({is_odd!r}, 3).",
        ),
    ],
    ids=["no filter", "no base", "no enqueue", "the base", "text", "nothing", "function with args"],
)
def test_what_is_no_filter_is_refused_and_told_what_to_do(given: object, says: str) -> None:
    with pytest.raises(InvalidFilter) as refused:
        FilterSpec.of(given)
    assert str(refused.value) == says


def test_an_instance_of_the_bare_base_class_has_no_enqueue_of_its_own() -> None:
    with pytest.raises(InvalidFilter, match="has no enqueue of its own"):
        FilterSpec.of(FIFOFilter())


@pytest.mark.parametrize("names", ["limit", ("limit", 3), None])
def test_the_names_to_reconfigure_are_a_tuple_of_names(names: Any) -> None:
    filter = type("Odd", (AtLeast,), {"parameters": names})
    with pytest.raises(InvalidFilter, match=r"Odd\.parameters is a tuple of names"):
        FilterSpec.of((filter, 3))


def test_a_parameter_has_not_the_name_of_an_argument_of_reconfigure() -> None:
    filter = type("Odd", (AtLeast,), {"parameters": ("timeout",)})
    with pytest.raises(InvalidFilter, match="cannot have a parameter 'timeout'"):
        FilterSpec.of((filter, 3))
