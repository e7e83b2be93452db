"""What waits for a consumer, and what is dropped of it if the consumer wants that."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

from activebroker.core.errors import InvalidSubscription, suggestion
from activebroker.events import Batch

WhenSlow = Literal["block", "drop_oldest", "drop_newest", "disconnect"]
KEEP_BYTES = 16 << 20  # that wait at most if events are dropped, however few these are


@dataclass(frozen=True, slots=True)
class Gap:
    """A run of events that were dropped."""

    count: int
    seqs: dict[str, tuple[int, int]]  # by supplier, the first and the last sequence number

    def __add__(self, later: Gap) -> Gap:
        seqs = dict(self.seqs)
        for supplier, (first, last) in later.seqs.items():
            seqs[supplier] = seqs.get(supplier, (first, last))[0], last
        return Gap(self.count + later.count, seqs)


@dataclass(frozen=True, slots=True)
class SlowPolicy:
    """What happens to a subscription whose consumer is slow; see `Channel.subscribe`.

    Raises InvalidSubscription for bad values.
    """

    when_slow: WhenSlow = "block"
    keep: int = 10_000  # events
    patience: float = 10.0  # seconds
    on_gap: Callable[[Gap], object] | None = None
    drops: bool = field(init=False)
    disconnects: bool = field(init=False)

    def __post_init__(self) -> None:
        if self.when_slow not in get_args(WhenSlow):
            raise InvalidSubscription(
                f"when_slow={self.when_slow!r} is no policy."
                + suggestion(str(self.when_slow), get_args(WhenSlow))
            )
        if not (isinstance(self.keep, int) and self.keep > 0):
            raise InvalidSubscription(f"keep is a number of events above 0, not {self.keep!r}.")
        if not (isinstance(self.patience, int | float) and self.patience > 0):
            raise InvalidSubscription(f"patience is in seconds, above 0, not {self.patience!r}.")
        set_ = object.__setattr__  # it is frozen
        set_(self, "drops", self.when_slow in ("drop_oldest", "drop_newest"))
        set_(self, "disconnects", self.when_slow == "disconnect")


@dataclass(slots=True)
class Waiting:
    """A batch that waits for the consumer."""

    flow: int
    batch: Batch
    nbytes: int
    since: float  # when it came, in monotonic seconds
    gap: Gap | None = None  # what was dropped between the batch before and this one

    def __len__(self) -> int:
        return len(self.batch)

    def split(self, rows: int) -> tuple[Waiting, Waiting]:
        """The first `rows`, and the others."""
        first = self.batch.slice(0, rows)
        others = self.batch.slice(rows, len(self) - rows)
        nbytes = first.nbytes
        return (
            Waiting(self.flow, first, nbytes, self.since, self.gap),
            Waiting(self.flow, others, self.nbytes - nbytes, self.since),
        )


class Backlog:
    """Batches in order; credit bounds them."""

    dropped = 0  # events

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def oldest(self) -> float | None:
        """The time since which the first batch waits."""
        return self._waiting[0].since if self._waiting else None

    def put(self, waiting: Waiting) -> None:
        self._waiting.append(waiting)

    def take(self, rows: int | None = None) -> Waiting | None:
        """The first batch, or the first `rows` of it."""
        if not self._waiting:
            return None
        first = self._waiting.popleft()
        if rows is not None and len(first) > rows:
            first, others = first.split(rows)
            self._waiting.appendleft(others)
        return first

    def take_gap(self) -> Gap | None:
        """What was dropped before the first batch, or at the end. Returned once, then None."""
        return None


class DroppingBacklog(Backlog):
    """Holds at most `keep` events; others are dropped, the newest or the oldest."""

    def __init__(self, keep: int, *, newest: bool) -> None:
        super().__init__()
        self._keep = keep
        self._newest = newest
        self._rows = 0
        self._bytes = 0
        self._gap: Gap | None = None  # after all that waits

    def put(self, waiting: Waiting) -> None:
        if self._newest:
            room = self._keep - self._rows if self._bytes < KEEP_BYTES else 0
            if len(waiting) > room:
                waiting, dropped = waiting.split(room)
                self._append(waiting)
                self._gap = self._drop(dropped, self._gap)
            else:
                self._append(waiting)
            return
        self._append(waiting)
        while self._rows > self._keep:
            self._drop_first(self._rows - self._keep)
        while self._bytes > KEEP_BYTES and len(self._waiting) > 1:
            self._drop_first(len(self._waiting[0]))

    def take(self, rows: int | None = None) -> Waiting | None:
        if (first := super().take(rows)) is not None:
            self._rows -= len(first)
            self._bytes -= first.nbytes
        return first

    def take_gap(self) -> Gap | None:
        if self._waiting:
            gap, self._waiting[0].gap = self._waiting[0].gap, None
        else:
            gap, self._gap = self._gap, None
        return gap

    def _append(self, waiting: Waiting) -> None:
        if len(waiting) > 0:
            waiting.gap, self._gap = self._gap, None
            self._waiting.append(waiting)
            self._rows += len(waiting)
            self._bytes += waiting.nbytes

    def _drop_first(self, rows: int) -> None:
        dropped = self.take(rows)
        assert dropped is not None
        following = self._waiting[0]
        gap = self._drop(dropped, dropped.gap)
        following.gap = gap + following.gap if following.gap else gap

    def _drop(self, dropped: Waiting, before: Gap | None) -> Gap:
        self.dropped += len(dropped)
        seqs = dropped.batch.first_seq, dropped.batch.last_seq
        gap = Gap(len(dropped), {dropped.batch.supplier: seqs})
        return before + gap if before else gap


def backlog_of(policy: SlowPolicy) -> Backlog:
    if policy.drops:
        return DroppingBacklog(policy.keep, newest=policy.when_slow == "drop_newest")
    return Backlog()
