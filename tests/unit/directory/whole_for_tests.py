"""The directory as a whole, without a node."""

from __future__ import annotations

from outside_for_tests import Ending, Fabric
from picture_for_tests import LOW, Trade, envelope

from activebroker.core.errors import DeadlineExceeded
from activebroker.directory.deaths import Budget
from activebroker.directory.directory import Directory
from activebroker.directory.parts import Next
from activebroker.protocol.orders import ReportNode, ReportSent
from activebroker.protocol.requests import ChangeRequest, CloseSupplier, Move, Question
from activebroker.protocol.status import NodeStatus
from derivation.protocol import Prepared

SILENT = DeadlineExceeded("no answer")


class Whole(Fabric):
    """The directory at `hub`. Nobody answers before a test lets all `work`."""

    def __init__(self) -> None:
        super().__init__()
        members = self.members
        self.directory = Directory(self.member("hub"), self.outside, Budget())
        self.directory.members.update(members)
        self.members, self.graph = self.directory.members, self.directory.graph
        self.trade = Trade(self.graph)
        self.late = self.trade.late

    def expel(self, node: str) -> None:
        super().expel(node)
        self.directory.lost(node)

    def ask(self, body: Question | ChangeRequest) -> Ending:
        """Ask, and let nobody answer yet."""
        ending = Ending()
        self.directory.request(body, ending.set)
        self.directory.settle()
        return ending

    def work(self) -> None:
        """Let all answer, until nothing is left to do."""
        self.answer_all()
        while self.directory.settle():
            self.answer_all()

    def lose(self, node: str) -> None:
        self.directory.lost(node)
        self.work()

    def kinds(self) -> list[tuple[str, type]]:
        return [(node, type(body)) for node, body in self.asked]

    def places(self) -> list[str]:
        return [stage.node for stage in self.late.stages.values()]

    # --- states in which requests may have to wait ------------------------------------------------

    def is_changing(self) -> None:
        self.late.next = Next(1, envelope(LOW))

    def is_returning(self) -> None:
        self.late.returning = True

    def waits_for_a_place(self) -> None:
        self.replies["a", ReportSent] = {"A": (1, 7)}
        self.lose("b2")
        self.lose("b1")

    def relay_waits_for_a_place(self) -> None:
        self.trade.offload("b2")
        for node in ("hub", "b1", "a"):
            self.replies[node, ReportNode] = SILENT
        self.lose("b2")

    def has_a_relay(self) -> None:
        self.trade.offload("b2")

    def moves_still(self) -> None:
        self.ask(Move("x.Late", "b2", "c", 1.0))
        (move,) = self.directory.planned
        for node in ("b1", "b2"):
            self.directory.answered(Prepared(move, node))
        for node in ("a", "b1", "b2"):
            self.replies[node, ReportNode] = NodeStatus()
        self.directory.timer_fired("move", str(move))
        self.work()

    def supplier_has_left(self) -> None:
        self.ask(CloseSupplier("x", "A"))
        self.work()
