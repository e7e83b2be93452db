"""What a consumer writes: a filter class.

`FIFOFilter` keeps the API of ECho/JECho's event modulators: a subclass overrides
`enqueue(self, event)` and forwards with `super().enqueue(event)`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, MutableMapping
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

from activebroker.core.errors import FilterNotPicklable, InvalidFilter
from activebroker.events import Event
from activebroker.filters.shipping import dumps, loads

log = logging.getLogger(__name__)
_told: MutableMapping[type, set[str]] = WeakKeyDictionary()  # of which attributes, once


class FIFOFilter:
    """Forwards events in the order in which they come; the base class of every filter.

    Class attributes, all optional:

    `output`
        The dataclass of the forwarded events where it differs from the incoming type; `object`
        where they may be anything.
    `on_error`
        `"skip"`: an event that makes the filter raise is reported and the stream goes on.
        `"stop"`: the derived channel ends with `FilterStopped`.
    `shared`
        False: every supplier's stream has its own instance, so that a derivation means the same
        wherever it runs. True: one instance sees the streams of all suppliers, interleaved as
        they arrive; such a filter cannot run at `"supplier"`.
    `effects`
        `"keep"`: an event that would only change the filter's state, be logged, or do anything
        else that can be seen, has to arrive. `"ignore"`: it need not, which makes the predicate
        sharper; then such effects happen for some events only.
    `parameters`
        The names of attributes that `channel.reconfigure(name=value)` may set while the filter
        runs.
    `idle_after`
        `on_idle` is called when this many seconds (at most twice as many) have passed without
        an event; None: never.
    """

    output: ClassVar[type | None] = None
    on_error: ClassVar[Literal["skip", "stop"]] = "skip"
    shared: ClassVar[bool] = False
    effects: ClassVar[Literal["keep", "ignore"]] = "keep"
    parameters: ClassVar[tuple[str, ...]] = ()
    idle_after: ClassVar[float | None] = None

    _forwarded: list[Event]
    _not_state: ClassVar[frozenset[str]] = frozenset({"_forwarded"})  # attributes of the runner's
    _begun_with: Mapping[str, str] = {}  # attribute → class, after `on_start`

    def __new__(cls, *_args: Any, **_kwargs: Any) -> FIFOFilter:
        # Not in __init__: a subclass need not call super().__init__().
        self = super().__new__(cls)
        self._forwarded = []
        return self

    def enqueue(self, event: Event) -> None:
        """Forward `event` to the derived channel."""
        self._forwarded.append(event)

    # The static analysis knows the forwarding method by this mark: itself, so that a copy of the
    # mark, as `functools.wraps` makes, marks nothing.
    enqueue.__forwards__ = enqueue  # type: ignore[attr-defined]

    def on_start(self) -> None:
        """Run before the first event of a stream; may not forward (there is no event yet).

        It runs again where the filter moves to, before `restore`, if it has made something that
        cannot be pickled, as a lock or a connection.
        """

    def on_end(self) -> None:
        """Run after the last event of a stream; may forward what is still held back.

        Not run where the stream is cut short and its consumers are told of an error.
        """

    def on_idle(self) -> None:
        """Run when no event came for `idle_after` seconds; may forward."""

    def snapshot(self) -> bytes:
        """Return the state, to be given to `restore` of a new instance at another place.

        That is all attributes. What cannot be pickled is left out if `__init__` or `on_start` has
        made it, for these make it anew; else this raises FilterNotPicklable.
        """
        state = self._state()
        try:
            return dumps((state, ()))
        except Exception:  # noqa: BLE001 - pickling can raise anything
            left_out = self._made_anew(state)
        return dumps(({name: state[name] for name in state if name not in left_out}, left_out))

    def restore(self, state: bytes) -> None:
        """Take over the state that `snapshot` returned at the old place."""
        kept, left_out = loads(state)
        begun_with = kept.get("_begun_with", {})

        def missing() -> list[str]:
            now = vars(self)
            return [
                name
                for name in left_out
                if name not in now or _class_of(now[name]) != begun_with[name]
            ]

        if missing():
            self.on_start()
            self._take()
        if still := missing():
            raise InvalidFilter(
                f"{type(self).__qualname__} was moved without {', '.join(still)}, which cannot be "
                "pickled, and on_start did not make it anew: let it make the same each time."
            )
        vars(self).update(kept)

    def _state(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._not_state}

    def _begin(self) -> None:
        """`on_start` has run."""
        self._begun_with = {name: _class_of(value) for name, value in vars(self).items()}

    def _made_anew(self, state: Mapping[str, Any]) -> tuple[str, ...]:
        """The attributes that cannot be pickled, and need not."""
        names: list[str] = []
        for name, value in state.items():
            try:
                dumps(value)
            except Exception as error:
                # What is in a container has come there since, or may have.
                held = isinstance(value, dict | list | set | tuple | deque)
                if held or self._begun_with.get(name) != _class_of(value):
                    raise FilterNotPicklable(
                        f"The state of {type(self).__qualname__} cannot be taken to another place: "
                        f"{name}: {error}. Make such an object in on_start, as an attribute of its "
                        "own, or define snapshot and restore."
                    ) from error
                told = _told.setdefault(type(self), set())
                if hasattr(value, "__dict__") and name not in told:
                    told.add(name)
                    log.warning(
                        "%s.%s (%s) cannot be pickled: where the filter moves it is made anew, "
                        "without what has come into it",
                        *(type(self).__qualname__, name, _class_of(value)),
                    )
                names.append(name)
        return tuple(names)

    def _take(self) -> list[Event]:
        forwarded, self._forwarded = self._forwarded, []
        return forwarded


class FunctionFilter(FIFOFilter):
    """The shorthand: forwards the events for whose content a plain function is true."""

    def __init__(self, function: Callable[[Any], object]) -> None:
        self.function = function

    def enqueue(self, event: Event) -> None:
        if truth(self.function(event.content)):
            super().enqueue(event)


def _class_of(value: object) -> str:
    cls = type(value)
    return f"{cls.__module__}.{cls.__qualname__}"


def truth(answer: object) -> bool:
    """`bool`, but not of what is still to be run, which is always true."""
    if not isinstance(answer, bool):
        refuse_unrun(answer)
    return bool(answer)


def refuse_unrun(returned: object) -> None:
    """Raise InvalidFilter for what a call has made, and nobody runs."""
    if isinstance(returned, Coroutine | Generator | AsyncGenerator):
        if not isinstance(returned, AsyncGenerator):
            returned.close()
        raise InvalidFilter(
            f"This returned a {type(returned).__name__}, which nobody runs: write a plain def that "
            "does its work when it is called."
        )
