"""Spreading consumers over brokers: the fewest streams on the fullest uplink."""

from __future__ import annotations

import doctest
from itertools import product

import pytest
import spread as module
from spread import best_spread, spread, streams_over_levels


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


def test_brokers_that_feed_brokers_are_never_worse():
    for brokers in range(7):
        assert streams_over_levels(16, brokers) <= spread(16, brokers).streams
