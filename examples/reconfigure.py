"""A filter's parameter follows what its consumer has seen: the ten dearest bids so far.

The new limit counts upstream as well: bids below it do not leave their source any more.
"""

import heapq
from dataclasses import dataclass

import activebroker as ab
from activebroker import FIFOFilter

KEPT = 10


@dataclass(frozen=True)
class Bid:
    number: int
    price: int


class Above(FIFOFilter):
    parameters = ("limit",)

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def enqueue(self, event):
        if event.content.price > self.limit:
            super().enqueue(event)


def run(fabric: ab.Fabric) -> tuple[list[int], list[int]]:
    bids = fabric.channel("bids", Bid)
    above = bids.derive((Above, -1), at="atlanta")
    came: list[int] = []
    dearest: list[int] = []  # a heap
    with above.subscribe() as events:
        with bids.supplier("auction") as auction:
            for round in range(10):
                numbers = range(round * 100, round * 100 + 100)
                auction.publish_batch([Bid(number, number * 7919 % 1000) for number in numbers])
                auction.publish(Bid(-1, 10_000))  # the end of a round
                for event in events:
                    if event.content.number < 0:
                        break
                    came.append(event.content.price)
                    heapq.heappush(dearest, event.content.price)
                dearest = heapq.nlargest(KEPT, dearest)
                heapq.heapify(dearest)
                above.reconfigure(limit=dearest[0])
        bids.close()
    print(f"{len(came)} of 1,000 bids have come; the dearest are {sorted(dearest)}")
    return came, sorted(dearest)


if __name__ == "__main__":
    with ab.Fabric(brokers=["atlanta", "dallas"]) as fabric:
        run(fabric)
