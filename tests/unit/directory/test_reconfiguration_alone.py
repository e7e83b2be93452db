"""A filter takes other parameters: it is sent what either wants until it has changed."""

from __future__ import annotations

import pytest
from outside_for_tests import Fabric
from picture_for_tests import HIGH, LOW, Trade, envelope

from activebroker.core.errors import (
    ActiveBrokerError,
    DeadlineExceeded,
    InvalidFilter,
    ReconfigurationFailed,
)
from activebroker.directory.parts import SUPPLIER
from activebroker.directory.reconfiguration import reconfigure
from activebroker.matching import union
from activebroker.protocol.messages import CallBody
from activebroker.protocol.orders import ChangeStage, KeepStage, ReportSent, SetPredicate
from activebroker.protocol.requests import Reconfigure
from activebroker.protocol.specs import Offsets

WIDE = union([HIGH, LOW])
WIDENED: Offsets = {"A": (1, 7)}
SENT: Offsets = {"A": (1, 9)}
SILENT = DeadlineExceeded("no answer")


class Bench(Fabric):
    """The filter of x.Late wants what is HIGH, and is to want what is LOW."""

    def __init__(self) -> None:
        super().__init__()
        self.trade = Trade(self.graph)
        self.late = self.trade.late
        self.replies |= {
            ("a", SetPredicate): WIDENED,
            ("a", ReportSent): SENT,
            ("b1", ChangeStage): True,
        }

    def change(self, channel: str = "x.Late") -> None:
        body = Reconfigure(channel, envelope(LOW), "c", 5.0)
        self.carry_out(reconfigure(self.wiring, body))

    def changes_with_a_checkpoint(self) -> bool:
        """The node has sent one, and the directory has taken it."""
        assert self.late.next is not None
        self.late.envelope, self.late.next = self.late.next.envelope, None
        return True

    def wants(self) -> list[tuple[str | None, bool]]:
        """What the filter is sent, and whether that is no more than it forwards."""
        return [(inlet.predicate, inlet.certain) for inlet in self.graph.feeding_inlets(self.late)]

    def kinds(self) -> list[tuple[str, type[CallBody]]]:
        return [(node, type(body)) for node, body in self.asked]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_filter_changes_behind_what_was_sent_for_the_old_parameters(bench: Bench) -> None:
    bench.replies["b1", ChangeStage] = bench.changes_with_a_checkpoint
    bench.change()
    own, stage = bench.trade.own.id, bench.trade.stage.id
    (change,) = [body for _, body in bench.asked if isinstance(body, ChangeStage)]
    assert bench.asked == [
        ("a", SetPredicate(own, "x.Late", WIDE, certain=False)),
        ("a", ReportSent(own, "x.Late")),
        ("b1", ChangeStage(stage, change.change, envelope(LOW), {own: SENT}, WIDENED)),
        ("a", SetPredicate(own, "x.Late", LOW)),
    ]
    assert bench.late.envelope == envelope(LOW) and bench.wants() == [(LOW, True)]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (False, "stays as it was: its filter has ended"),
        ("it has no limit", "stays as it was: it has no limit"),
    ],
    ids=["ended", "cannot"],
)
def test_a_filter_that_does_not_change_is_sent_what_it_was(
    bench: Bench, answer: bool | str, why: str
) -> None:
    bench.replies["b1", ChangeStage] = answer
    with pytest.raises(ReconfigurationFailed, match=f"The filter of channel 'x.Late' {why}"):
        bench.change()
    assert bench.late.next is None and bench.wants() == [(HIGH, True)]


@pytest.mark.parametrize("source", [SetPredicate, ReportSent])
def test_it_does_not_change_if_a_source_does_not_answer(
    bench: Bench, source: type[SetPredicate] | type[ReportSent]
) -> None:
    bench.replies["a", source] = SILENT
    with pytest.raises(ReconfigurationFailed, match="a source of its events did not answer"):
        bench.change()
    assert ("b1", ChangeStage) not in bench.kinds()
    assert bench.late.envelope == envelope(HIGH) and bench.wants() == [(HIGH, True)]


def test_one_that_does_not_get_so_far_in_time_keeps_its_parameters(bench: Bench) -> None:
    bench.replies |= {("b1", ChangeStage): SILENT, ("b1", KeepStage): True}
    with pytest.raises(ReconfigurationFailed, match="'b1' did not get so far in time"):
        bench.change()
    assert bench.late.next is None and bench.wants() == [(HIGH, True)]


def test_one_that_has_changed_too_late_to_be_kept_from_it_is_sent_both(bench: Bench) -> None:
    bench.replies |= {("b1", ChangeStage): SILENT, ("b1", KeepStage): False}
    with pytest.raises(ReconfigurationFailed, match="is still changing"):
        bench.change()
    assert bench.late.next is not None and bench.late.next.late
    assert bench.wants() == [(WIDE, False)]


def test_of_one_at_its_suppliers_some_may_change_and_others_not(bench: Bench) -> None:
    late = bench.trade.derive("x.Beside", SUPPLIER)
    bench.trade.supplier("B", "b2")
    bench.trade.put(late, "a")
    bench.trade.put(late, "b2")
    bench.trade.connect()
    bench.replies |= {("a", ChangeStage): True, ("b2", ChangeStage): "it has no limit"}
    with pytest.raises(ReconfigurationFailed) as failed:
        bench.change("x.Beside")
    assert str(failed.value) == (
        "The filter of channel 'x.Beside' has changed, but 'b2' could not (it has no limit): "
        "reconfigure it again."
    )
    assert late.envelope == envelope(LOW)


def test_what_a_node_refuses_ends_it_as_it_began(bench: Bench) -> None:
    bench.replies["b1", ChangeStage] = ActiveBrokerError("broken")
    with pytest.raises(ActiveBrokerError, match="broken"):
        bench.change()
    assert bench.late.next is None and bench.wants() == [(HIGH, True)]


def test_a_channel_with_suppliers_has_no_filter(bench: Bench) -> None:
    with pytest.raises(InvalidFilter, match="it has no filter"):
        bench.change("x")


def test_what_was_handed_over_to_a_relay_is_not_changed(bench: Bench) -> None:
    bench.trade.offload("b2")
    with pytest.raises(ReconfigurationFailed, match="has handed it over to 'b2'"):
        bench.change()
    assert bench.asked == []
