"""State by key: the mean of each minute for each sensor, by the time at which it measured.

Readings come out of order. A timer ends a minute when no reading of it can come any more that is
not late; the filter moves to another broker in the middle of a minute.
"""

from dataclasses import dataclass

import activebroker as ab


@dataclass(frozen=True)
class Reading:
    sensor: str
    at: float  # seconds
    celsius: float


@dataclass(frozen=True)
class Mean:
    sensor: str
    until: float
    celsius: float


class Minutes(ab.KeyedFilter):
    key = "sensor"
    time = "at"
    lateness = 5.0
    output = Mean

    def __init__(self) -> None:
        self.minutes: dict[float, list[float]] = {}

    def enqueue(self, event):
        reading = event.content
        until = reading.at // 60 * 60 + 60
        self.minutes.setdefault(until, []).append(reading.celsius)
        self.set_timer(until)

    def on_timer(self, time):
        values = self.minutes.pop(time)
        self.forward(Mean(self.key, time, sum(values) / len(values)))


def run(fabric: ab.Fabric) -> tuple[list[Mean], int]:
    readings = fabric.channel("readings", Reading)
    means = readings.derive(Minutes, at="atlanta")
    with means.subscribe() as events, readings.supplier("hall") as hall:
        for at in range(0, 180, 10):
            hall.publish(Reading("door", float(at), at / 10))
            hall.publish(Reading("roof", at - 3.0, 20.0))  # which is slower
            if at == 90:
                means.move(to="dallas")
        hall.publish(Reading("roof", 100.0, 99.0))  # later than allowed: lost, and reported
        readings.close()
        got = [event.content for event in events]
    assert means.errors.wait(1)
    for mean in got:
        print(mean)
    print(*means.errors, sep="\n")
    return got, len(means.errors)


if __name__ == "__main__":
    with ab.Fabric(brokers=["atlanta", "dallas"]) as fabric:
        run(fabric)
