"""Reports and tables of the statuses of true, embedded fabrics."""

from __future__ import annotations

import io
import itertools
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from rich.console import Console

import activebroker as ab
from activebroker.observe import Flow, Report, report, tables


@dataclass(frozen=True)
class Trade:
    name: str
    price: float


class Dear(ab.FIFOFilter):
    def enqueue(self, event: ab.Event) -> None:
        if event.content.price > 100:
            super().enqueue(event)


@pytest.fixture(scope="module")
def statuses() -> list[dict[str, Any]]:
    """A fabric's status with nothing published, and after ten events."""
    with ab.Fabric(brokers=["atlanta"]) as fabric:
        trades = fabric.channel("trades", Trade)
        dear = trades.derive(Dear, at="atlanta", name="dear [red]")
        taken = dear.subscribe(timeout=10.0)
        nyse = trades.supplier("NYSE")
        before = fabric.status()
        nyse.publish_batch([Trade("IBM", 30.0 * n) for n in range(10)])
        assert len(list(itertools.islice(taken, 6))) == 6
        return [before, fabric.status()]


def shown(report: Report) -> str:
    out = Console(file=io.StringIO(), width=200)
    out.print(tables(report))
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_channels_say_how_they_are_derived(statuses: list[dict[str, Any]]) -> None:
    trades, dear = report(statuses[0], at=0.0).channels
    assert (trades.name, trades.predicate, trades.suppliers) == ("trades", None, ["NYSE"])
    assert (dear.parent, dear.at, dear.filter) == ("trades", "atlanta", "Dear")
    assert (dear.predicate, dear.exact, dear.consumers) == ("price > 100", True, 1)


def test_the_observer_is_left_out(statuses: list[dict[str, Any]]) -> None:
    nodes = report(statuses[0], at=0.0, observer="local").nodes
    assert [node.name for node in nodes] == ["atlanta"]
    assert nodes[0].broker and nodes[0].stages == 1


def test_rates_are_growth_over_time(statuses: list[dict[str, Any]]) -> None:
    earlier = report(statuses[0], at=100.0)
    later = report(statuses[1], at=102.0, earlier=earlier)
    (stage,) = later.derivations
    assert stage.per_second is not None
    assert (stage.taken_events, stage.per_second["taken_events"]) == (6, 3.0)


def test_a_report_without_an_earlier_one_has_no_rates(statuses: list[dict[str, Any]]) -> None:
    rows = report(statuses[1], at=0.0)
    assert all(row.per_second is None for row in [*rows.derivations, *rows.flows])


EMPTY: dict[str, Any] = {"members": [], "channels": [], "moves": [], "ended_moves": []}


def flow_status(**counters: int) -> dict[str, Any]:
    flow = {
        "channel": "trades", "supplier": "NYSE", "target": "atlanta", "outlet": 1, "inlet": 2,
        "offered_events": 10, "offered_bytes": 1000, "sent_events": 1, "sent_bytes": 100,
        "waiting": 0,
    }  # fmt: skip
    node = {"flows": [flow | counters], "stages": [], "moves": [], "links": {}, "cpu_seconds": 4.0}
    return {**EMPTY, "nodes": {"nyse": node}}


def flow_after(**counters: int) -> Flow:
    earlier = report(flow_status(), at=0.0)
    (flow,) = report(flow_status(**counters), at=2.0, earlier=earlier).flows
    return flow


def cpu_status(seconds: float) -> dict[str, Any]:
    stage = {
        "id": 3, "channel": "dear", "taken_events": 50, "python_events": 50, "emitted_events": 5,
        "lost_events": 0, "backlog": 2, "queue_length": 1234, "cpu_seconds": seconds,
    }  # fmt: skip
    node = {"flows": [], "stages": [stage], "moves": [], "links": {}, "cpu_seconds": 9 + seconds}
    member = {"name": "atlanta", "address": None, "broker": True}
    return {**EMPTY, "members": [member], "nodes": {"atlanta": node}}


def test_the_share_of_a_cpu_is_what_filters_used_in_between() -> None:
    earlier = report(cpu_status(10.0), at=0.0)
    later = report(cpu_status(11.0), at=4.0, earlier=earlier)
    (stage,), (node,) = later.derivations, later.nodes
    assert stage.per_second is not None and stage.per_second["cpu_seconds"] == 0.25
    assert node.per_second == {"cpu_seconds": 0.25}
    rows = [line for line in shown(later).splitlines() if "atlanta" in line]
    assert len(rows) == 2 and all("25.0%" in row for row in rows)
    assert "1,234" in rows[1]
    assert report(cpu_status(5.0), at=8.0, earlier=later).nodes[0].per_second is None


def test_a_flow_has_rates_of_events_and_bytes() -> None:
    assert flow_after(offered_events=30, offered_bytes=3000, sent_events=3).per_second == {
        "offered_events": 10.0,
        "offered_bytes": 1000.0,
        "sent_events": 1.0,
        "sent_bytes": 0.0,
    }


@pytest.mark.parametrize("changed", [{"offered_events": 5}, {"outlet": 7}, {"inlet": 7}])
def test_a_flow_that_began_again_has_no_rates(changed: dict[str, int]) -> None:
    assert flow_after(**changed).per_second is None


def test_two_looks_at_one_time_give_no_rates() -> None:
    earlier = report(flow_status(), at=5.0)
    assert report(flow_status(), at=5.0, earlier=earlier).flows[0].per_second is None


def test_tables_show_names_literally(statuses: list[dict[str, Any]]) -> None:
    text = shown(report(statuses[0], at=0.0))
    for expected in ("dear [red]", "price > 100", "NYSE at local", "atlanta", "Derivations"):
        assert expected in text


def test_tables_show_rates_and_the_share_that_was_sent() -> None:
    earlier = report(flow_status(), at=0.0)
    later = report(flow_status(offered_events=2010), at=2.0, earlier=earlier)
    row = next(line for line in shown(later).splitlines() if "NYSE at nyse" in line)
    assert "1,000" in row and "10.0%" in row


def test_an_empty_fabric_shows_its_members_only() -> None:
    with ab.Fabric(brokers=["atlanta"]) as fabric:
        text = shown(report(fabric.status(), at=0.0))
    assert "atlanta" in text
    assert "Flows" not in text and "Moves" not in text


def test_a_report_is_json(statuses: list[dict[str, Any]]) -> None:
    whole = report(statuses[1], at=1.0)
    assert msgspec.json.decode(msgspec.json.encode(whole), type=Report) == whole
