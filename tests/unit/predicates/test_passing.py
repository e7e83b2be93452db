"""Which fields a filter can read, and whether it forwards nothing but the event it is given."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from activebroker import FIFOFilter
from predicate_extract import extract

STORE: list[Any] = []


class Plain(FIFOFilter):
    def enqueue(self, event):
        s = event.content
        if s.name == "IBM" or (math.sqrt(s.price) > 10 and event.seq > 3):
            super().enqueue(event)


class Early(FIFOFilter):
    def enqueue(self, event):
        if event.content.a:
            super().enqueue(event)
            return
        for x in event.content.tags:
            if x:
                break
        super().enqueue(event)


class Chosen(FIFOFilter):
    def enqueue(self, event):
        match event.content.kind:
            case "a":
                super().enqueue(event)
            case "b" if event.content.b > 2:
                super().enqueue(event)
        return None


class Remembers(FIFOFilter):
    def __init__(self):
        self.last = None

    def enqueue(self, event):
        price = event.content.price
        if self.last is None or abs(price - self.last) > 1:
            self.last = price
            super().enqueue(event)


class Twice(FIFOFilter):
    def enqueue(self, event):
        if event.content.a:
            super().enqueue(event)
        super().enqueue(event)


class Loops(FIFOFilter):
    def enqueue(self, event):
        for _ in range(event.content.a):
            super().enqueue(event)


class Retries(FIFOFilter):
    def enqueue(self, event):
        try:
            super().enqueue(event)
            event.content.a.b()
        except AttributeError:
            super().enqueue(event)


class Changes(FIFOFilter):
    def enqueue(self, event):
        super().enqueue(event.replace(event.content))


class Keeps(FIFOFilter):
    def enqueue(self, event):
        self.last = event
        super().enqueue(event)


class Stores(FIFOFilter):
    def enqueue(self, event):
        STORE.append(event.content)
        super().enqueue(event)


class Later(FIFOFilter):
    def enqueue(self, event):
        later = lambda: super(Later, self).enqueue(event)  # noqa: E731
        if event.content.a:
            later()


class AtTheEnd(FIFOFilter):
    def enqueue(self, event):
        self.n = event.content.a

    def on_end(self):
        super().enqueue(STORE[0])


class Child(Plain):
    def enqueue(self, event):
        if event.content.more:
            super().enqueue(event)


class Anew(FIFOFilter):
    def enqueue(self, event):
        event = STORE[0]
        super().enqueue(event)


class Other(FIFOFilter):
    def enqueue(self, event):
        if event.content.a:
            super().enqueue(STORE[0])


class Defers(FIFOFilter):
    """Asks for the content when another one has come."""

    def enqueue(self, event):
        s = event.content
        STORE.append(lambda: s.price)
        super().enqueue(event)


class DefersTheEvent(FIFOFilter):
    def enqueue(self, event):
        def later():
            return event.seq

        STORE.append(later)
        super().enqueue(event)


class Looked(FIFOFilter):
    def __getattribute__(self, name):
        return super().__getattribute__(name)

    def enqueue(self, event):
        super().enqueue(event)


@pytest.mark.parametrize(
    ("filter", "as_it_is", "reads"),
    [
        (Plain, True, {"name", "price"}),
        (Early, True, {"a", "tags"}),
        (Chosen, True, {"kind", "b"}),
        (Remembers, True, {"price"}),
        (Twice, False, {"a"}),
        (Loops, False, {"a"}),
        (Retries, False, {"a"}),
        (Changes, False, None),
        (Keeps, False, None),
        (Stores, True, None),
        (Later, True, None),  # it is exact
        (AtTheEnd, False, None),
        (Child, False, None),
        (Anew, False, None),
        (Other, False, {"a"}),
        (Looked, False, None),
        (lambda s: s.a > 1 or s.b.c, True, {"a", "b"}),
        (lambda s: s, True, None),
        (lambda s: [s.a for s in STORE] or s.b, True, None),
        (lambda s: f"{s.a}{s.b!r}", True, {"a", "b"}),
        (lambda s: vars()["s"].z or s.a, True, None),
        (lambda s: getattr(s, "a"), True, None),  # noqa: B009
        (lambda s: (t := s).a and t.b, True, None),
        (lambda s: any(s.a == x for x in s.l), True, {"a", "l"}),
        (lambda s: s["a"], True, None),
        (lambda s: [s.a for _ in s.l], True, {"a", "l"}),
        (lambda s: STORE.append(lambda: s.a), True, None),
        (lambda s: STORE.append(s.a + x for x in STORE), True, None),
        (lambda s: STORE.append(x for x in s.l if s.a), True, None),
        (lambda s: sorted(STORE, key=lambda x: x + s.a), True, None),
        (Defers, True, None),
        (DefersTheEvent, True, None),
    ],
    ids=lambda it: getattr(it, "__name__", None),
)
def test_what_is_read_and_forwarded(filter, as_it_is, reads):
    found = extract(filter)
    assert found.as_it_is is as_it_is
    assert found.reads == (None if reads is None else frozenset(reads))


def test_what_it_reads_is_all_it_needs():
    found = extract(Remembers)
    content = SimpleNamespace(**dict.fromkeys(found.reads or (), 3.0))
    assert found.predicate.matches(content)
