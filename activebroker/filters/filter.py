"""What a consumer writes: a filter class.

`FIFOFilter` keeps the API of ECho/JECho's event modulators: a subclass overrides
`enqueue(self, event)` and forwards with `super().enqueue(event)`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, ClassVar, Literal

from activebroker.core.errors import InvalidFilter
from activebroker.events import Event
from activebroker.filters.shipping import dumps, loads


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
    `modulated`
        The names of attributes that `channel.modulate(name=value)` may set while the filter runs.
    `idle_after`
        `on_idle` is called when this many seconds (at most twice as many) have passed without
        an event; None: never.
    """

    output: ClassVar[type | None] = None
    on_error: ClassVar[Literal["skip", "stop"]] = "skip"
    shared: ClassVar[bool] = False
    effects: ClassVar[Literal["keep", "ignore"]] = "keep"
    modulated: ClassVar[tuple[str, ...]] = ()
    idle_after: ClassVar[float | None] = None

    _forwarded: list[Event]

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
        """Run before the first event of a stream; may not forward (there is no event yet)."""

    def on_end(self) -> None:
        """Run after the last event of a stream; may forward what is still held back."""

    def on_idle(self) -> None:
        """Run when no event came for `idle_after` seconds; may forward."""

    def snapshot(self) -> bytes:
        """Return the state, to be given to `restore` of a new instance at another place."""
        state = {name: value for name, value in vars(self).items() if name != "_forwarded"}
        return dumps(state)

    def restore(self, state: bytes) -> None:
        """Take over the state that `snapshot` returned at the old place."""
        vars(self).update(loads(state))

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
