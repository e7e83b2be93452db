"""Versions of an event class: processes may open a channel with classes that differ in fields with
defaults."""

from __future__ import annotations

from activebroker.core.errors import ChannelTypeConflict
from activebroker.directory.parts import Channel
from activebroker.events import TypeDescription, differences

MOST_VERSIONS = 64  # of one channel; each new version is compared with all of them


def add_version(channel: Channel, type: TypeDescription) -> None:
    """Let the events of a channel be of this type, too.

    Raises ChannelTypeConflict unless the type agrees with all versions that the channel has.
    """
    known = channel.versions
    if any(_is_same(type, each) for each in known):
        return
    text = (
        f"Channel {channel.name!r} exists with events of type {channel.type.name}; it cannot be "
        f"opened with {type.name}"
    )
    if type.name != channel.type.name:
        raise ChannelTypeConflict(f"{text}. Use that type, or another channel name.")
    for each in known:
        if differing := differences(type, each):
            raise ChannelTypeConflict(
                f"{text}, which {differing}. Versions of a class may differ in fields that have a "
                "default: give them one, use the same class in all processes, or another channel "
                "name."
            )
    if len(known) >= MOST_VERSIONS:
        raise ChannelTypeConflict(
            f"{text}: processes have opened it with {MOST_VERSIONS} versions of that already. Use "
            "one of them, or another channel name."
        )
    known.append(type)


def share_versions(channel: Channel, parent: Channel) -> None:
    """Give a derived channel the versions of its parent, if its events are of the same class."""
    same = any(channel.type.fingerprint == each.fingerprint for each in parent.versions)
    channel.versions = parent.versions if same else [channel.type]


def _is_same(one: TypeDescription, other: TypeDescription) -> bool:
    return (one.fingerprint, one.defaulted) == (other.fingerprint, other.defaulted)
