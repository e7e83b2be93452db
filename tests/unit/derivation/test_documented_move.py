"""The diagram of a move in docs/derivation.md is what the machines do, in that order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from parties_for_tests import CONSUMER, DIRECTORY, Derivation, Stream

from derivation.protocol import Outcome

PAGE = Path(__file__).parents[3] / "docs" / "derivation.md"
(DIAGRAM,) = re.findall(r"```mermaid\n(sequenceDiagram.*?)```", PAGE.read_text(), re.DOTALL)
SOURCE, ORIGIN, DESTINATION = "source-0", "origin-0", "destination-0"
PARTIES = {"D": DIRECTORY, "J": SOURCE, "A": ORIGIN, "L": DESTINATION, "C": CONSUMER}
MARKERS = {"end marker": "EndMarkerReceived", "begin marker": "BeginMarkerReceived"}
EVENTS = 7


class Play:
    def __init__(self) -> None:
        self.run = Derivation(sources=1, origins=1, destinations=1, saves=False, events=EVENTS)
        swap = self.run.swaps[SOURCE]
        self._flows = {ORIGIN: swap.old[0], DESTINATION: swap.new}

    def arrow(self, source: str, target: str, what: str) -> None:
        numbers = [int(number) for number in re.findall(r"\d+", what)]
        if source == SOURCE:
            flow = source, target, self._flows[target]
            for number in numbers:
                assert self._go_on((SOURCE, SOURCE, "publish")) == number
                assert self._go_on(flow) == number
            if not numbers:
                assert type(self._go_on(flow)).__name__ == MARKERS[what]
        elif target == CONSUMER:
            output = source, target, "output"
            for number in numbers:
                assert self._go_on(output) == (SOURCE, number, number + 1)
            if not numbers:
                assert self._go_on(output) == source  # its flow ends
        else:
            message = self._go_on((source, target, "control"))
            assert type(message).__name__ == what
            if what == "HandOver":
                assert (message.state, message.buffer) == ({SOURCE: b"4"}, ((SOURCE, 4),))

    def note(self, party: str, what: str) -> None:
        task = {"loads the filter": "load", "stops": "capture"}.get(what)
        if task is not None:
            self._go_on((party, party, task))
        for number in re.findall(r"\d+", what):
            assert self.run.places[party].inbox[0] == (SOURCE, int(number))
            self._go_on((party, party, "filter"))

    def _go_on(self, stream: Stream) -> Any:
        """Let what is next in a stream happen; return what that is about."""
        happens: Any = self.run.streams[stream][0]
        self.run.go_on(stream)
        return happens.args[-1]


def test_the_diagram_can_be_played() -> None:
    play = Play()
    for line in DIAGRAM.splitlines():
        if found := re.match(r" +(\w)->>(\w): (.*)", line):
            play.arrow(PARTIES[found[1]], PARTIES[found[2]], found[3])
        elif found := re.match(r" +Note over (\w): (.*)", line):
            play.note(PARTIES[found[1]], found[2])
    assert [each.outcome for each in play.run.outcomes] == [Outcome.COMPLETED]
    assert play.run.delivered[SOURCE] == [(number, number + 1) for number in range(EVENTS)]
