"""Half of what a broker's filters do moves to another broker while events flow."""

from __future__ import annotations

from typing import Any

import pytest
from trading_for_tests import PATIENCE, Count, Counted, Publishing, Trade, eventually, trades

import activebroker as ab
from activebroker.core.errors import MoveFailed, UnknownPlace


@pytest.fixture
def channel(fabric: ab.Fabric) -> ab.Channel:
    return fabric.channel("trades", Trade)


def places(fabric: ab.Fabric) -> dict[str, tuple[str, list[str]]]:
    """Of each derived channel: what its place is called, and the nodes it runs at."""
    return {
        each["name"]: (each["at"], [stage["node"] for stage in each["stages"]])
        for each in fabric.status()["channels"]
        if each["parent"] is not None
    }


def counted(count: int) -> list[Counted]:
    return [Counted(float(price), price + 1) for price in range(count)]


def taken(fabric: ab.Fabric, channel: str) -> int:
    """How many events a channel's filter at atlanta has taken."""
    stages = fabric.status()["nodes"]["atlanta"]["stages"]
    return sum(stage["taken_events"] for stage in stages if stage["channel"] == channel)


def test_half_of_a_chain_moves_while_events_flow(fabric: ab.Fabric, channel: ab.Channel) -> None:
    first = channel.derive(Count, at="atlanta", name="first")
    second = first.derive(Count, at="atlanta", name="second")
    last = second.derive(lambda content: content.count > 0, at="atlanta", name="last")
    with last.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        with Publishing(nyse) as publishing:
            eventually(lambda: taken(fabric, "second") > 0, "nothing comes")
            assert fabric.split("atlanta", to="dallas") == ["last", "second"]
            publishing.go_on()
            assert places(fabric) == {
                "first": ("atlanta", ["atlanta"]),
                "second": ("dallas", ["dallas"]),
                "last": ("dallas", ["dallas"]),
            }
            assert fabric.split("atlanta", to="dallas") == []
        channel.close()
        assert [event.content for event in events] == counted(publishing.count)


def test_the_work_is_what_was_done_there(fabric: ab.Fabric, channel: ab.Channel) -> None:
    for name in ("a", "b", "c"):
        channel.derive(Count, at="atlanta", name=name)
    others = fabric.channel("others", Trade)
    others.derive(Count, at="atlanta", name="busy")
    with others.supplier("LSE") as lse, channel.supplier("NYSE") as nyse:
        assert fabric.split("atlanta", to="dallas") == ["b", "a"]  # none has done anything
        assert fabric.split("dallas", to="atlanta") == ["a"]
        assert fabric.split("dallas", to="atlanta") == []
        nyse.publish_batch(trades(1, 2))
        lse.publish_batch(trades(*range(100)))
        done = {"a": 2, "c": 2, "busy": 100}
        eventually(lambda: {name: taken(fabric, name) for name in done} == done, "not all is taken")
        # One does nearly all, so the others go.
        assert fabric.split("atlanta", to="dallas") == ["c", "a"]


def test_what_runs_beside_a_filter_is_beside_it_again(
    fabric: ab.Fabric, channel: ab.Channel
) -> None:
    first = channel.derive(Count, at="atlanta", name="first")
    second = first.derive(Count, at="atlanta", name="second")
    beside = second.derive(Count, at="supplier", name="beside")
    nearest = beside.derive(lambda content: content.count > 1, at="supplier", name="nearest")
    with nearest.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        with Publishing(nyse) as publishing:
            eventually(lambda: taken(fabric, "second") > 0, "nothing comes")
            assert fabric.split("atlanta", to="dallas") == ["nearest", "beside", "second"]
            publishing.go_on()
            assert places(fabric) == {
                "first": ("atlanta", ["atlanta"]),
                "second": ("dallas", ["dallas"]),
                "beside": ("supplier", ["dallas"]),
                "nearest": ("supplier", ["dallas"]),
            }
            with pytest.raises(MoveFailed, match="move 'beside' first"):
                second.move("atlanta")
        channel.close()
        assert [event.content for event in events] == counted(publishing.count)[1:]


def test_a_move_that_fails_ends_it(
    fabric: ab.Fabric, channel: ab.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    derived = {
        name: channel.derive(Count, at="atlanta", name=name) for name in ("a", "b", "c", "d", "e")
    }
    for number in range(5):
        channel.derive(Count, at="atlanta", name=f"other {number}")
    move = fabric._membership.move

    def closing(name: str, *to: Any) -> None:
        if name == "c":
            derived["c"].close()  # as another user may in the meantime
        move(name, *to)

    monkeypatch.setattr(fabric._membership, "move", closing)
    nyse = channel.supplier("NYSE")
    with (
        derived["a"].subscribe(timeout=PATIENCE) as left,
        derived["e"].subscribe(timeout=PATIENCE) as moved,
    ):
        with pytest.raises(MoveFailed) as failed:
            fabric.split("atlanta", to="dallas")  # none has done anything: by name
        nyse.publish_batch(trades(0, 1, 2))
        there = [name for name, (at, _) in places(fabric).items() if at == "dallas"]
        channel.close()
        assert [event.content for event in left] == counted(3)
        assert [event.content for event in moved] == counted(3)
    assert str(failed.value) == (
        "'atlanta' was not split to the end, since channel 'c' did not move to 'dallas': Channel "
        "'c' was closed. Moved to 'dallas' before: 'e', 'd'. Left where they were: 'b', 'a'."
    )
    assert there == ["d", "e"]


def test_nothing_to_move(fabric: ab.Fabric, channel: ab.Channel) -> None:
    assert fabric.split("atlanta", to="dallas") == []
    channel.derive(Count, at="atlanta")
    channel.derive(Count, at="consumer")
    assert fabric.split("atlanta", to="dallas") == []


def test_a_place_that_is_no_broker(fabric: ab.Fabric) -> None:
    with pytest.raises(UnknownPlace, match="Did you mean 'atlanta'"):
        fabric.split("atlant", to="dallas")
    with pytest.raises(UnknownPlace, match="only between it and another broker"):
        fabric.split("dallas", to="dallas")
