"""Every error a user can meet, in one place.

A message says what was expected, what came, and what to do next. All errors derive from
`ActiveBrokerError`; those that are also a standard kind (`ValueError`, `TimeoutError`, …) say so
by inheritance, so that ordinary `except` clauses work.
"""

from __future__ import annotations

import difflib
import pickle
from collections.abc import Iterable

TEXT = 4000  # characters of a message


class ActiveBrokerError(Exception):
    """Base class of every error that activebroker raises.

    A message may quote what a user gave, which may be of any size; it is shortened.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(shortened(each) if isinstance(each, str) else each for each in args))


class EventTypeError(ActiveBrokerError, TypeError):
    """A dataclass cannot be an event type: a field's annotation is not supported."""


class EventRefused(ActiveBrokerError, ValueError):
    """What was published does not fit the channel's event type."""


class ChannelTypeConflict(ActiveBrokerError, TypeError):
    """A channel of this name exists already, with another event type."""


class UnknownChannel(ActiveBrokerError, LookupError):
    """No channel of this name exists in the fabric."""


class UnknownPlace(ActiveBrokerError, LookupError):
    """`at=` or `to=` names neither a broker of the fabric nor one of the fixed places; or the very
    broker that is to be split."""


class UnknownField(ActiveBrokerError, AttributeError):
    """A filter reads a field that the channel's event type lacks."""


class InvalidName(ActiveBrokerError, ValueError):
    """What was given as a name, or as a place, is no text, or empty."""


class NameTaken(ActiveBrokerError, ValueError):
    """A supplier, broker or channel of this name is active already."""


class InvalidFilter(ActiveBrokerError, TypeError):
    """What was given to `derive` is not a filter, or breaks a rule for filters."""


class FilterWarning(UserWarning):
    """A filter that can run, but does not seem to do what it is for."""


class FilterNotPicklable(InvalidFilter):
    """The filter holds something that cannot be shipped to another process."""


class NotPicklable(ActiveBrokerError, pickle.PicklingError):
    """A fabric, or a channel, supplier or subscription of it, was to go to another process."""


class InvalidSubscription(ActiveBrokerError, ValueError):
    """What was given to `subscribe` cannot work: a callback that nobody would await, say."""


class SlowConsumer(ActiveBrokerError):
    """A subscription with `when_slow="disconnect"` was cut off: its events had waited too long."""


class PayloadRefused(ActiveBrokerError):
    """A shipped filter was refused before it was unpickled: signature, version or size."""


class FilterStopped(ActiveBrokerError):
    """A filter raised and its policy is to stop the stream."""


class LateEvent(ActiveBrokerError):
    """An event came later than the lateness of a keyed filter allows, and was lost."""


class TooManyKeys(ActiveBrokerError):
    """A keyed filter would have more instances than its `max_keys`."""


class Closed(ActiveBrokerError):
    """The fabric, channel, supplier or subscription was closed before this call."""


class DeadlineExceeded(ActiveBrokerError, TimeoutError):
    """A wait ended without its answer; the message names the party waited for."""


class Unreachable(ActiveBrokerError, ConnectionError):
    """A fabric, broker or cluster does not answer at its address, or went away."""


class AccessDenied(ActiveBrokerError, PermissionError):
    """The key is missing or is not the fabric's key."""


class MoveFailed(ActiveBrokerError):
    """A move did not complete: it was rolled back, is still under way, or failed and the filter
    goes on elsewhere. The message says which."""


class ReconfigurationFailed(ActiveBrokerError):
    """A filter did not get its new parameters, has not got them yet, or at some places only. The
    message says which."""


class LogInUse(ActiveBrokerError):
    """Another writer has this log open: a log has one at a time."""


class LogUnavailable(ActiveBrokerError, OSError):
    """A log cannot be read or written: it is not there, the disk is full, or the disk failed. What
    a log was to write then, and did not commit, is not stored."""


class LogDamaged(ActiveBrokerError):
    """A log's file does not hold what was written to it; `byte` is where in the file."""

    def __init__(self, message: str, byte: int = 0) -> None:
        super().__init__(message)
        self.byte = byte


class NotInLog(ActiveBrokerError, LookupError):
    """A position that the log no longer has, or has not yet; `first` is the first that it has."""

    def __init__(self, message: str, first: int = 0) -> None:
        super().__init__(message)
        self.first = first


class MissingExtra(ActiveBrokerError, ImportError):
    """An optional part (Ray, Spark, the demo's data) is not installed."""


class JavaNotFound(ActiveBrokerError, RuntimeError):
    """Spark needs Java 17 or newer and none was found."""


class SparkUnavailable(ActiveBrokerError, RuntimeError):
    """No Spark session can be started, its executors cannot run filters, or a job has lost every
    session that it got."""


class ProtocolError(ActiveBrokerError):
    """A local call broke a machine's contract, or a peer speaks another protocol version."""


def flatten(error: BaseException) -> tuple[str, str]:
    """An error as it goes over the wire: its class, and its text."""
    return type(error).__name__, str(error)


def revive(error: tuple[str, str]) -> ActiveBrokerError:
    """The error that a peer has sent."""
    cls = globals().get(error[0])
    if isinstance(cls, type) and issubclass(cls, ActiveBrokerError):
        return cls(error[1])
    return ActiveBrokerError(f"{error[0]}: {error[1]}")


def shortened(text: str, most: int = TEXT) -> str:
    """Return the text, without its middle if it has more than `most` characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … {len(text) - 2 * half:,} characters more … {text[-half:]}"


def check_text(name: object, what: str) -> None:
    """Raise InvalidName unless a name is a text that is not empty."""
    if not isinstance(name, str) or not name:
        raise InvalidName(f"{what}: expected a text that is not empty, got {name!r}.")


def with_extra(extra: str) -> str:
    """Return how to install an optional part, as a sentence of a MissingExtra's message."""
    return (
        f"Install the extra {extra!r}: `uv pip install 'PATH[{extra}]'`, where PATH is that of "
        "activebroker's wheel or checkout."
    )


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the closest of `known`, else the list of what is known."""
    choices = list(known)
    close = difflib.get_close_matches(name, choices, n=1)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" Known: {', '.join(map(repr, choices)) or 'none'}."
