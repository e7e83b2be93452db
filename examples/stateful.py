"""A filter with a memory: each supplier's stream has its own instance of the class.

Here it forwards what differs from the value before by more than a step, the usual dead band of
telemetry, and runs at a broker between supplier and consumer.
"""

from dataclasses import dataclass

import activebroker as ab
from activebroker import FIFOFilter


@dataclass(frozen=True)
class Level:
    metres: float


class DeadBand(FIFOFilter):
    def __init__(self, step: float) -> None:
        self.step = step
        self.last: float | None = None

    def enqueue(self, event):
        metres = event.content.metres
        if self.last is None or abs(metres - self.last) > self.step:
            self.last = metres
            super().enqueue(event)


def run(fabric: ab.Fabric) -> dict[str, list[float]]:
    levels = fabric.channel("levels", Level)
    changes = levels.derive((DeadBand, 0.5), at="atlanta")
    got: dict[str, list[float]] = {"Rhine": [], "Elbe": []}
    with changes.subscribe() as events:
        rhine, elbe = levels.supplier("Rhine"), levels.supplier("Elbe")
        for rise in range(10):
            rhine.publish(Level(3.0 + rise / 4))
            elbe.publish(Level(2.0 + rise / 100))
        levels.close()
        for event in events:
            got[event.supplier].append(event.content.metres)
    print(f"of ten levels each: {got}")
    return got


if __name__ == "__main__":
    with ab.Fabric(brokers=["atlanta"]) as fabric:
        run(fabric)
