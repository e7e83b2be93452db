"""Gives a derived channel's filter other parameters, at one event of each stream.

First the filter is sent all events that it wants with the old or with the new parameters. When it
has filtered what was sent before that, it takes the new parameters; then it is sent only what these
want. So it gets every event that it would forward, with the old parameters or with the new ones.
"""

from __future__ import annotations

from typing import Any

from activebroker.core.errors import ActiveBrokerError, InvalidFilter, ReconfigurationFailed
from activebroker.directory.names import channel_named
from activebroker.directory.parts import Derived, Flow, Next, Outlet
from activebroker.directory.requests import Attempt, Change
from activebroker.directory.wiring import Wiring
from activebroker.matching import union
from activebroker.protocol.orders import ChangeStage, KeepStage, ReportSent
from activebroker.protocol.requests import Reconfigure
from activebroker.protocol.specs import Offsets, later

STAYS = "stays as it was"
LATE = "did not get so far in time"
CHANGING = "is still changing: what it has made before is not acknowledged"


def reconfigure(wiring: Wiring, body: Reconfigure) -> Change:
    """Give the filter of a derived channel the parameters of another envelope.

    Raises ReconfigurationFailed, or an error about the request.
    """
    graph = wiring.graph
    channel = channel_named(graph, body.channel)
    if not isinstance(channel, Derived):
        raise InvalidFilter(f"Channel {channel.name!r} is not derived: it has no filter.")
    feeds = [(outlet, flows) for outlet, flows in graph.feeds(channel) if flows]
    relays = [relay for outlet, _ in feeds if (relay := graph.relay_at(outlet)) is not None]
    if relays:
        raise ReconfigurationFailed(
            f"The filter of channel {channel.name!r} {STAYS}: supplier "
            f"{relays[0].supplier!r} has handed it over to {relays[0].at!r}. Derive it anew."
        )
    wanted = dict.fromkeys(
        [channel.predicate, *(each.predicate for each in graph.feeding_inlets(channel))]
    )
    wide = union([*wanted, body.envelope.predicate])
    change = channel.next = Next(graph.new_id(), body.envelope)
    outcome: str | None = f"{STAYS}: a source of its events did not answer"
    try:
        widened = yield from wiring.want(channel, wide, certain=False)
        if widened is not None:
            sent = yield Attempt(
                [(outlet.node, ReportSent(outlet.id, channel.name)) for outlet, _ in feeds]
            )
            if None not in sent:
                outcome = yield from _change(
                    wiring, channel, change, body.patience, feeds, sent, widened
                )
    except ActiveBrokerError:
        channel.next = None
        yield from wiring.narrow(channel)
        raise
    if not change.late:
        channel.next = None
        if outcome is None or channel.envelope is not change.envelope:  # else some did not change
            yield from wiring.narrow(channel)
    if outcome is not None:
        raise ReconfigurationFailed(f"The filter of channel {channel.name!r} {outcome}.")


def _change(
    wiring: Wiring,
    channel: Derived,
    change: Next,
    patience: float,
    feeds: list[tuple[Outlet, list[Flow]]],
    sent: list[Any],
    widened: dict[int, Offsets],
) -> Change:
    """Let the stages change, each after what it was `sent`. Returns what went wrong, None if
    nothing did."""
    stages = list(channel.stages.values())
    after: dict[int, dict[int, Offsets]] = {stage.id: {} for stage in stages}
    passed: dict[int, Offsets] = {stage.id: {} for stage in stages}
    for (outlet, flows), upto in zip(feeds, sent, strict=True):
        for flow in flows:
            stage_id = flow.inlet.id
            after[stage_id][outlet.id] = upto
            passed[stage_id] = later(passed[stage_id], widened[outlet.id])
    answers = yield Attempt(
        [
            (
                stage.node,
                ChangeStage(
                    stage.id, change.id, change.envelope, after[stage.id], passed[stage.id]
                ),
            )
            for stage in stages
        ],
        patience,
    )
    failures: list[str] = []
    others: list[str] = []  # the stages that go on as they were, and why
    changing = False
    for stage, answer in zip(stages, answers, strict=True):
        if answer is False:
            failures.append(f"{STAYS}: its filter has ended")
        elif isinstance(answer, str):
            failures.append(f"{STAYS}: {answer}")
            others.append(f"{stage.node!r} could not ({answer})")
        elif answer is None:
            kept = yield from wiring.tidy([(stage.node, KeepStage(stage.id, change.id))])
            changing = changing or kept == [False]
            if kept == [True]:
                others.append(f"{stage.node!r} {LATE}")
            failures.append(f"{STAYS}: {stage.node!r} {LATE}")
    if channel.envelope is change.envelope:  # a checkpoint with it has come meanwhile
        return None
    if failures and channel.recovers:
        change.late = changing  # then the predicate is narrowed when the checkpoint comes
        return CHANGING if changing else failures[0]
    if stages and not changing and len(failures) == len(stages):
        return failures[0]
    # A filter at its suppliers: some of its stages may be lost, or have ended.
    channel.envelope, channel.next = change.envelope, None
    return f"has changed, but {' and '.join(others)}: reconfigure it again" if others else None
