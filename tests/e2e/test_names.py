"""A name in a fabric has one bearer, and the one who has it keeps it."""

from __future__ import annotations

import pytest

import activebroker as ab
from activebroker.core.errors import NameTaken
from activebroker.fabric import serve


def test_a_living_node_keeps_its_name() -> None:
    key = ab.generate_key()
    broker = serve("atlanta", "tcp://127.0.0.1:*", key)
    address = broker.transport.address
    assert address is not None
    try:
        with ab.connect(address, key, name="sensor") as sensor:
            readings = sensor.channel("readings", object)
            with pytest.raises(NameTaken, match="'sensor' is in the fabric already"):
                ab.connect(address, key, name="sensor")
            with pytest.raises(NameTaken, match="'sensor'"):
                serve("sensor", "tcp://127.0.0.1:*", key, join_address=address)
            with readings.subscribe(timeout=10) as events, readings.supplier() as supplier:
                supplier.publish(1)
                assert next(iter(events)).content == 1
        with ab.connect(address, key, name="sensor"):
            pass  # it has left, and its name is free
    finally:
        broker.stop()
