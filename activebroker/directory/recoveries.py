"""When a lost filter or relay goes on: at once, after a pause, in its turn, or not at all.

A filter may itself have caused the deaths by which it was lost, so recovery has a budget. To find
out which of several filters at a host it was, they are placed apart. A suspect goes to a broker
where no other filter may be the cause, and the others wait until it has been tried. It never goes
to the directory's node, with which the whole fabric would end. If there is no such broker, or none
answers, the filter waits a while: a broker that died may come back.
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
from activebroker.protocol.orders import ReportSent, Undeploy
from activebroker.protocol.specs import NOWHERE, Offsets

log = logging.getLogger(__name__)
TOGETHER = 12.0  # seconds that may lie between the news of two deaths by one event
TRIAL = 5.0  # seconds that a suspect is alone at a broker, unless it gets further before
# Seconds to wait for another broker; the longer one if no other process can take the filter.
WAIT, LONGEST_WAIT = 2.0, 30.0
LOOK_UP = 0.25  # seconds between two looks for such a broker
ONCE_MORE = 1.0  # seconds until processes that did not answer are asked again


@dataclass(slots=True)
class Search:
    """The search for a place for a lost filter or relay."""

    none: float  # since when there is no place
    tried: float | None = None  # since when places have been tried without success
    left: Stages = ()  # those that it had before, or was to have
    refusals: Refusals = field(default_factory=Refusals)


class Recoveries:
    """Recovers lost filters and relays; each that has to wait has a timer `recover NAME`."""

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
        self._cut_off: list[tuple[float, str, str]] = []  # when a supplier died, of which filter
        self._waiting: dict[str, Search] = {}

    def waits(self, name: str) -> bool:
        """Whether a filter or relay waits for its recovery."""
        return name in self._waiting

    def candidates(self, made: Made) -> list[str]:
        """The nodes where a filter or relay can run, the best first."""
        return self._recovery.candidates(made)

    def forget(self, name: str) -> None:
        """A filter or relay has ended."""
        self._records.pop(name, None)
        if self._waiting.pop(name, None) is not None:
            self._context.set_timer("recover", name, None)

    def died(self, node: str) -> Change:
        """A process has died: note it for the filters and relays that it ran, with the events that
        each had under way."""
        lost = [
            each
            for each in self._graph.all_made()
            if each.recovers
            and not each.home  # a log runs no code of users, and causes no death
            and any(s.node == node for s in each.stages.values())
        ]
        now = self._context.now
        self._cut_off = [each for each in self._cut_off if now - each[0] < TOGETHER]
        for flow in self._graph.flows.values():
            supplier, made = flow.outlet.supplier, flow.inlet.makes
            own = flow.outlet.node == node and self._graph.relay_at(flow.outlet) is None
            if own and supplier is not None and made is not None:
                self._cut_off.append((now, made.name, supplier))
        acquitted = self._tried_before(lost)
        for each in lost:
            stuck = yield from self._stuck(each)
            record = self._records.setdefault(each.name, Record())
            if each in acquitted:
                record.placed = None
            else:
                record.died(node, now, stuck)
        filters = [each for each in lost if isinstance(each, Derived) and each not in acquitted]
        found = [(self._records[each.name], inputs_of(each)) for each in filters]
        acquit(found, self._records.values(), self._budget, now)

    def _tried_before(self, lost: list[Made]) -> list[Made]:
        """The suspects that had been tried at their host, without its death, before another came
        there to be tried: that one is the cause.

        They may not have got further: a filter has to wait for subscribers that are lost as well.
        """
        tried: dict[str, float] = {}
        for each in lost:
            record = self._records.get(each.name, Record())
            suspect = record.by_one_event(inputs_of(each)) >= self._budget.suspect
            if suspect and record.placed is not None:
                tried[each.name] = record.placed
        last = max(tried.values(), default=0.0)
        return [each for each in lost if tried.get(each.name, last) <= last - TRIAL]

    def recover(self, made: Made, also: Stages = ()) -> Change:
        """Let a filter or relay go on from its last checkpoint, now or later. Returns why it
        cannot, empty if it can.

        `also`: see `Recovery.recover`.
        """
        name, now = made.name, self._context.now
        search = self._waiting.pop(name, None) or Search(now)
        search.left = (*search.left, *also)
        # These run no code of users, and cause no deaths.
        harmless = isinstance(made, Relay) or bool(made.home)
        if not harmless and (why := self._recovery.impossible(made)):
            return f"it could not go on elsewhere: {why}"
        record = self._records.get(name, Record())
        inputs = inputs_of(made)
        if not harmless and (why := record.spent(self._budget, inputs, now)):
            return f"it is in quarantine: {why}"
        if not harmless and (pause := record.pause(now)) > 1e-6:
            log.info("what makes channel %r goes on in %.1f s", name, pause)
            search.none = now + pause
            yield from self._later(made, search, pause)
            return ""
        self._checkpoints.forget(name)
        deaths = 0 if harmless else record.by_one_event(inputs)
        suspect = deaths >= self._budget.suspect
        taken = [] if harmless else self._on_trial(made, deaths)
        places = self._recovery.candidates(made, deaths > 0, suspect, taken)
        if made.home and not places:
            yield from self._later(made, search, LOOK_UP)  # as long as its broker takes to be back
            return ""
        refused = search.refusals
        places = [each for each in places if made.home or not refused.final(self._members[each])]
        spared = any(map(self._recovery.is_spare, places))
        patience = LONGEST_WAIT if not places else WAIT if deaths else 0.0
        if taken:  # there is a broker, where another filter is tried now
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
        """None of `places` took the filter. Ask them again for a while, unless none can run it."""
        if why := self._recovery.impossible(made):
            return f"it could not go on elsewhere: {why}"
        refused, lasts = search.refusals, self._context.now - since
        # A log may be in the hands of the process before, which ends.
        may_yet = bool(made.home) or any(
            not refused.final(self._members.get(each)) for each in places
        )
        if may_yet and lasts < LONGEST_WAIT:
            yield from self._later(made, search, ONCE_MORE)
            return ""
        return f"it could not go on elsewhere: {refused.story() or 'there is no broker'}"

    def _stuck(self, made: Made) -> Change:
        """How far a filter or relay has come, by supplier with events under way to it."""
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
            # An outlet that does not answer, or died together with the filter, may have sent more.
            if outlet.supplier is not None and graph.relay_at(outlet) is None:
                stuck[outlet.supplier] = inputs.get(outlet.supplier, NOWHERE)
            else:
                above = (graph.relay_at(outlet) or made.parent).name
                record = self._records.get(above, Record())
                stuck |= {each: inputs.get(each, NOWHERE) for each in record.stuck}
        for _, name, supplier in self._cut_off:
            if name == made.name:  # its supplier has died as well, and is not there to ask
                stuck.setdefault(supplier, inputs.get(supplier, NOWHERE))
        # Nobody can send these events again: they cause no second death.
        self._cut_off = [each for each in self._cut_off if each[1] != made.name]
        return stuck

    def _on_trial(self, made: Made, deaths: int) -> list[str]:
        """The brokers to avoid for now: those where a suspect has not run for long enough; and, for
        a suspect itself, also those of any filter that was involved in a death."""
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
        """Try again after a time. Until then the filter runs nowhere: it is taken down where hosts
        still live, and is not expected at a new process of its last host's name."""
        search.left = tuple(dict.fromkeys([*search.left, *made.places]))
        self._waiting[made.name] = search
        self._graph.unplace(made)
        self._context.set_timer("recover", made.name, after)
        calls = [(node, Undeploy(stage, discard=True)) for node, stage in search.left]
        yield from self._wiring.tidy(calls)
