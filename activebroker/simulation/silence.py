"""Who was silent to whom, and may be taken for lost because of it."""

from __future__ import annotations

from activebroker.simulation.scenario import SHORT

HEARD = 3.0  # seconds without a fault in which a peer is surely heard


class Silence:
    """Remembers spells of silence, which may follow on each other."""

    def __init__(self) -> None:
        self._spells: dict[tuple[str, str], tuple[float, float]] = {}  # who, to whom: from, until
        self._excused: dict[str, float] = {}  # until when one was silent for longer than SHORT

    def begins(self, who: str, to: str, now: float, seconds: float, cut: bool = False) -> None:
        """Nothing of a host reaches another for a while, which may follow on another such."""
        since, until = self._spells.get((who, to), (now, now))
        if now > until + HEARD:
            since = now
        until = max(until, now + seconds)
        self._spells[who, to] = since, until
        if until - since > SHORT:
            # Of two that are cut off from each other, the directory chooses.
            for name in (who, to) if cut else (who,):
                self.excuse(name, until)

    def excuse(self, name: str, until: float) -> None:
        """Processes that began before may be taken for lost."""
        self._excused[name] = max(until, self._excused.get(name, 0.0))

    def excuses(self, name: str, born: float) -> bool:
        """Whether a process that began then was silent, to somebody, for so long that it may be
        expelled."""
        return born <= self._excused.get(name, -1.0)

    def hears(self, now: float, one: str, other: str) -> bool:
        """Whether nothing keeps two from each other, nor has just now."""
        spells = [self._spells.get(way) for way in ((one, other), (other, one))]
        return all(spell is None or spell[1] < now - HEARD for spell in spells)

    def over(self, now: float, *names: str) -> bool:
        """Whether all who were silent, or to whom one was, have been heard since."""
        return all(
            until < now - HEARD
            for (who, to), (_, until) in self._spells.items()
            if who in names or to in names
        )
