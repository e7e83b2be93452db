"""Spreading consumers over brokers: the fewest streams on the fullest uplink."""

from __future__ import annotations

import doctest
from itertools import product

import pytest
import spread as module
from spread import best_spread, levels, spread


def test_the_examples():
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("brokers", range(4))
@pytest.mark.parametrize("consumers", [4, 7, 16])
def test_no_other_spread_has_fewer_streams(consumers, brokers):
    found = spread(consumers, brokers)
    assert found.direct + sum(found.relayed) == consumers
    assert all(found.relayed)
    every = product(range(1, consumers + 1), repeat=brokers)
    possible = (each for each in every if sum(each) <= consumers)
    assert found.streams == min(max(consumers - sum(each) + brokers, *each, 0) for each in possible)


def test_the_best_takes_no_more_brokers_than_it_needs():
    best = best_spread(16, 6)
    fewer = [spread(16, brokers).streams for brokers in range(len(best.relayed))]
    more = [spread(16, brokers).streams for brokers in range(len(best.relayed), 7)]
    assert min(fewer) > best.streams == min(more)


@pytest.mark.parametrize("brokers", range(15))
def test_brokers_that_feed_brokers(brokers):
    found = levels(16, brokers)
    assert sum(found.served) == 16
    for number, consumers in enumerate(found.served):
        assert 0 <= consumers <= found.streams - found.feeders.count(number)
    assert all(feeder <= broker for broker, feeder in enumerate(found.feeders))
    assert found.streams <= spread(16, brokers).streams
