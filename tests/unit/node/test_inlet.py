"""The inlet: what is free to go on, and when."""

from __future__ import annotations

from typing import Any

from chunks_for_tests import chunk, groups

from activebroker.node.dataplane.inlet import LOST, InFlow, Inlet
from activebroker.protocol.flows import FlowEnded, StreamEnded
from activebroker.protocol.specs import Offset


def opened(
    inlet: Inlet, flow: int, *after: int, source: str = "s", supplier: str | None = None
) -> None:
    inlet.opened(flow, source, outlet=90 + flow, after=after, supplier=supplier)


def end(flow: int, **more: Any) -> FlowEnded:
    return FlowEnded(flow, 1, **more)


def shown(free: list[tuple[InFlow, Any]]) -> list[tuple[int, Any]]:
    return [(flow.id, groups(item)) for flow, item in free]


def test_an_independent_flow_passes_at_once() -> None:
    inlet = Inlet(1)
    opened(inlet, 10)
    assert shown(inlet.arrived(10, chunk(1, 2))) == [(10, [1, 2])]
    assert shown(inlet.arrived(10, end(10))) == [(10, "FlowEnded")]
    assert inlet.flows == {}


def test_a_follower_is_held_until_all_that_it_follows_have_ended() -> None:
    inlet = Inlet(1)
    for flow in (10, 11):
        opened(inlet, flow)
    opened(inlet, 12, 10, 11)
    assert inlet.arrived(12, chunk(7)) == []
    assert shown(inlet.arrived(10, end(10))) == [(10, "FlowEnded")]
    assert shown(inlet.arrived(11, chunk(1))) == [(11, [1])]
    assert shown(inlet.arrived(11, end(11))) == [(11, "FlowEnded"), (12, [7])]
    assert shown(inlet.arrived(12, chunk(8))) == [(12, [8])]


def test_a_follower_that_opens_after_the_end_does_not_wait() -> None:
    inlet = Inlet(1)
    opened(inlet, 10)
    inlet.arrived(10, end(10))
    for flow in (11, 12):
        opened(inlet, flow, 10)
        assert shown(inlet.arrived(flow, chunk(flow))) == [(flow, [flow])]


def test_a_follower_may_open_before_what_it_follows() -> None:
    inlet = Inlet(1)
    opened(inlet, 11, 10)
    assert inlet.arrived(11, chunk(2)) == []
    opened(inlet, 10)
    assert shown(inlet.arrived(10, chunk(1))) == [(10, [1])]
    assert shown(inlet.arrived(10, end(10))) == [(10, "FlowEnded"), (11, [2])]


def test_a_chain_is_set_free_in_order() -> None:
    inlet = Inlet(1)
    opened(inlet, 10)
    opened(inlet, 11, 10)
    opened(inlet, 12, 11)
    inlet.arrived(12, chunk(3))
    inlet.arrived(11, chunk(2))
    inlet.arrived(11, end(11))
    free = inlet.arrived(10, end(10))
    assert shown(free) == [(10, "FlowEnded"), (11, [2]), (11, "FlowEnded"), (12, [3])]


def test_what_ended_at_the_old_place_is_followed_here() -> None:
    inlet = Inlet(1)
    opened(inlet, 11, 10)
    inlet.arrived(11, chunk(1))
    assert shown(inlet.ended_elsewhere((10,), lost=())) == [(11, [1])]


def test_items_of_a_flow_that_is_closed_here_are_ignored() -> None:
    assert Inlet(1).arrived(10, chunk(1)) == []


# --- the end of the channel ---------------------------------------------------------------------


def test_a_closed_inlet_is_complete_when_its_flows_have_finished() -> None:
    inlet = Inlet(1)
    opened(inlet, 10)
    opened(inlet, 11)
    inlet.arrived(10, end(10, finished=True))
    assert not inlet.complete
    inlet.close((10, 11))
    assert not inlet.complete
    inlet.arrived(11, end(11, finished=True))
    assert inlet.complete


def test_a_closed_inlet_waits_for_flows_that_are_on_their_way() -> None:
    """A supplier came, published and left; its flow is slower than the news of the close."""
    inlet = Inlet(1)
    inlet.expect(10, "s", 100)
    inlet.close(())
    assert not inlet.complete
    inlet.opened(10, "s", 100, ())
    inlet.arrived(10, chunk(1))
    inlet.arrived(10, end(10))
    assert inlet.complete


def test_a_flow_may_be_over_before_its_notice() -> None:
    inlet = Inlet(1)
    inlet.opened(10, "s", 100, ())
    inlet.arrived(10, end(10))
    inlet.expect(10, "s", 100)
    inlet.close(())
    assert inlet.complete


def test_a_closed_inlet_without_flows_is_complete() -> None:
    inlet = Inlet(1)
    assert not inlet.complete
    inlet.close(())
    assert inlet.complete


def test_the_reason_of_a_stop_is_kept() -> None:
    inlet = Inlet(1)
    opened(inlet, 10)
    inlet.arrived(10, end(10, finished=True, error=("FilterStopped", "planted")))
    assert inlet.error == ("FilterStopped", "planted")


# --- loss ---------------------------------------------------------------------------------------


def test_a_lost_node_ends_its_flows_and_no_others() -> None:
    inlet = Inlet(1)
    opened(inlet, 10, source="dead")
    opened(inlet, 11)
    inlet.close((10, 11))
    assert shown(inlet.lost("dead")) == [(10, "FlowEnded")]
    assert list(inlet.flows) == [11]
    inlet.arrived(11, end(11, finished=True))
    assert inlet.complete


def test_what_follows_a_lost_flow_is_broken() -> None:
    """Events may be missing in between."""
    inlet = Inlet(1)
    opened(inlet, 10, source="dead")
    opened(inlet, 11, 10)
    opened(inlet, 12, 11)
    inlet.arrived(11, chunk(1))
    assert shown(inlet.lost("dead")) == [(10, "FlowEnded")]
    assert [flow.id for flow in inlet.take_broken()] == [11, 12]
    assert inlet.take_broken() == [] and inlet.flows == {}
    opened(inlet, 13, 10)
    assert [flow.id for flow in inlet.take_broken()] == [13]


def test_a_held_flow_that_was_all_here_survives_its_source() -> None:
    inlet = Inlet(1)
    opened(inlet, 10)
    opened(inlet, 11, 10, source="dead")
    inlet.arrived(11, chunk(1))
    inlet.arrived(11, end(11))
    assert inlet.lost("dead") == []
    opened(inlet, 12, 11)
    inlet.arrived(12, chunk(2))
    free = inlet.arrived(10, end(10))
    assert shown(free) == [(10, "FlowEnded"), (11, [1]), (11, "FlowEnded"), (12, [2])]
    assert inlet.take_broken() == []


def test_a_held_flow_that_was_cut_ends_where_it_was_cut() -> None:
    inlet = Inlet(1)
    opened(inlet, 10)
    opened(inlet, 11, 10, source="dead")
    inlet.arrived(11, chunk(1))
    inlet.lost("dead")
    free = inlet.arrived(10, end(10))
    assert shown(free) == [(10, "FlowEnded"), (11, [1]), (11, "FlowEnded")]


def test_what_was_lost_at_the_old_place_breaks_its_follower_here() -> None:
    inlet = Inlet(1)
    opened(inlet, 11, 10, supplier="A")
    opened(inlet, 13, 12, supplier="B")
    assert inlet.ended_elsewhere((12,), lost=(10,)) == []
    (broken,) = inlet.take_broken()
    assert (broken.id, broken.supplier) == (11, "A")
    assert list(inlet.flows) == [13]


def test_a_lost_flow_of_a_filter_that_goes_on_elsewhere_is_a_gap_until_it_is_replaced() -> None:
    inlet = Inlet(1)
    inlet.opened(10, "dead", 100, (), recovers=True)
    opened(inlet, 11, source="dead")
    inlet.lost("dead")
    assert inlet.holes
    inlet.release([100])
    assert not inlet.holes


def test_a_lost_flow_that_nobody_replaces_is_no_gap() -> None:
    inlet = Inlet(1)
    opened(inlet, 10, source="dead")
    inlet.lost("dead")
    assert not inlet.holes


# --- offsets ----------------------------------------------------------------------------------


def test_a_inlet_knows_how_far_what_went_on_has_come() -> None:
    inlet = Inlet(1)
    for flow in (10, 11):
        opened(inlet, flow)
    opened(inlet, 12, 10)
    inlet.arrived(10, chunk(1, 2))
    inlet.arrived(11, chunk(1, supplier="B", first=6))
    inlet.arrived(12, chunk(3, first=2))
    assert inlet.received == {"A": (1, 2), "B": (1, 7)}, "what is held has not gone on"
    inlet.arrived(10, end(10))
    assert inlet.received == {"A": (1, 3), "B": (1, 7)}
    inlet.arrived(12, StreamEnded(12, 1, "A", (1, 4)))
    assert inlet.received == {"A": (1, 4), "B": (1, 7)}


def test_a_release_takes_the_flows_of_outlets_and_tells_how_far_they_came() -> None:
    inlet = Inlet(1)
    inlet.opened(10, "s", 100, (), subscriber="late")
    inlet.opened(11, "s", 101, (), subscriber="late")
    opened(inlet, 12)
    inlet.opened(13, "s", 100, (12,), subscriber="late")
    inlet.arrived(10, chunk(1))
    inlet.arrived(13, chunk(9, first=1))
    assert inlet.release([100]) == {"A": (1, 1)}
    assert list(inlet.flows) == [11, 12]
    assert inlet.sources == {101: ("s", "late")}
    assert inlet.arrived(10, chunk(2, first=1)) == [], "what was under way comes again elsewhere"
    assert inlet.arrived(12, end(12)) != []


def test_a_notice_may_come_after_the_release_of_its_flow() -> None:
    inlet = Inlet(1)
    inlet.opened(10, "s", 100, ())
    inlet.release([100])
    inlet.expect(10, "s", 100)
    inlet.close(())
    assert inlet.complete


# --- who hears of what is acknowledged
# ---------------------------------------------------------------


def test_who_has_ended_hears_until_it_knows_of_all() -> None:
    inlet = Inlet(1)
    inlet.opened(10, "s", 100, (), subscriber="late")
    inlet.arrived(10, chunk(1, 2))
    inlet.arrived(10, end(10))
    inlet.opened(11, "t", 101, (), subscriber="late")
    inlet.arrived(11, chunk(3, first=2))
    inlet.leave({"A": (1, 1)})
    assert list(inlet.sources) == [100, 101]
    inlet.leave({"B": (1, 9)})
    assert list(inlet.sources) == [100, 101]
    inlet.leave({"A": (1, 2)})
    assert inlet.sources == {101: ("t", "late")} and inlet.leaving == {}


def test_who_serves_again_does_not_leave() -> None:
    inlet = Inlet(1)
    inlet.opened(10, "s", 100, (), subscriber="late")
    inlet.arrived(10, end(10))
    inlet.opened(11, "s", 100, (), subscriber="late")
    inlet.leave({})
    assert inlet.sources == {100: ("s", "late")}


def test_who_keeps_nothing_does_not_hear() -> None:
    inlet = Inlet(1)
    opened(inlet, 10)
    assert inlet.sources == {}


def test_the_dead_do_not_hear() -> None:
    inlet = Inlet(1)
    inlet.opened(10, "dead", 100, (), subscriber="late")
    inlet.opened(11, "s", 101, (), subscriber="late")
    inlet.lost("dead")
    assert inlet.sources == {101: ("s", "late")}


def test_what_a_hand_over_brings_is_received_unless_more_has_come() -> None:
    inlet = Inlet(1)
    inlet.received = {"A": (7, 3)}
    inlet.took({"A": (7, 2), "B": (8, 5)})
    assert inlet.received == {"A": (7, 3), "B": (8, 5)}


def test_a_gap_is_no_failure_where_the_filter_died_with_its_supplier() -> None:
    for recovers, failure in ((True, LOST), (False, None)):
        inlet = Inlet(1)
        inlet.opened(10, "s", 90, (), recovers=recovers)
        inlet.lost("s")
        assert inlet.failure == failure


def test_flows_that_have_not_begun_are_lost_with_the_predecessor_of_a_node() -> None:
    inlet = Inlet(1)
    inlet.expect(10, "s", 90)  # of the predecessor
    inlet.opened(11, "s", 91, ())
    inlet.close([10, 11])
    assert shown(inlet.lost("s", unopened=True)) == [(10, "FlowEnded")]
    assert list(inlet.flows) == [11] and not inlet.complete
    inlet.arrived(11, end(11, finished=True))
    assert inlet.complete


def test_a_flow_behind_follows_what_is_here_of_its_supplier() -> None:
    """As does that of a relay which goes on elsewhere: the supplier's own may not be at its end."""
    inlet = Inlet(1)
    opened(inlet, 10, supplier="A")
    inlet.expect(11, "s", 101, "A")
    opened(inlet, 12, supplier="B")
    opened(inlet, 13)
    inlet.opened(14, "s", 104, (), supplier="A", follows=True)
    assert inlet.flows[14].after == {10, 11}
    inlet.arrived(14, chunk(3))
    opened(inlet, 11, supplier="A")
    assert shown(inlet.arrived(11, end(11))) == [(11, "FlowEnded")]
    free = inlet.arrived(10, end(10))
    assert shown(free) == [(10, "FlowEnded"), (14, [3])]


def test_a_flow_behind_does_not_wait_for_what_has_ended() -> None:
    inlet = Inlet(1)
    opened(inlet, 10, supplier="A")
    inlet.arrived(10, end(10))
    inlet.opened(14, "s", 104, (), supplier="A", follows=True)
    assert shown(inlet.arrived(14, chunk(3))) == [(14, [3])]


def test_a_flow_that_was_on_its_way_when_its_outlet_was_released_is_not_taken() -> None:
    inlet = Inlet(1)
    inlet.release([100])
    opened(inlet, 10)
    assert inlet.flows == {} and inlet.arrived(10, chunk(1)) == []


def test_each_gap_stays_until_that_one_is_replaced() -> None:
    inlet = Inlet(1)
    for flow, source in ((10, "s"), (11, "t")):
        inlet.opened(flow, source, 90 + flow, (), recovers=True)
        inlet.lost(source)
    inlet.release([100])
    assert inlet.failure == LOST
    inlet.release([101])
    assert inlet.failure is None


def test_a_stream_that_goes_on_comes_from_where_it_began_here() -> None:
    """Its first events were lost with the node that it came from, and come once more."""
    for knows, expected in ((True, [[1, 2, 3]]), (False, [])):
        inlet = Inlet(1)
        if knows:
            inlet.opened(10, "s", 90, (), supplier="A", began=(90, 0))
            inlet.lost("s")
        assert once_more(inlet) == expected


def once_more(inlet: Inlet, began: Offset | None = None) -> list[object]:
    """What goes on of the first three events of a stream, from a supplier that has joined again."""
    inlet.opened(11, "s", 91, (), supplier="A", begins=(90, 3), began=began)
    first = chunk(1, 2, 3)
    first.upto = (90, 3)
    return [item for _, item in shown(inlet.arrived(11, first))]


def test_where_it_began_is_the_suppliers_word_where_its_mark_was_lost() -> None:
    assert once_more(Inlet(1), began=(90, 1)) == [[2, 3]]


def test_a_filter_that_begins_anew_was_not_the_one_whom_the_supplier_means() -> None:
    """Unless it was told before that the supplier would feed it."""
    for announced, expected in ((False, []), (True, [[2, 3]])):
        inlet = Inlet(1)
        inlet.anew = True
        if announced:
            inlet.expect(10, "s", 90, "A")
            inlet.lost("s")
        inlet.expect(11, "s", 91, "A")
        assert once_more(inlet, began=(90, 1)) == expected


def test_who_was_not_served_all_the_time_gets_nothing_of_what_was_between() -> None:
    """Of what comes once more, only some may be there: what others had not acknowledged."""
    for served, missed, expected in ((False, 2, []), (True, 0, [[2, 3]])):
        inlet = Inlet(1)
        inlet.received, inlet.had = {"A": (90, 1)}, {"A": (90, 1)}
        assert inlet.missed("A", (90, 3), served) == missed
        assert once_more(inlet, began=(90, 0) if served else None) == expected
