"""A filter whose events are of another type than those that it gets.

It declares that type as `output`. What it asks of the events before it computes anything is still
found in its code and evaluated at the source.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

import activebroker as ab
from activebroker import FIFOFilter, Shape


@dataclass(frozen=True)
class Recording:
    station: str
    active: bool
    samples: Annotated[np.ndarray, Shape(100)]


@dataclass(frozen=True)
class Peak:
    station: str
    hertz: float


class LoudestTone(FIFOFilter):
    output = Peak

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def enqueue(self, event):
        recording = event.content
        if not recording.active:
            return
        strength = np.abs(np.fft.rfft(recording.samples))
        tone = int(np.argmax(strength[1:])) + 1
        hertz = tone * self.rate / len(recording.samples)
        super().enqueue(event.replace(Peak(recording.station, hertz)))


def run(fabric: ab.Fabric) -> list[Peak]:
    recordings = fabric.channel("recordings", Recording)
    peaks = recordings.derive((LoudestTone, 1000.0))
    print(f"predicate: {peaks.extraction.predicate}")
    seconds = np.arange(100) / 1000.0
    with peaks.subscribe() as events, recordings.supplier("field") as field:
        for hertz, active in ((50.0, True), (120.0, False), (230.0, True)):
            wave = np.sin(2 * np.pi * hertz * seconds)
            field.publish(Recording("north", active, wave))
        recordings.close()
        got = [event.content for event in events]
    print(*got, sep="\n")
    return got


if __name__ == "__main__":
    with ab.Fabric() as fabric:
        run(fabric)
