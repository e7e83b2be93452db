"""Classes that are defined anew, as by a cell of a notebook that is run again."""

from __future__ import annotations

import itertools
import linecache
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import activebroker as ab
from activebroker.core.errors import EventRefused, InvalidFilter
from activebroker.events import EventType
from activebroker.filters import FilterRunner, FilterSpec, analyse, pack, unpack

CELLS = {
    "side": "class Side(Enum):\n    BUY = 1\n    SELL = 2\n",
    "base": "@dataclass(frozen=True)\nclass Base:\n    name: str\n",
    "quote": """
@dataclass(frozen=True)
class Quote(Base):
    price: float
    side: Side = Side.BUY
""",
    "filters": """
class Typed(FIFOFilter):
    def enqueue(self, event):
        q: Quote = event.content
        if isinstance(q, Quote) and q.price > 1:
            super().enqueue(event)

class Counted(FIFOFilter):
    seen = 0
    def enqueue(self, event):
        if isinstance(event.content, Quote) and event.content.side is Side.BUY:
            self.seen += 1
            super().enqueue(event.replace(Quote(event.content.name, float(self.seen))))

class Based(FIFOFilter):
    def enqueue(self, event):
        match event.content:
            case Base(name=name) if name:
                super().enqueue(event)

def annotated(q: Quote) -> bool:
    return isinstance(q, Quote)
""",
    "special": """
@dataclass(frozen=True)
class Loud(Quote):
    volume: int = 11

class OnlyLoud(FIFOFilter):
    def enqueue(self, event):
        if isinstance(event.content, Loud) and event.content.volume > 10:
            super().enqueue(event)
""",
}
START = """
from dataclasses import dataclass
from enum import Enum
from activebroker import FIFOFilter
"""
_numbers = itertools.count(1)


class Notebook:
    """A module whose cells are run one by one."""

    def __init__(self, name: str) -> None:
        self.module = sys.modules[name] = ModuleType(name)
        self.run_text(START)

    def run(self, *cells: str) -> None:
        for cell in cells:
            self.run_text(CELLS[cell])

    def run_text(self, text: str) -> None:
        file = f"<cell {next(_numbers)}>"
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
        exec(compile(text, file, "exec"), vars(self.module))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)


@pytest.fixture(params=["__main__", "a_module"])
def notebook(request: pytest.FixtureRequest) -> Iterator[Notebook]:
    """What is in `__main__` travels by value, what is in a module that has no file by its name."""
    before = sys.modules.get(request.param)
    notebook = Notebook(request.param)
    notebook.run("side", "base", "quote", "filters")
    yield notebook
    del sys.modules[request.param]
    if before is not None:
        sys.modules[request.param] = before


FILTERS = ["Typed", "Counted", "Based", "annotated"]


AGAIN = pytest.mark.parametrize("again", [["quote"], ["base", "quote"], ["side", "base", "quote"]])


@AGAIN
def test_a_filter_gets_what_its_own_code_means(
    again: list[str], notebook: Notebook, fabric: ab.Fabric
) -> None:
    check_filters(again, notebook, fabric)


@AGAIN
@pytest.mark.parametrize("notebook", ["__main__"], indirect=True)
def test_so_it_does_in_processes_of_brokers(
    again: list[str], notebook: Notebook, joined: ab.Fabric
) -> None:
    check_filters(again, notebook, joined)


def check_filters(again: list[str], notebook: Notebook, fabric: ab.Fabric) -> None:
    """At each place, also one that was derived before, and by who takes its events."""
    channel = fabric.channel("quotes", notebook.Quote)
    supplier = channel.supplier("A")
    earlier = notebook.Quote
    pairs = list(itertools.product(FILTERS, ["supplier", "atlanta", "consumer"]))
    derived = [channel.derive(getattr(notebook, name), at=place) for name, place in pairs]
    notebook.run(*again)
    derived += [channel.derive(getattr(notebook, name), at=place) for name, place in pairs]
    taken = [each.subscribe(timeout=20) for each in derived]
    supplier.publish(earlier("IBM", 2.0))
    supplier.publish(notebook.Quote("IBM", 3.0))
    for each, events in zip(derived, taken, strict=True):
        came = [event for _, event in zip(range(2), events, strict=False)]
        assert len(came) == 2, each
        assert all(isinstance(event.content, notebook.Quote) for event in came)
        assert not list(each.errors)


def test_a_filter_gets_the_special_events_that_its_code_means(
    notebook: Notebook, fabric: ab.Fabric
) -> None:
    notebook.run("special")
    channel = fabric.channel("quotes", notebook.Quote)
    supplier = channel.supplier("A")
    supplier.publish(notebook.Loud("IBM", 1.0))
    notebook.run("quote", "special")
    for place in ("supplier", "atlanta"):
        derived = channel.derive(notebook.OnlyLoud, at=place)
        with derived.subscribe(timeout=20) as events:
            supplier.publish(notebook.Quote("IBM", 1.0))
            supplier.publish(notebook.Loud("IBM", 2.0))
            event = next(iter(events))
            assert (event.type, event.content.price, event.content.volume) == ("Loud", 2.0, 11)


@pytest.mark.parametrize(
    ("again", "filter", "name"),
    [("side", "Counted", "Side"), ("base", "Based", "Base")],
)
def test_a_part_of_an_event_s_class_that_was_defined_anew_is_told(
    again: str, filter: str, name: str, notebook: Notebook, fabric: ab.Fabric
) -> None:
    channel = fabric.channel("quotes", notebook.Quote)
    notebook.run(again)
    with pytest.raises(InvalidFilter, match=rf"refers to another {name} than .*run again"):
        channel.derive(getattr(notebook, filter), at="atlanta")
    notebook.run("quote")
    fabric.channel("quotes", notebook.Quote).derive(getattr(notebook, filter), at="atlanta")


def test_a_class_with_other_fields_is_told(notebook: Notebook, fabric: ab.Fabric) -> None:
    channel = fabric.channel("quotes", notebook.Quote)
    supplier = channel.supplier("A")
    notebook.run_text("@dataclass(frozen=True)\nclass Quote:\n    amount: int = 1\n")
    with pytest.raises(InvalidFilter, match="refers to another Quote than the events"):
        channel.derive(notebook.annotated)
    with pytest.raises(EventRefused, match=r"expected Quote, got Quote .*another class of"):
        supplier.publish(notebook.Quote())
    notebook.run("side")
    supplier.publish({"name": "IBM", "price": 1.0, "side": notebook.Side.SELL})
    notebook.run_text("class Side(Enum):\n    BUY = 1\n    HOLD = 2\n")
    with pytest.raises(EventRefused, match=r"expected Side.*, got Side .*another class of this"):
        supplier.publish({"name": "IBM", "price": 1.0, "side": notebook.Side.HOLD})


def test_two_notebooks_of_one_schema_do_not_disturb_each_other() -> None:
    """At a broker, each filter knows the class of its own notebook."""
    runners = []
    notebooks = [Notebook("a_notebook"), Notebook("b_notebook")]
    for notebook in notebooks:
        notebook.run("side", "base", "quote", "filters")
        spec, type_ = FilterSpec.of(notebook.Typed), EventType.of(notebook.Quote)
        payload = unpack(pack(spec, type_, analyse(spec, type_), key=b"k"), b"k")
        runners.append(
            FilterRunner(payload, channel="x", name="F", shared=False, stop_on_error=False)
        )
    assert EventType.of(notebooks[0].Quote) == EventType.of(notebooks[1].Quote)
    from activebroker.events import encode

    for runner, sent in itertools.product(runners, notebooks):
        batch = encode(EventType.of(sent.Quote), [sent.Quote("IBM", 2.0)], "A", 0, 0)
        assert [len(each) for each in runner.run([batch]).batches] == [1]
    for name in ("a_notebook", "b_notebook"):
        del sys.modules[name]


def test_a_channel_of_which_only_the_schema_is_known_takes_the_filter_s_class(
    notebook: Notebook,
) -> None:
    from activebroker.events import TypeRegistry, describe

    earlier = EventType.of(notebook.Quote)
    generic = TypeRegistry().resolve(describe(earlier))
    assert generic.generic
    spec = FilterSpec.of(notebook.Typed)
    assert spec.input_type(generic).cls is notebook.Quote
