"""What becomes of a filter's mistakes: an event that makes it raise is lost, counted and reported.

The stream goes on. `on_error = "stop"` in the class would end it instead.
"""

from dataclasses import dataclass

import activebroker as ab
from activebroker import FIFOFilter


@dataclass(frozen=True)
class Sample:
    amount: float
    parts: int


class LargeParts(FIFOFilter):
    def enqueue(self, event):
        sample = event.content
        if sample.amount / sample.parts > 10.0:
            super().enqueue(event)


def run(fabric: ab.Fabric) -> tuple[list[float], list[str]]:
    samples = fabric.channel("samples", Sample)
    large = samples.derive(LargeParts)
    with large.subscribe() as events, samples.supplier("scale") as scale:
        scale.publish(Sample(100.0, 5))
        scale.publish(Sample(100.0, 0))
        scale.publish(Sample(100.0, 50))
        samples.close()
        got = [event.content.amount / event.content.parts for event in events]
    large.errors.wait(1)
    for failure in large.errors:
        print(f"{failure.filter}, event {failure.seq} of {failure.supplier}: {failure.error}")
        print(failure.traceback)
    print(f"forwarded: {got}, lost: {len(large.errors)}")
    return got, [failure.error for failure in large.errors]


if __name__ == "__main__":
    with ab.Fabric() as fabric:
        run(fabric)
