"""Brokers die with a filter that may be the cause."""

from __future__ import annotations

import pytest
from outside_for_tests import Fabric
from picture_for_tests import Trade

from activebroker.directory.parts import Made
from activebroker.protocol.orders import ReportSent
from activebroker.protocol.specs import Checkpoint

NAME = "x.Late"
TIMER = f"recover {NAME}"


class Deaths(Fabric):
    """Brokers die with the filter of x.Late, and are started again."""

    def __init__(self) -> None:
        super().__init__()
        self.trade = Trade(self.graph)
        self.late = self.trade.late

    def place(self, made: Made | None = None) -> str:
        (stage,) = (made or self.late).stages.values()
        return stage.node

    def recover(self, made: Made | None = None) -> str:
        why: str = self.carry_out(self.recoveries.recover(made or self.late))
        return why

    def dies(self, node: str, at_event: int = 1, back: bool = True) -> str:
        """A broker dies with this event of A before the filter. Returns why it does not go on."""
        checkpoint = Checkpoint({}, {"A": (1, at_event - 1)}, {})
        self.late.checkpoint = checkpoint
        self.replies["a", ReportSent] = {"A": (1, at_event)}
        self.gone(node)
        self.carry_out(self.recoveries.died(node))
        why = self.recover()
        if back:
            self.members[node] = self.member(node)
        return why

    def passes(self, seconds: float) -> str:
        """Time passes, and the timer fires."""
        self.time += seconds
        assert self.timers.pop(TIMER) == pytest.approx(self.time)
        return self.recover()
