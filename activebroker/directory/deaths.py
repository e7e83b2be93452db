"""How often processes died with a filter or a relay, and when it is taken for the cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from activebroker.protocol.specs import NOWHERE, Offsets

MINUTE = 60.0
# Seconds before the filter goes on: after the second death within a minute, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 8.0
LOADING = ""  # in place of a supplier: the process died while it loaded the filter


@dataclass(frozen=True, slots=True)
class Budget:
    """What recovery may cost: deaths of brokers with one filter, by one event and in a minute."""

    by_one_event: int = 3
    in_a_minute: int = 5

    @property
    def suspect(self) -> int:
        """After how many deaths by one event a filter runs apart from others, so that one more
        death shows which of them is the cause."""
        return max(1, self.by_one_event - 1)


@dataclass(slots=True)
class Record:
    """The deaths of processes that ran one filter or relay."""

    # How far it had come at each of the last `count` deaths, by supplier with events under way.
    stuck: Offsets = field(default_factory=dict)
    count: int = 0
    hosts: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    placed: float | None = None  # since when it has its present place; None: it has none

    def died(self, host: str, now: float, stuck: Offsets) -> None:
        """Note a death. `stuck`: how far the filter has come, by supplier with events under
        way."""
        if self.times and self.placed is None:
            stuck = {**stuck, LOADING: NOWHERE}
        still = {name: at for name, at in self.stuck.items() if stuck.get(name) == at}
        self.count = self.count + 1 if still else int(bool(stuck))
        self.stuck = still or stuck
        self.times = [*self.recent(now), now]
        self.hosts = [*self.hosts, host][-max(self.count, len(self.times), 1) :]
        self.placed = None

    def by_one_event(self, inputs: Offsets) -> int:
        """How many deaths one event may have caused: none if the filter, which has come to
        `inputs`, is past it."""
        stays = any(inputs.get(name, NOWHERE) == at for name, at in self.stuck.items())
        return self.count if stays else 0

    def recent(self, now: float) -> list[float]:
        return [at for at in self.times if now - at < MINUTE]

    def pause(self, now: float) -> float:
        """Seconds until the filter may go on."""
        times = self.recent(now)
        if len(times) < 2:
            return 0.0
        return times[-1] + min(FIRST_PAUSE * 2.0 ** (len(times) - 2), LONGEST_PAUSE) - now

    def spent(self, budget: Budget, inputs: Offsets, now: float) -> str:
        """Why the filter is not to go on any more; empty if it may."""
        if self.by_one_event(inputs) >= budget.by_one_event:
            return self.story()
        if len(times := self.recent(now)) >= budget.in_a_minute:
            return f"{self._died(len(times))} within {MINUTE:g} s"
        return ""

    def story(self) -> str:
        """Which processes died, and the events that may have done it."""
        if LOADING in self.stuck:
            return f"{self._died(self.count)}, while it was loaded"
        of = (f"event {max(seq, 0)} of supplier {name!r}" for name, (_, seq) in self.stuck.items())
        return f"{self._died(self.count)}, each time at {' or '.join(of)}, or soon after"

    def _died(self, count: int) -> str:
        died = "1 process" if count == 1 else f"{count} processes"
        return f"{died} died with it ({', '.join(map(repr, self.hosts[-count:]))})"


def acquit(
    died: Sequence[tuple[Record, Offsets]], records: Iterable[Record], budget: Budget, now: float
) -> None:
    """Take deaths off the records of filters that cannot have been their cause.

    `died` are the filters with which a process died `now`, each with how far it has come. A filter
    that had nothing to do is not blamed if another had. Once a filter is found to be the cause, by
    its last event, no other is blamed for the deaths that it was involved in.
    """
    if any(record.stuck for record, _ in died):
        for record, _ in died:
            if not record.stuck:
                record.times.remove(now)
    for cause, inputs in died:
        if cause.by_one_event(inputs) >= budget.by_one_event:
            for record in records:
                if record is not cause:
                    record.times = [at for at in record.times if at not in cause.times]
