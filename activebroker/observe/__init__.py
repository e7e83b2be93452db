"""What a fabric looks like from outside: its status as numbers, as rates, and as tables."""

from activebroker.observe.explanation import explanation, explanation_data
from activebroker.observe.report import Channel, Derivation, Flow, Move, Node, Report, report
from activebroker.observe.tables import tables

__all__ = [
    "Channel",
    "Derivation",
    "Flow",
    "Move",
    "Node",
    "Report",
    "explanation",
    "explanation_data",
    "report",
    "tables",
]
