"""What processes ask of the directory for their users."""

from __future__ import annotations

from activebroker.events import TypeDescription
from activebroker.filters import Envelope
from activebroker.protocol.specs import (
    LogSpec,
    Member,
    Since,
)
from derivation.protocol import (
    Message,
)


class ClaimName(Message, frozen=True):
    """A process that is about to join asks for its name. A member that has the name keeps it if it
    answers at once; otherwise it is taken for lost."""

    name: str
    replace: bool = False  # take that member for lost even if it answers
    again: bool = False  # the process has had the name before: give that member more time


class Join(Message, frozen=True):
    member: Member


class Leave(Message, frozen=True):
    name: str


class Dismiss(Message, frozen=True):
    """Ask a broker to leave the fabric. It is answered when the broker knows."""

    name: str


class OpenChannel(Message, frozen=True):
    """Open a channel, or make it."""

    name: str
    type: TypeDescription | None  # None: only open it, with the type that it has


class CloseChannel(Message, frozen=True):
    name: str


class OpenSupplier(Message, frozen=True):
    """`stream`: to go on with a stream, so that a log knows what it has of that already; without
    one, a new stream begins."""

    channel: str
    supplier: str
    node: str
    stream: int | None = None


class CloseSupplier(Message, frozen=True):
    channel: str
    supplier: str


class Subscribe(Message, frozen=True):
    """Subscribe to a channel; with `since`, to the log of a channel. The answer is the name of the
    channel whose events come."""

    channel: str
    node: str
    inlet: int
    since: Since | None = None
    predicate: str | None = None  # which events; None: all


class FindLog(Message, frozen=True):
    """Answer with the positions that the log of a channel has: the first and the next one."""

    channel: str


class Unsubscribe(Message, frozen=True):
    channel: str
    inlet: int


class Derive(Message, frozen=True):
    """Make a channel of another one and a filter."""

    channel: str
    name: str | None
    envelope: Envelope
    at: str
    node: str  # the new channel's owner
    # Seconds that the channel lives without its owner and without a consumer; None: until closed.
    lease: float | None = None
    log: LogSpec | None = None  # keep the channel's events in a log at the broker `at`


class Move(Message, frozen=True):
    channel: str
    to: str
    node: str
    patience: float


class Reconfigure(Message, frozen=True):
    """Give a channel's filter the parameters of this envelope."""

    channel: str
    envelope: Envelope
    node: str
    patience: float


class Offload(Message, frozen=True):
    """Let a broker serve a supplier's consumers."""

    channel: str
    supplier: str
    to: str
    patience: float
    # The nodes whose subscriptions and filters are handed over; None: all, and those to come.
    consumers: tuple[str, ...] | None = None


class ReportStatus(Message, frozen=True):
    """Answer with the whole fabric: members, channels, and every node's counters."""


class TellStory(Message, frozen=True):
    """Answer with how the last move of a channel went, or goes."""

    channel: str


# Requests that the directory answers at once: they change nothing in the picture.
Question = ClaimName | Dismiss | ReportStatus | TellStory

# Requests that the directory carries out one after another.
ChangeRequest = (
    Join
    | Leave
    | OpenChannel
    | CloseChannel
    | OpenSupplier
    | CloseSupplier
    | Subscribe
    | FindLog
    | Unsubscribe
    | Derive
    | Move
    | Offload
    | Reconfigure
)
