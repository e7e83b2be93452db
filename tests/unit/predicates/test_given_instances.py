"""An instance is known by what it holds, unless what may run later changes that."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from filters_for_tests import Event, FIFOFilter, run

from predicate_extract import extract


class Above(FIFOFilter):
    def enqueue(self, event: Any) -> None:
        if event.content.a > self.limit:
            super().enqueue(event)


class Named(FIFOFilter):
    def enqueue(self, event: Any) -> None:
        if event.content.a in self.names:
            super().enqueue(event)


class ByKeywords(Above):
    def __init__(self, **settings: int) -> None:
        for name, value in settings.items():
            setattr(self, name, value)


class ByUpdate(Above):
    def __init__(self, **settings: int) -> None:
        self.__dict__.update(settings)


class ByHelper(Above):
    def __init__(self, limit: int) -> None:
        self._set(limit)

    def _set(self, limit: int) -> None:
        self.limit = limit
        self._again()

    def _again(self) -> None:
        self.limit += 0


class InSteps(Above):
    def __init__(self, limit: int) -> None:
        self.limit = 0
        for _ in range(limit):
            self.limit += 1


@dataclass
class Fields(Named):
    names: set[int] = field(default_factory=set)
    low: int = 0

    def __post_init__(self) -> None:
        self.low = -self.low


@dataclass
class Config:
    limits: dict[str, int]


class Configured(FIFOFilter):
    def __init__(self, config: dict[str, int]) -> None:
        self.config = config

    def enqueue(self, event: Any) -> None:
        if event.content.a > self.config["limit"]:
            super().enqueue(event)


class WithClassLimit(Above):
    limit = 1


def set_outside() -> Any:
    found = WithClassLimit()
    found.limit = 9
    return found


SEEN: list[Any] = []


class Registered(ByKeywords):
    def __init__(self, limit: int) -> None:
        super().__init__(limit=limit)
        SEEN.append(self)  # the copies that run are not there


@pytest.mark.parametrize(
    ("instance", "predicate"),
    [
        (ByKeywords(limit=5), "a > 5"),
        (ByUpdate(limit=5), "a > 5"),
        (ByHelper(5), "a > 5"),
        (InSteps(5), "a > 5"),
        (Fields({1, 2}, 3), "a IN {1, 2}"),
        (Configured({"limit": 4}), "a > 4"),
        (set_outside(), "a > 9"),
        (Registered(6), "a > 6"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_an_instance_holds_is_constant(instance: Any, predicate: str) -> None:
    found = extract(instance)
    assert (str(found.predicate), found.exact, found.stateful) == (predicate, True, False)


# -- what may change ----------------------------------------------------------------------------


class Resets(ByHelper):
    def finish(self) -> None:
        self._set(0)


class Makes(ByKeywords):
    def finish(self) -> None:
        self.__init__(limit=0)  # type: ignore[misc]


class Bound(ByHelper):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.reset = self._set

    def finish(self) -> None:
        self.reset(0)


class Closure(ByHelper):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.reset = lambda: self._set(0)

    def finish(self) -> None:
        self.reset()


class InList(ByHelper):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.all = [self]

    def finish(self) -> None:
        self.all[0].limit = 0


class InDeque(InList):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.all = deque([self])  # type: ignore[assignment]


class Service:
    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def go(self) -> None:
        self.owner.limit = 0


class Served(ByHelper):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.service = Service(self)

    def finish(self) -> None:
        self.service.go()


class Unpickled(ByHelper):
    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, limit=0)


class Shared(Named):
    def __init__(self) -> None:
        self.names = {5}
        self.others = self.names

    def finish(self) -> None:
        self.others.add(3)


class SharedDeep(Named):
    def __init__(self) -> None:
        self.names = {5}
        self.others = Config({"names": self.names})  # type: ignore[dict-item]

    def finish(self) -> None:
        self.others.limits["names"].add(3)  # type: ignore[attr-defined]


class Grows(Named):
    def __init__(self) -> None:
        self.names = {5}

    def finish(self) -> None:
        self.names.add(3)


class Random(ByHelper):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.random = random.Random(1)

    def finish(self) -> None:
        self._set(self.random.randrange(3))


MAKERS: dict[str, Callable[[], Any]] = {
    cls.__name__: (lambda cls=cls: cls(5))
    for cls in (Resets, Bound, Closure, InList, InDeque, Served, Unpickled, Random)
}
MAKERS["Makes"] = lambda: Makes(limit=5)
MAKERS |= {cls.__name__: cls for cls in (Shared, SharedDeep, Grows)}


@pytest.mark.parametrize("name", MAKERS)
def test_what_may_change_later_is_no_constant(name: str) -> None:
    instance = MAKERS[name]()
    predicate = extract(instance).predicate
    if name == "Unpickled":
        instance.__setstate__({})
    else:
        instance.finish()
    assert run(instance, SimpleNamespace(a=3)).sent == [Event(SimpleNamespace(a=3))]
    assert predicate.matches(SimpleNamespace(a=3))
