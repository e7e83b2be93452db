"""What a fabric looks like in which processes have come and gone, and what was promised to those
who were there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import churn_for_tests as c
from churn_cast_for_tests import Cast, Player
from field_for_tests import until

PARTS = (  # of nodes and of what they run on: modules of which nothing may be left
    "activebroker.node.links.link",
    *(f"activebroker.node.dataplane.{name}" for name in ("outlet", "inlet", "stage")),
    "activebroker.node.moves",
    *(f"activebroker.runtime.{name}" for name in ("pool", "workers", "queue", "publishing")),
    "activebroker.transport",
)


def picture(cast: Cast) -> dict[str, Any]:
    """What the directory knows, and its nodes."""
    status = cast.watch.status()
    channels = [each for each in status["channels"] if not each["closed"]]
    kept = ("name", "parent", "at", "owner", "suppliers", "consumers", "relays")
    nodes = status["nodes"]
    return {
        "members": sorted(each["name"] for each in status["members"]),
        "channels": [{key: each[key] for key in kept} for each in channels],
        "stages": [(e["name"], stage["node"]) for e in channels for stage in e["stages"]],
        "moves": status["moves"],
        "flows": {
            name: sorted((f["channel"], f["supplier"] or "", f["target"]) for f in node["flows"])
            for name, node in nodes.items()
        },
        "links": {name: sorted(node["links"]) for name, node in nodes.items()},
    }


def measure(cast: Cast) -> dict[str, Any]:
    """The same, and what the processes that stand need, when those who have left are forgotten
    everywhere."""

    def forgotten() -> dict[str, Any] | None:
        now = picture(cast)
        known = all(set(links) <= set(now["members"]) for links in now["links"].values())
        return now if known else None

    now = until(forgotten, "who has left is forgotten")
    return now | {each.player.name: each.counts() for each in cast.standing}


def parts(cast: Cast) -> dict[str, Counter[str]]:
    """How many parts the nodes of those who stand have, by class."""
    return {
        each.player.name: Counter(
            {kind: n for kind, n in each.player.get("census").items() if kind.startswith(PARTS)}
        )
        for each in cast.standing
    }


def sent(cast: Cast) -> int:
    """How many events the supplier that stands has sent to the consumer that does."""
    (flow,) = [
        each
        for each in cast.watch.status()["nodes"]["process of steady"]["flows"]
        if each["target"] == "plain"
    ]
    return int(flow["sent_events"])


def broken(cast: Cast) -> list[str]:
    """What was promised and is not so, and none of the faults explains."""
    players = [each for each in cast.everyone if isinstance(each, Player)]
    published = {
        (each.name, each.details[1]): each.last
        for each in players
        if isinstance(each.last, int) and not each.ousted  # which was told what it lost
    }
    cut_off = {(each.name, each.details[1]) for each in players if each.lost and each.details[1:]}
    wrong = []
    for each in players:
        for note in each.notes:
            derived = note.channel != "numbers" and (note.supplier, note.life) in cut_off
            explained = {
                "gap": each.lost or derived,
                "reset": each.lost or derived,
                "error": each.ousted,
            }
            if not explained.get(note.kind, False):
                wrong.append(f"{each.name}: {note}")
        if not isinstance(each.last, c.Report) or each.ousted:
            continue
        gaps = sum(n.missing for n in each.notes if n.kind == "gap" and n.channel == "numbers")
        if "numbers" in each.last.streams and gaps != each.last.missed:
            wrong.append(f"{each.name}: {gaps} events missing, {each.last.missed} told")
        for channel, streams in each.last.streams.items():
            for key, (first, last) in streams.items():
                stands = each in (cast.plain, cast.counting)
                if stands and first != 0:
                    wrong.append(f"{each.name}: {key} of {channel} began at {first}")
                if stands and last + 1 != published.get(key, last + 1):
                    wrong.append(f"{each.name}: {key} ends at {last}, of {published[key]}")
    return wrong
