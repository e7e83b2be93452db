"""The state of a keyed filter's stream as bytes; a snapshot makes only those of what has changed.

A snapshot is a list of parts. The first snapshot has one part, with all keys. Each later one has
the parts of the one before, whose bytes are used again, and one more with the keys that have
changed since; of a key, the last part counts. When the parts hold twice as many keys as there are,
or are many, they become one part again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import msgspec

from activebroker.core.errors import FilterNotPicklable
from activebroker.filters.asleep import Each
from activebroker.filters.keyed import KeyedFilter
from activebroker.filters.keys import Keys
from activebroker.filters.shipping import dumps, loads

ROOM = 1000  # keys that parts may hold above what there are twice
MOST = 64  # parts

# A key as plain data, its number, the newest time of its events, its timers, and its state: the
# attributes of the instance, or the bytes of its own `snapshot`.
Row = tuple[Any, int, Any, dict[Any, int] | None, dict[str, Any] | bytes | None]

_decoder = msgspec.msgpack.Decoder(list[bytes])


class Saves:
    """The parts of the last snapshot."""

    def __init__(self, cls: type[KeyedFilter], make: Callable[[], KeyedFilter], keys: Keys) -> None:
        self._parts: list[bytes] = []
        self._held = 0  # keys in them, those that are there twice counted twice
        self._gone: dict[Hashable, None] = {}  # keys in them that there are no more
        self._name = cls.__qualname__
        self._make = make
        self._keys = keys
        self._by_itself = (
            cls.snapshot is KeyedFilter.snapshot and cls.restore is KeyedFilter.restore
        )

    def forget(self, key: Hashable) -> None:
        """There is no such key any more."""
        if self._parts:
            self._gone[key] = None

    def save(self, header: object, instances: Mapping[Hashable, Each]) -> bytes:
        """A snapshot. Raises FilterNotPicklable."""
        changed = [each for each in instances.values() if each._keyed_changed]
        held = self._held + len(changed)
        if not self._parts or held > 2 * len(instances) + ROOM or len(self._parts) >= MOST:
            changed = list(instances.values())
            self._parts, self._held = [self._part((), changed)], len(changed)
        elif changed or self._gone:
            self._parts = [*self._parts, self._part(self._gone, changed)]
            self._held = held
        for each in changed:
            each._keyed_changed = False
        self._gone.clear()
        return msgspec.msgpack.encode([dumps(header), *self._parts])

    def load(self, snapshot: bytes) -> tuple[Any, list[tuple[Hashable, Row]]]:
        """The header of a snapshot, and its keys with their rows, in the order in which they came.
        The next snapshot is made of its parts."""
        header, *parts = _decoder.decode(snapshot)
        found: dict[Hashable, Row] = {}
        held = 0
        for part in parts:
            gone, rows = loads(part)
            held += len(rows)
            for key in self._keys.meant(gone):
                found.pop(key, None)
            found.update(zip(self._keys.meant(row[0] for row in rows), rows, strict=True))
        self._parts, self._held = parts, held
        return loads(header), sorted(found.items(), key=lambda each: each[1][1])

    def _part(self, gone: Iterable[Hashable], changed: list[Each]) -> bytes:
        gone = self._keys.plain(gone)
        keys = self._keys.plain(each.key for each in changed)
        states = map(self._state, changed)
        try:
            return dumps((gone, list(map(_row, keys, changed, states))))
        except FilterNotPicklable:
            raise
        except Exception:  # noqa: BLE001 - pickling can raise anything
            states = map(self._picklable, changed)
        try:
            return dumps((gone, list(map(_row, keys, changed, states))))
        except FilterNotPicklable:
            raise
        except Exception as error:
            raise FilterNotPicklable(
                f"The keys or timers of {self._name} cannot be taken to another place: {error}. "
                "Let the method key return plain values."
            ) from error

    def _state(self, each: Each) -> dict[str, Any] | bytes | None:
        if not isinstance(each, KeyedFilter):
            return each.state
        return each._state() if self._by_itself else each.snapshot()

    def _picklable(self, each: Each) -> dict[str, Any] | bytes | None:
        """The state of an instance that may hold what cannot be pickled."""
        if not isinstance(each, KeyedFilter) or not self._by_itself:
            return self._state(each)
        stream = each._stream_for("snapshot")
        fresh = self._make()
        fresh.key, fresh._keyed_stream = each.key, stream
        with stream.again():
            fresh.on_start()
        fresh._begin()
        each._begun_with = fresh._begun_with
        return each.snapshot()


def _row(key: Any, each: Each, state: dict[str, Any] | bytes | None) -> Row:
    return key, each._keyed_number, each._keyed_last, each._keyed_timers, state
