"""Which events go into a log: those of its type, of another version of it, and of its subtypes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from activebroker.core.errors import ChannelTypeConflict
from activebroker.events import EventType, TypeDescription, describe, differences


def check_version(directory: Path, versions: Iterable[TypeDescription], type: EventType) -> None:
    """Raise ChannelTypeConflict unless a type is a version of a log's, of which these are known."""
    own = describe(type)
    for each in versions:
        if own.name == each.name and not (differing := differences(own, each)):
            continue
        text = f"The log in {directory} has events of type {each.name}, not of {own.name}"
        if own.name == each.name:
            text += (
                f", which {differing}. Versions of a class may differ in fields that have a default"
            )
        raise ChannelTypeConflict(f"{text}. Use that type, or another directory.")
