"""Where in a log a consumer begins, as users say it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from activebroker.core.errors import InvalidSubscription
from activebroker.protocol.specs import Since as Place

Since = int | datetime | Mapping[str, int]


def place(since: Since, until: int | None, follow: bool) -> Place:
    """The place that a user means. Raises InvalidSubscription."""
    ends = not follow and until is None
    match since:
        case bool():
            pass
        case int() if since >= 0:
            return Place(position=since, until=until, ends=ends)
        case datetime():
            # Not by way of a float, which rounds to some hundred nanoseconds.
            whole = since.replace(microsecond=0).timestamp()
            return Place(time=int(whole) * 10**9 + since.microsecond * 1000, until=until, ends=ends)
        case Mapping() if all(_is_seq(*each) for each in since.items()):
            return Place(seqs=dict(since), until=until, ends=ends)
    raise InvalidSubscription(
        "since is a position in the log (0: all that is left), a datetime, or the first sequence "
        f"number that is wanted of each supplier, as in {{'NYSE': 41}}; got {since!r}."
    )


def _is_seq(supplier: object, seq: object) -> bool:
    return isinstance(supplier, str) and isinstance(seq, int) and not isinstance(seq, bool)
