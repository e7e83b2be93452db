"""A weak device joins a fabric by its address. It needs the core install alone: no Ray, no Spark.

Started with an address this program is the device. Without one it starts a broker and a consumer
here, and the device as a process of its own; the consumer's filter travels into the device, so
that only what the consumer wants leaves it.
"""

import subprocess
import sys
from dataclasses import dataclass
from os import environ

import activebroker as ab
from activebroker.fabric import serve


@dataclass(frozen=True)
class Reading:
    celsius: float


def measure(address: str) -> None:
    """The device: the key is in its environment, as ACTIVEBROKER_KEY."""
    with ab.connect(address) as fabric:
        readings = fabric.channel("readings", Reading)
        with readings.supplier("boiler") as boiler:
            for step in range(100):
                boiler.publish(Reading(60.0 + step / 2))


def run(address: str, key: str) -> list[float]:
    """A consumer on the fabric at `address`, with the device in another process."""
    with ab.connect(address, key) as fabric:
        readings = fabric.channel("readings", Reading)
        hot = readings.derive(lambda reading: reading.celsius >= 108)
        with hot.subscribe() as events:
            device = [sys.executable, __file__, address]
            subprocess.run(device, env={**environ, "ACTIVEBROKER_KEY": key}, check=True)
            readings.close()
            got = [event.content.celsius for event in events]
    print(f"of 100 readings, the device sent {got}")
    return got


def main() -> list[float]:
    key = ab.generate_key()
    broker = serve("hub", "tcp://127.0.0.1:*", key)
    try:
        return run(broker.transport.address, key)
    finally:
        broker.stop()


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(sys.argv[1])
    else:
        main()
