"""The subscription of the active-broker papers: an ordinary class decides what is forwarded.

Its predicate is found in its code and evaluated where the trades are published, on whole columns;
since the predicate says all that the class does, the class itself never has to run.
"""

from dataclasses import dataclass

import activebroker as ab
from activebroker import FIFOFilter


@dataclass(frozen=True)
class Trade:
    name: str
    price: float


class MySubscription(FIFOFilter):
    def enqueue(self, event):
        s = event.content
        if s.name == "IBM":  # noqa: SIM114 - as the papers print it
            super().enqueue(event)
        elif s.price > 100:
            super().enqueue(event)


def run(fabric: ab.Fabric) -> list[Trade]:
    trades = fabric.channel("paper trades", Trade)
    wanted = trades.derive(MySubscription)
    print(f"{wanted.extraction.predicate}   (exact: {wanted.extraction.exact})")
    with wanted.subscribe() as events, trades.supplier("NYSE") as nyse:
        nyse.publish(Trade("IBM", 90.0))
        nyse.publish(Trade("HP", 40.0))
        nyse.publish(Trade("HP", 120.0))
        trades.close()
        got = [event.content for event in events]
    print(*got, sep="\n")
    return got


if __name__ == "__main__":
    with ab.Fabric() as fabric:
        run(fabric)
