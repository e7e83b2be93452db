"""Third-party derivation: a filter moves from broker to broker while events flow.

Its state moves with it, and the consumer, which is not asked, gets each event once and in order.
"""

import itertools
import threading
from dataclasses import dataclass

import activebroker as ab
from activebroker import FIFOFilter


@dataclass(frozen=True)
class Tick:
    number: int


class EveryTenth(FIFOFilter):
    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event):
        self.seen += 1
        if self.seen % 10 == 0:
            super().enqueue(event)


def run(fabric: ab.Fabric) -> list[int]:
    ticks = fabric.channel("ticks", Tick)
    tenth = ticks.derive(EveryTenth, at="consumer")

    enough = threading.Event()

    def publish() -> None:
        numbers = itertools.count()
        with ticks.supplier("clock") as clock:
            while not enough.is_set():
                clock.publish(Tick(next(numbers)))
        ticks.close()

    got = []
    places = {200: "atlanta", 800: "dallas", 1400: "supplier"}
    clock = threading.Thread(target=publish)
    with tenth.subscribe() as events:
        clock.start()
        for event in events:
            got.append(event.content.number)
            if len(got) in places:
                place = places[len(got)]
                tenth.move(to=place)
                print(f"after {len(got)} events the filter has moved to {place}")
            if len(got) == 2000:
                enough.set()
    clock.join()
    complete = got == list(range(9, got[-1] + 1, 10))
    print(f"{len(got):,} events, complete and in order: {complete}")
    return got


if __name__ == "__main__":
    with ab.Fabric(brokers=["atlanta", "dallas"]) as fabric:
        run(fabric)
