"""What a fabric looks like from outside: its status as numbers, as rates, and as tables."""

from activebroker.observe.explanation import explanation, placement
from activebroker.observe.report import (
    Channel,
    Derivation,
    Flow,
    Move,
    Node,
    Part,
    Report,
    report,
)
from activebroker.observe.story import story_table
from activebroker.observe.survey import survey
from activebroker.observe.tables import tables
from activebroker.protocol.status import EndedMove

__all__ = [
    "Channel",
    "Derivation",
    "EndedMove",
    "Flow",
    "Move",
    "Node",
    "Part",
    "Report",
    "explanation",
    "placement",
    "report",
    "story_table",
    "survey",
    "tables",
]
