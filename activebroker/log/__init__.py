"""The log of a channel: its events on disk, in the order in which they were appended."""

from activebroker.log.reader import Entry, Reader
from activebroker.log.records import NOWHERE, Offset, Offsets, Record
from activebroker.log.writer import SEGMENT_BYTES, Log

__all__ = [
    "NOWHERE",
    "SEGMENT_BYTES",
    "Entry",
    "Log",
    "Offset",
    "Offsets",
    "Reader",
    "Record",
]
