"""Draws contents at random, each field from a small pool of telling values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from .helpers import Record

T = TypeVar("T")
STRANGE: tuple[Any, ...] = (None, 7, "?", 1.5, True)
Draw = Callable[[Random], Any]
Pool = Sequence[Any] | Draw | Mapping[str, Any]

NAN = float("nan")


def contents(cls: Callable[..., T], **defaults: Pool) -> Callable[..., Callable[[Random], T]]:
    """A maker of draws of one dataclass; a draw may have other pools for some of the fields."""

    def maker(**pools: Pool) -> Callable[[Random], T]:
        strangers = pools.keys() - defaults.keys()
        if strangers:
            raise TypeError(f"{cls} has no pools for {', '.join(sorted(strangers))}")
        merged = defaults | pools

        def draw(rng: Random) -> T:
            return cls(**{name: _pick(pool, rng) for name, pool in merged.items()})

        return draw

    return maker


def documents(shape: Mapping[str, Pool], *, sure: Sequence[str] = (), record: bool = False) -> Draw:
    """A draw of nested dicts. Now and then a key is missing, or its value is null or of a type that
    nobody expects, unless `sure` names it. With `record` the outermost is a `Record`."""

    def draw(rng: Random) -> Any:
        content = _document(shape, sure, rng)
        return Record(content) if record else content

    return draw


def lists(pool: Sequence[Any], longest: int = 3) -> Draw:
    """A draw of short lists."""
    return lambda rng: [rng.choice(pool) for _ in range(rng.randint(0, longest))]


def maybe(draw: Draw, share: float = 0.2) -> Draw:
    """None now and then, in place of what `draw` gives."""
    return lambda rng: None if rng.random() < share else draw(rng)


def _document(shape: Mapping[str, Pool], sure: Sequence[str], rng: Random) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, pool in shape.items():
        fate = 1.0 if key in sure else rng.random()
        if fate < 0.06:
            continue
        if fate < 0.09:
            content[key] = rng.choice(STRANGE)
        elif isinstance(pool, Mapping):
            content[key] = None if fate < 0.12 else _document(pool, sure, rng)
        else:
            content[key] = _pick(pool, rng)
    return content


def _pick(pool: Pool, rng: Random) -> Any:
    if isinstance(pool, Mapping):
        return _document(pool, (), rng)
    return pool(rng) if callable(pool) else rng.choice(pool)
