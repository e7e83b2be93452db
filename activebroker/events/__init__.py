"""Events, event types, and batches of events as Arrow columns."""

from activebroker.events.batch import Batch, Reading, Unreadable, concat, in_order
from activebroker.events.building import build_batch, encode
from activebroker.events.columns.annotations import Precision, Shape, Zone
from activebroker.events.columns.kinds import sketch
from activebroker.events.columns.piecewise import piecewise
from activebroker.events.event import Event
from activebroker.events.schemas import type_of
from activebroker.events.tables import from_table
from activebroker.events.types import ANY, EventType
from activebroker.events.wire import (
    TypeDescription,
    TypeRegistry,
    describe,
    differences,
    dump,
    load,
)

__all__ = [
    "ANY",
    "Batch",
    "Event",
    "EventType",
    "Precision",
    "Reading",
    "Shape",
    "TypeDescription",
    "TypeRegistry",
    "Unreadable",
    "Zone",
    "build_batch",
    "concat",
    "describe",
    "differences",
    "dump",
    "encode",
    "from_table",
    "in_order",
    "load",
    "piecewise",
    "sketch",
    "type_of",
]
