"""When a lost filter or relay goes on: at once, after a pause, when its turn has come, or no more.

A filter may be the cause of the deaths by which it was lost. So recovery has a budget. Which of
those at one host it was comes out by placing them apart: one that is suspect goes where no other is
that may be the cause, others wait until it has been tried, and it never goes where the directory
is, with which the fabric would end. If there is no such place, or none that answers, it waits a
while for one: who has died may come back.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from activebroker.directory.checkpoints import Checkpoints
from activebroker.directory.context import Context
from activebroker.directory.deaths import Budget, Record, acquit
from activebroker.directory.parts import Derived, Made, Relay, inputs_of
from activebroker.directory.recovery import PROOF, Recovery, Refusals, Stages
from activebroker.directory.requests import Attempt, Change
from activebroker.directory.wiring import Wiring
from activebroker.protocol.messages import ReportSent, Undeploy
from activebroker.protocol.specs import NOWHERE, Offsets

log = logging.getLogger(__name__)
TRIAL = 5.0  # seconds that a suspect is alone at a broker, unless it comes further before
WAIT, LONGEST_WAIT = 2.0, 30.0  # seconds for another broker; the longer if nobody else takes it
LOOK_UP = 0.25  # seconds between looks whether there is one
ONCE_MORE = 1.0  # seconds until those are asked again that did not answer


@dataclass(slots=True)
class Search:
    """For a place; `none`: since when there is none. `tried`: since when those that there are were,
    in vain. `left`: the stages that it had before, or was to have."""

    none: float
    tried: float | None = None
    left: Stages = ()
    refusals: Refusals = field(default_factory=Refusals)


class Recoveries:
    """What goes on later has a timer `recover NAME`."""

    def __init__(
        self,
        context: Context,
        wiring: Wiring,
        checkpoints: Checkpoints,
        budget: Budget,
    ) -> None:
        self._context = context
        self._graph = context.graph
        self._members = context.members
        self._wiring = wiring
        self._checkpoints = checkpoints
        self._recovery = Recovery(context, wiring)
        self._budget = budget
        self._records: dict[str, Record] = {}
        self._waiting: dict[str, Search] = {}

    def waits(self, name: str) -> bool:
        """Whether it is to go on, and does not yet."""
        return name in self._waiting

    def candidates(self, made: Made) -> list[str]:
        """Where it can run, the best place first."""
        return self._recovery.candidates(made)

    def forget(self, name: str) -> None:
        """It has ended."""
        self._records.pop(name, None)
        if self._waiting.pop(name, None) is not None:
            self._context.set_timer("recover", name, None)

    def died(self, node: str) -> Change:
        """A process has died: remember what it had, and what that had to do."""
        lost = [
            each
            for each in self._graph.all_made()
            if each.recovers and any(s.node == node for s in each.stages.values())
        ]
        now = self._context.now
        for each in lost:
            stuck = yield from self._stuck(each)
            self._records.setdefault(each.name, Record()).died(node, now, stuck)
        filters = [each for each in lost if isinstance(each, Derived)]
        found = [(self._records[each.name], inputs_of(each)) for each in filters]
        acquit(found, self._records.values(), self._budget, now)

    def recover(self, made: Made, also: Stages = ()) -> Change:
        """Let it go on from its last checkpoint, now or later. Returns why it does not, if so.

        `also`: see `Recovery.recover`.
        """
        name, now = made.name, self._context.now
        search = self._waiting.pop(name, None) or Search(now)
        search.left = (*search.left, *also)
        relay = isinstance(made, Relay)  # which runs nobody's code
        if not relay and (why := self._recovery.impossible(made)):
            return f"it could not go on elsewhere: {why}"
        record = self._records.get(name, Record())
        inputs = inputs_of(made)
        if not relay and (why := record.spent(self._budget, inputs, now)):
            return f"it is in quarantine: {why}"
        if not relay and (pause := record.pause(now)) > 1e-6:
            log.info("what makes channel %r goes on in %.1f s", name, pause)
            search.none = now + pause
            yield from self._later(made, search, pause)
            return ""
        self._checkpoints.forget(name)
        deaths = 0 if relay else record.by_one_event(inputs)
        suspect = deaths >= self._budget.suspect
        taken = [] if relay else self._on_trial(made, deaths)
        places = self._recovery.candidates(made, deaths > 0, suspect, taken)
        refused = search.refusals
        places = [each for each in places if not refused.final(self._members[each])]
        spared = any(map(self._recovery.is_spare, places))
        patience = LONGEST_WAIT if not places else WAIT if deaths else 0.0
        if taken:  # there is one, where another is tried
            search.none, patience = now, LONGEST_WAIT
        if not spared and now - search.none < patience:
            yield from self._later(made, search, LOOK_UP)
            return ""
        if deaths and not places:
            tried = f" ({story})" if (story := refused.story()) else ""
            return (
                f"it is in quarantine: {record.story()}; and there was no place for it but the "
                f"directory's{tried}"
            )
        since = search.tried = now if search.tried is None else search.tried
        place = yield from self._recovery.recover(made, places, refused, search.left)
        if place is None:
            return (yield from self._not_now(made, search, places, since))
        if place in self._members:
            record.placed = self._context.now
            log.info("what makes channel %r goes on at %r", name, place)
        return ""

    def _not_now(self, made: Made, search: Search, places: list[str], since: float) -> Change:
        """None of `places` took it. They are asked again, for a while, unless none can run it."""
        if why := self._recovery.impossible(made):
            return f"it could not go on elsewhere: {why}"
        refused, lasts = search.refusals, self._context.now - since
        may_yet = any(not refused.final(self._members.get(each)) for each in places)
        if may_yet and lasts < LONGEST_WAIT:
            yield from self._later(made, search, ONCE_MORE)
            return ""
        return f"it could not go on elsewhere: {refused.story() or 'there is no broker'}"

    def _stuck(self, made: Made) -> Change:
        """How far it has come, by supplier of which it has been sent more."""
        graph = self._graph
        if isinstance(made, Relay):
            feeds = [made.own]
        else:
            feeds = [outlet for outlet, flows in graph.feeds(made) if flows]
        inputs = inputs_of(made)
        asked = [outlet for outlet in feeds if outlet.node in self._members]
        answers = yield Attempt(
            [(each.node, ReportSent(each.id, made.name)) for each in asked], PROOF
        )
        sent = dict(zip((each.id for each in asked), answers, strict=True))
        stuck: Offsets = {}
        for outlet in feeds:
            if (at := sent.get(outlet.id)) is not None:
                for supplier, offset in at.items():
                    if offset > (come := inputs.get(supplier, NOWHERE)):
                        stuck[supplier] = come
                continue
            # What does not tell, or has died with what it feeds, may have sent as much as that.
            if outlet.supplier is not None and graph.relay_at(outlet) is None:
                stuck[outlet.supplier] = inputs.get(outlet.supplier, NOWHERE)
            else:
                above = (graph.relay_at(outlet) or made.parent).name
                record = self._records.get(above, Record())
                stuck |= {each: inputs.get(each, NOWHERE) for each in record.stuck}
        return stuck

    def _on_trial(self, made: Made, deaths: int) -> list[str]:
        """Where it does not go yet: to a suspect that has not had the time to prove anything; nor,
        if it is suspect itself, to another that had its share in a death."""
        enough = 1 if deaths >= self._budget.suspect else self._budget.suspect
        nodes = []
        for each in self._graph.all_made():
            record = self._records.get(each.name)
            if record is None or each is made or record.placed is None:
                continue
            blamed = record.by_one_event(inputs_of(each)) >= enough
            if blamed and self._context.now - record.placed < TRIAL:
                nodes += [stage.node for stage in each.stages.values()]
        spare = (each for each in nodes if each in self._members and self._recovery.is_spare(each))
        return list(spare)

    def _later(self, made: Made, search: Search, after: float) -> Change:
        """Until then it is nowhere: not at hosts that live, nor at the next process of the name of
        its last one."""
        search.left = tuple(dict.fromkeys([*search.left, *made.places]))
        self._waiting[made.name] = search
        self._graph.unplace(made)
        self._context.set_timer("recover", made.name, after)
        calls = [(node, Undeploy(stage, discard=True)) for node, stage in search.left]
        yield from self._wiring.tidy(calls)
