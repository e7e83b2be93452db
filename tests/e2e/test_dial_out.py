"""Two processes that cannot be dialled do not reach each other, and are told so."""

from __future__ import annotations

import pytest

import activebroker as ab
from activebroker.core.errors import Unreachable
from activebroker.fabric import serve

PATIENCE = 30.0


def test_two_that_dial_out_only_need_a_broker_between() -> None:
    key = ab.generate_key()
    broker = serve("atlanta", "tcp://127.0.0.1:*", key)
    address = broker.transport.address
    assert address is not None
    try:
        with (
            ab.connect(address, key, name="meter", listen=False) as meter,
            ab.connect(address, key, name="viewer", listen=False) as viewer,
        ):
            readings = meter.channel("readings", object)
            supplier = readings.supplier("first")
            with pytest.raises(Unreachable, match="'meter' and 'viewer' dial out only"):
                viewer.channel("readings").subscribe()
            passed = readings.derive(lambda number: number > 0, at="atlanta", name="passed")
            with pytest.raises(Unreachable, match="dial out only"):
                viewer.channel("readings").derive(lambda number: number > 0, at="consumer")
            with viewer.channel("passed").subscribe(timeout=PATIENCE) as events:
                supplier.publish(1)
                assert next(iter(events)).content == 1
                with pytest.raises(Unreachable, match="dial out only"):
                    passed.move(to="supplier")
                supplier.publish(2)
                assert next(iter(events)).content == 2
    finally:
        broker.stop()
