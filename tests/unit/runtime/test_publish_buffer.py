"""The supplier's end: how long it waits, and what becomes of events that cannot be encoded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from activebroker.core.errors import Closed, DeadlineExceeded, EventRefused, Unreachable
from activebroker.events import EventType
from activebroker.runtime import PublishBuffer, publishing


@dataclass(frozen=True)
class Listed:
    items: list[int]


def buffer() -> PublishBuffer:
    return PublishBuffer("channel", "A", EventType.of(Listed))


class Clock:
    """Time that passes only while somebody waits for room: a second at a time, and then `then`."""

    def __init__(self, buffer: PublishBuffer, then: Callable[[], object]) -> None:
        self.now = 0.0
        self._buffer, self._then = buffer, then

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return 0

    def wait(self, seconds: float) -> bool:
        self.now += min(1.0, seconds)
        self._buffer._lock.release()
        self._then()
        self._buffer._lock.acquire()
        return True


def timed(monkeypatch: pytest.MonkeyPatch, then: Callable[[PublishBuffer], object]) -> Any:
    made = buffer()
    clock = Clock(made, lambda: then(made))
    monkeypatch.setattr(publishing, "time", clock)
    monkeypatch.setattr(made._room, "wait", clock.wait)
    for number in range(publishing.FIRST_ROWS):
        made.put_table([Listed([number])], 1.0)  # each is a part of its own
    monkeypatch.setattr(made, "_with_followers", lambda part: [part])
    return made, clock


@pytest.mark.parametrize("wait", ["put", "put_table", "flush"])
def test_no_wait_gives_up_while_something_is_taken(
    wait: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, clock = timed(monkeypatch, PublishBuffer.take)
    made._limit = publishing.FIRST_ROWS
    monkeypatch.setattr(publishing, "ROOM_ROWS", publishing.FIRST_ROWS)
    waits: dict[str, Callable[[], object]] = {
        "put": lambda: made.put(Listed([1]), 2.5),
        "put_table": lambda: made.put_table([Listed([1])], 2.5),
        "flush": lambda: made.flush(2.5),
    }
    waits[wait]()
    assert clock.now > publishing.FIRST_ROWS / 2 - 1


def test_a_wait_ends_when_nothing_is_taken_for_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    made, clock = timed(monkeypatch, lambda made: clock.now < 10 and made.take())
    monkeypatch.setattr(publishing, "ROOM_ROWS", publishing.FIRST_ROWS)
    with pytest.raises(DeadlineExceeded, match=r"nothing .* was taken for 2.5 s"):
        made.put(Listed([1]), 2.5)
    assert 11 < clock.now < 13
    began = clock.now
    with pytest.raises(DeadlineExceeded, match=r"taken the last 55 events .* does not keep up"):
        made.flush(5.0, until=began + 1.5)
    assert clock.now == began + 1.5


def test_who_waits_for_its_next_node_is_not_taken_to_have_slow_consumers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def pass_(made: PublishBuffer) -> None:
        if clock.now == 9:
            made.attach(lambda: None)
        if clock.now >= 18:
            made.take()

    made, clock = timed(monkeypatch, pass_)
    made.put_back([])
    for wait in (lambda: made.flush(5.0), lambda: made.put(Listed([1]), 2.0)):
        with pytest.raises(DeadlineExceeded, match="lost its fabric, and is not back"):
            wait()
    assert clock.now == 7
    made.flush(10.0)  # until there is one, and then until that takes
    assert clock.now > 18


@pytest.mark.parametrize("bad", [[0], [3], [1, 5], [39], list(range(40))])
@pytest.mark.parametrize("say", ["put", "put_table", "flush"])
def test_events_that_cannot_be_encoded_are_left_out_and_told_once(bad: list[int], say: str) -> None:
    made = buffer()
    contents = [Listed([number]) for number in range(40)]
    for content in contents:
        made.put(content, 1.0)
    for number in bad:
        contents[number].items[0] = "changed since"  # type: ignore[call-overload]
    taken: list[Any] = []
    while (batch := made.take()) is not None:
        taken += zip(batch.seqs.tolist(), batch.contents(), strict=True)
    assert taken == [(n, contents[n]) for n in range(40) if n not in bad]
    says: dict[str, Callable[[], object]] = {
        "put": lambda: made.put(Listed([1]), 1.0),
        "put_table": lambda: made.put_table([Listed([1])], 1.0),
        "flush": lambda: made.flush(1.0),
    }
    text = f"^{len(bad)} events .* could not be encoded.* number {bad[0]}: "
    with pytest.raises(EventRefused, match=text):
        says[say]()
    says[say]()


def test_what_is_too_large_for_a_frame_is_cut_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activebroker.events.building.MOST_BYTES", 1000)
    monkeypatch.setattr(publishing, "BATCH_BYTES", 500)
    made = buffer()
    sizes = [30, 30, 30, 30, 300, 30, 30, 30]
    for size in sizes:
        made.put(Listed([1] * size), 1.0)
    batches = []
    while (batch := made.take()) is not None:
        batches.append(batch)
    assert all(batch.nbytes <= 1000 for batch in batches)
    assert [seq for batch in batches for seq in batch.seqs] == [0, 1, 2, 3, 5, 6, 7]
    with pytest.raises(EventRefused, match=r"number 4: .*too large, 1,000 may go"):
        made.flush(1.0)
    with pytest.raises(EventRefused, match=r"row 1: .*too large"):
        made.put_table([Listed([1]), Listed([1] * 300)], 1.0)
    assert made.put_table([Listed([1] * 30)] * 20, 1.0) == 20
    assert made.published == len(sizes) + 20


def test_who_waits_hears_of_the_end() -> None:
    made = buffer()
    for number in range(publishing.FIRST_ROWS):
        made.put(Listed([number]), 1.0)
    raised: list[Exception] = []

    def wait() -> None:
        try:
            made.put(Listed([1]), 60.0)
        except Unreachable as error:
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    made.fail(Unreachable("It is gone."), 3)
    waiting.join(30)
    assert len(raised) == 1 and f"last {publishing.FIRST_ROWS - 3} events" in str(raised[0])


def test_the_first_reason_counts_unless_events_were_lost() -> None:
    made = buffer()
    made.put(Listed([1]), 1.0)
    made.close(Closed("first"))
    made.close(Closed("second"))
    made.fail(Unreachable("third"), 1)
    with pytest.raises(Closed, match="first"):
        made.put(Listed([1]), 1.0)
    made.fail(Unreachable("fourth"), 0)
    with pytest.raises(Unreachable, match=r"fourth .* the last 1 events"):
        made.put(Listed([1]), 1.0)
