"""The port: what is free to go on, and when."""

from __future__ import annotations

from typing import Any

from parcels_for_tests import groups, parcel

from activebroker.node.dataplane.port import LOST, InFlow, Port
from activebroker.protocol.messages import FlowEnded, StreamEnded
from activebroker.protocol.specs import Position


def opened(
    port: Port, flow: int, *after: int, source: str = "s", supplier: str | None = None
) -> None:
    port.opened(flow, source, outlet=90 + flow, after=after, supplier=supplier)


def end(flow: int, **more: Any) -> FlowEnded:
    return FlowEnded(flow, 1, **more)


def shown(free: list[tuple[InFlow, Any]]) -> list[tuple[int, Any]]:
    return [(flow.id, groups(item)) for flow, item in free]


def test_an_independent_flow_passes_at_once() -> None:
    port = Port(1)
    opened(port, 10)
    assert shown(port.arrived(10, parcel(1, 2))) == [(10, [1, 2])]
    assert shown(port.arrived(10, end(10))) == [(10, "FlowEnded")]
    assert port.flows == {}


def test_a_follower_is_held_until_all_that_it_follows_have_ended() -> None:
    port = Port(1)
    for flow in (10, 11):
        opened(port, flow)
    opened(port, 12, 10, 11)
    assert port.arrived(12, parcel(7)) == []
    assert shown(port.arrived(10, end(10))) == [(10, "FlowEnded")]
    assert shown(port.arrived(11, parcel(1))) == [(11, [1])]
    assert shown(port.arrived(11, end(11))) == [(11, "FlowEnded"), (12, [7])]
    assert shown(port.arrived(12, parcel(8))) == [(12, [8])]


def test_a_follower_that_opens_after_the_end_does_not_wait() -> None:
    port = Port(1)
    opened(port, 10)
    port.arrived(10, end(10))
    for flow in (11, 12):
        opened(port, flow, 10)
        assert shown(port.arrived(flow, parcel(flow))) == [(flow, [flow])]


def test_a_follower_may_open_before_what_it_follows() -> None:
    port = Port(1)
    opened(port, 11, 10)
    assert port.arrived(11, parcel(2)) == []
    opened(port, 10)
    assert shown(port.arrived(10, parcel(1))) == [(10, [1])]
    assert shown(port.arrived(10, end(10))) == [(10, "FlowEnded"), (11, [2])]


def test_a_chain_is_set_free_in_order() -> None:
    port = Port(1)
    opened(port, 10)
    opened(port, 11, 10)
    opened(port, 12, 11)
    port.arrived(12, parcel(3))
    port.arrived(11, parcel(2))
    port.arrived(11, end(11))
    free = port.arrived(10, end(10))
    assert shown(free) == [(10, "FlowEnded"), (11, [2]), (11, "FlowEnded"), (12, [3])]


def test_what_ended_at_the_old_place_is_followed_here() -> None:
    port = Port(1)
    opened(port, 11, 10)
    port.arrived(11, parcel(1))
    assert shown(port.ended_elsewhere((10,), lost=())) == [(11, [1])]


def test_items_of_a_flow_that_is_closed_here_are_ignored() -> None:
    assert Port(1).arrived(10, parcel(1)) == []


# --- the end of the channel ---------------------------------------------------------------------


def test_a_closed_port_is_complete_when_its_flows_have_finished() -> None:
    port = Port(1)
    opened(port, 10)
    opened(port, 11)
    port.arrived(10, end(10, finished=True))
    assert not port.complete
    port.close((10, 11))
    assert not port.complete
    port.arrived(11, end(11, finished=True))
    assert port.complete


def test_a_closed_port_waits_for_flows_that_are_on_their_way() -> None:
    """A supplier came, published and left; its flow is slower than the news of the close."""
    port = Port(1)
    port.expect(10, "s", 100)
    port.close(())
    assert not port.complete
    port.opened(10, "s", 100, ())
    port.arrived(10, parcel(1))
    port.arrived(10, end(10))
    assert port.complete


def test_a_flow_may_be_over_before_its_notice() -> None:
    port = Port(1)
    port.opened(10, "s", 100, ())
    port.arrived(10, end(10))
    port.expect(10, "s", 100)
    port.close(())
    assert port.complete


def test_a_closed_port_without_flows_is_complete() -> None:
    port = Port(1)
    assert not port.complete
    port.close(())
    assert port.complete


def test_the_reason_of_a_stop_is_kept() -> None:
    port = Port(1)
    opened(port, 10)
    port.arrived(10, end(10, finished=True, error=("FilterStopped", "planted")))
    assert port.error == ("FilterStopped", "planted")


# --- loss ---------------------------------------------------------------------------------------


def test_a_lost_node_ends_its_flows_and_no_others() -> None:
    port = Port(1)
    opened(port, 10, source="dead")
    opened(port, 11)
    port.close((10, 11))
    assert shown(port.lost("dead")) == [(10, "FlowEnded")]
    assert list(port.flows) == [11]
    port.arrived(11, end(11, finished=True))
    assert port.complete


def test_what_follows_a_lost_flow_is_broken() -> None:
    """Events may be missing in between."""
    port = Port(1)
    opened(port, 10, source="dead")
    opened(port, 11, 10)
    opened(port, 12, 11)
    port.arrived(11, parcel(1))
    assert shown(port.lost("dead")) == [(10, "FlowEnded")]
    assert [flow.id for flow in port.take_broken()] == [11, 12]
    assert port.take_broken() == [] and port.flows == {}
    opened(port, 13, 10)
    assert [flow.id for flow in port.take_broken()] == [13]


def test_a_held_flow_that_was_all_here_survives_its_source() -> None:
    port = Port(1)
    opened(port, 10)
    opened(port, 11, 10, source="dead")
    port.arrived(11, parcel(1))
    port.arrived(11, end(11))
    assert port.lost("dead") == []
    opened(port, 12, 11)
    port.arrived(12, parcel(2))
    free = port.arrived(10, end(10))
    assert shown(free) == [(10, "FlowEnded"), (11, [1]), (11, "FlowEnded"), (12, [2])]
    assert port.take_broken() == []


def test_a_held_flow_that_was_cut_ends_where_it_was_cut() -> None:
    port = Port(1)
    opened(port, 10)
    opened(port, 11, 10, source="dead")
    port.arrived(11, parcel(1))
    port.lost("dead")
    free = port.arrived(10, end(10))
    assert shown(free) == [(10, "FlowEnded"), (11, [1]), (11, "FlowEnded")]


def test_what_was_lost_at_the_old_place_breaks_its_follower_here() -> None:
    port = Port(1)
    opened(port, 11, 10, supplier="A")
    opened(port, 13, 12, supplier="B")
    assert port.ended_elsewhere((12,), lost=(10,)) == []
    (broken,) = port.take_broken()
    assert (broken.id, broken.supplier) == (11, "A")
    assert list(port.flows) == [13]


def test_a_lost_flow_of_a_filter_that_goes_on_elsewhere_is_a_gap_until_it_is_replaced() -> None:
    port = Port(1)
    port.opened(10, "dead", 100, (), recovers=True)
    opened(port, 11, source="dead")
    port.lost("dead")
    assert port.holes
    port.release([100])
    assert not port.holes


def test_a_lost_flow_that_nobody_replaces_is_no_gap() -> None:
    port = Port(1)
    opened(port, 10, source="dead")
    port.lost("dead")
    assert not port.holes


# --- positions ----------------------------------------------------------------------------------


def test_a_port_knows_how_far_what_went_on_has_come() -> None:
    port = Port(1)
    for flow in (10, 11):
        opened(port, flow)
    opened(port, 12, 10)
    port.arrived(10, parcel(1, 2))
    port.arrived(11, parcel(1, supplier="B", first=6))
    port.arrived(12, parcel(3, first=2))
    assert port.received == {"A": (1, 2), "B": (1, 7)}, "what is held has not gone on"
    port.arrived(10, end(10))
    assert port.received == {"A": (1, 3), "B": (1, 7)}
    port.arrived(12, StreamEnded(12, 1, "A", (1, 4)))
    assert port.received == {"A": (1, 4), "B": (1, 7)}


def test_a_release_takes_the_flows_of_outlets_and_tells_how_far_they_came() -> None:
    port = Port(1)
    port.opened(10, "s", 100, (), taker="late")
    port.opened(11, "s", 101, (), taker="late")
    opened(port, 12)
    port.opened(13, "s", 100, (12,), taker="late")
    port.arrived(10, parcel(1))
    port.arrived(13, parcel(9, first=1))
    assert port.release([100]) == {"A": (1, 1)}
    assert list(port.flows) == [11, 12]
    assert port.sources == {101: ("s", "late")}
    assert port.arrived(10, parcel(2, first=1)) == [], "what was under way comes again elsewhere"
    assert port.arrived(12, end(12)) != []


def test_a_notice_may_come_after_the_release_of_its_flow() -> None:
    port = Port(1)
    port.opened(10, "s", 100, ())
    port.release([100])
    port.expect(10, "s", 100)
    port.close(())
    assert port.complete


# --- who hears of what is settled ---------------------------------------------------------------


def test_who_has_ended_hears_until_it_knows_of_all() -> None:
    port = Port(1)
    port.opened(10, "s", 100, (), taker="late")
    port.arrived(10, parcel(1, 2))
    port.arrived(10, end(10))
    port.opened(11, "t", 101, (), taker="late")
    port.arrived(11, parcel(3, first=2))
    port.leave({"A": (1, 1)})
    assert list(port.sources) == [100, 101]
    port.leave({"B": (1, 9)})
    assert list(port.sources) == [100, 101]
    port.leave({"A": (1, 2)})
    assert port.sources == {101: ("t", "late")} and port.leaving == {}


def test_who_serves_again_does_not_leave() -> None:
    port = Port(1)
    port.opened(10, "s", 100, (), taker="late")
    port.arrived(10, end(10))
    port.opened(11, "s", 100, (), taker="late")
    port.leave({})
    assert port.sources == {100: ("s", "late")}


def test_who_keeps_nothing_does_not_hear() -> None:
    port = Port(1)
    opened(port, 10)
    assert port.sources == {}


def test_the_dead_do_not_hear() -> None:
    port = Port(1)
    port.opened(10, "dead", 100, (), taker="late")
    port.opened(11, "s", 101, (), taker="late")
    port.lost("dead")
    assert port.sources == {101: ("s", "late")}


def test_what_a_hand_over_brings_is_received_unless_more_has_come() -> None:
    port = Port(1)
    port.received = {"A": (7, 3)}
    port.took({"A": (7, 2), "B": (8, 5)})
    assert port.received == {"A": (7, 3), "B": (8, 5)}


def test_a_gap_is_no_failure_where_the_filter_died_with_its_supplier() -> None:
    for recovers, failure in ((True, LOST), (False, None)):
        port = Port(1)
        port.opened(10, "s", 90, (), recovers=recovers)
        port.lost("s")
        assert port.failure == failure


def test_flows_that_have_not_begun_are_lost_with_the_predecessor_of_a_node() -> None:
    port = Port(1)
    port.expect(10, "s", 90)  # of the predecessor
    port.opened(11, "s", 91, ())
    port.close([10, 11])
    assert shown(port.lost("s", unopened=True)) == [(10, "FlowEnded")]
    assert list(port.flows) == [11] and not port.complete
    port.arrived(11, end(11, finished=True))
    assert port.complete


def test_a_flow_behind_follows_what_is_here_of_its_supplier() -> None:
    """As does that of a relay which goes on elsewhere: the supplier's own may not be at its end."""
    port = Port(1)
    opened(port, 10, supplier="A")
    port.expect(11, "s", 101, "A")
    opened(port, 12, supplier="B")
    opened(port, 13)
    port.opened(14, "s", 104, (), supplier="A", behind=True)
    assert port.flows[14].after == {10, 11}
    port.arrived(14, parcel(3))
    opened(port, 11, supplier="A")
    assert shown(port.arrived(11, end(11))) == [(11, "FlowEnded")]
    free = port.arrived(10, end(10))
    assert shown(free) == [(10, "FlowEnded"), (14, [3])]


def test_a_flow_behind_does_not_wait_for_what_has_ended() -> None:
    port = Port(1)
    opened(port, 10, supplier="A")
    port.arrived(10, end(10))
    port.opened(14, "s", 104, (), supplier="A", behind=True)
    assert shown(port.arrived(14, parcel(3))) == [(14, [3])]


def test_a_flow_that_was_on_its_way_when_its_outlet_was_released_is_not_taken() -> None:
    port = Port(1)
    port.release([100])
    opened(port, 10)
    assert port.flows == {} and port.arrived(10, parcel(1)) == []


def test_each_gap_stays_until_that_one_is_replaced() -> None:
    port = Port(1)
    for flow, source in ((10, "s"), (11, "t")):
        port.opened(flow, source, 90 + flow, (), recovers=True)
        port.lost(source)
    port.release([100])
    assert port.failure == LOST
    port.release([101])
    assert port.failure is None


def test_a_stream_that_goes_on_comes_from_where_it_began_here() -> None:
    """Its first events were lost with the node that it came from, and come once more."""
    for knows, expected in ((True, [[1, 2, 3]]), (False, [])):
        port = Port(1)
        if knows:
            port.opened(10, "s", 90, (), supplier="A", began=(90, 0))
            port.lost("s")
        assert once_more(port) == expected


def once_more(port: Port, began: Position | None = None) -> list[object]:
    """What goes on of the first three events of a stream, from a supplier that has joined again."""
    port.opened(11, "s", 91, (), supplier="A", begins=(90, 3), began=began)
    first = parcel(1, 2, 3)
    first.upto = (90, 3)
    return [item for _, item in shown(port.arrived(11, first))]


def test_where_it_began_is_the_suppliers_word_where_its_mark_was_lost() -> None:
    assert once_more(Port(1), began=(90, 1)) == [[2, 3]]


def test_a_filter_that_begins_anew_was_not_the_one_whom_the_supplier_means() -> None:
    """Unless it was told before that the supplier would feed it."""
    for announced, expected in ((False, []), (True, [[2, 3]])):
        port = Port(1)
        port.anew = True
        if announced:
            port.expect(10, "s", 90, "A")
            port.lost("s")
        port.expect(11, "s", 91, "A")
        assert once_more(port, began=(90, 1)) == expected


def test_who_was_not_served_all_the_time_gets_nothing_of_what_was_between() -> None:
    """Of what comes once more, only some may be there: what others had not acknowledged."""
    for served, missed, expected in ((False, 2, []), (True, 0, [[2, 3]])):
        port = Port(1)
        port.received, port.had = {"A": (90, 1)}, {"A": (90, 1)}
        assert port.missed("A", (90, 3), served) == missed
        assert once_more(port, began=(90, 0) if served else None) == expected
