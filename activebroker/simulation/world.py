"""The hosts, the network between them and the time, which SimPy keeps."""

from __future__ import annotations

import hashlib
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import simpy
from simpy.events import Event, Timeout

from activebroker.node import effects as fx
from activebroker.node.effects import Departed
from activebroker.protocol.messages import ClaimName, Join
from activebroker.protocol.specs import Member
from activebroker.simulation import edge, story
from activebroker.simulation.host import NOTHING, Host
from activebroker.simulation.kinds import Kinds
from activebroker.simulation.machines import Key, is_member, is_orphan, machines, plans
from activebroker.simulation.network import Network, calm
from activebroker.simulation.outcome import Covered, Happening
from activebroker.simulation.scenario import HUB, Options
from activebroker.simulation.silence import Silence
from derivation.machine import Machine

Action = Callable[[Event], None]
AGAIN = 1.0  # seconds after which a process that was told that it is lost starts again


class Stuck(Exception):
    """What was waited for did not come about in time."""


class Over(Exception):
    """The directory is gone, as it may be: nothing is promised after that."""


class World:
    """`begin` joins all hosts to the fabric. `record` keeps the history.

    What is set from outside: `inspect` looks at a host after every input and tells what is wrong
    with it, `rejoin` lets a process join again, `on_state` is told when a machine enters a state.
    """

    def __init__(
        self,
        rng: random.Random,
        names: Iterable[str],
        *,
        brokers: Iterable[str] = (),
        undialable: Iterable[str] = (),
        options: Options = Options(),  # noqa: B008 - a frozen value
        record: bool = False,
    ) -> None:
        self.random = rng
        self.env = simpy.Environment()
        self.record = record
        self.history: list[Happening] = []
        self.violations: list[str] = []
        self.covered: Counter[Covered] = Counter()
        self.counts: Counter[str] = Counter()
        self.kinds = Kinds()
        self.deaths: dict[str, None] = {}  # names of hosts of which a process has died
        self._killers: dict[str, None] = {}  # channels whose filters have killed their hosts
        # Channels whose filters no host can load, or (channel, host) where only that cannot.
        self.unloadable: set[str | tuple[str, str]] = set()
        self.costly: list[edge.Cost] = []  # what has failed at the edges of nodes
        self.failing: list[type[fx.Effect]] = []  # of each, the next one fails, wherever that is
        self.refusing: set[str] = set()  # hosts that can load no filter
        self.under_way = 0  # what is scheduled, timers left out
        self.last_timer = 0
        self.options = options
        self.network = Network(self, calm(options))  # until `plan`
        self.names_of_flows = story.Flows()
        self._digest = hashlib.blake2b(digest_size=16)
        self._machines: dict[str, dict[Key, tuple[Machine, str]]] = {}
        self._attached: dict[str, dict[int, None]] = {}  # sources of derivations under way
        self._swapped: dict[tuple[str, int], None] = {}
        self._parties: dict[int, tuple[str, ...]] = {}  # of derivations
        self.silence = Silence()
        self.again: dict[str, None] = {}  # who starts anew when told that it is lost
        self.ended: list[Host] = []  # processes that ended when they were told that they are lost
        self.hosts: dict[str, Host] = {}
        for name in (HUB, *names):
            address = None if name in tuple(undialable) else name
            member = Member(name, address, name in (HUB, *brokers), 1)
            again = options.rejoining and not member.is_broker
            self.hosts[name] = Host(self, member, NOTHING if again else None)
        self.inspect: Callable[[Host], Iterable[str]] | None = None
        self.rejoin: Callable[[Host, Departed], None] | None = None
        self.on_state: Callable[[Host, str, str], None] | None = None

    def begin(self) -> None:
        for host in self.hosts.values():
            self.join(host)
        self.run_until(lambda: all(host.joined for host in self.hosts.values()))

    # --- time ---------------------------------------------------------------------------------

    def soon(self, after: float, action: Action) -> None:
        """Do something in `after` seconds; until then something is under way."""
        self.under_way += 1
        callbacks = Timeout(self.env, after).callbacks
        assert callbacks is not None
        callbacks += (self._no_more, action)

    def _no_more(self, _: Event) -> None:
        self.under_way -= 1

    def later(self, after: float, action: Action) -> None:
        """The same for a timer, for which nobody waits."""
        callbacks = Timeout(self.env, after).callbacks
        assert callbacks is not None
        callbacks.append(action)

    def run_until(self, reached: Callable[[], bool], within: float = 120.0) -> None:
        """Let time pass until `reached()`; Stuck after `within` seconds."""
        env = self.env
        end = env.now + within
        while not reached():
            if env.now > end or env.peek() == simpy.core.Infinity:
                raise Stuck(story.stuck({host.name: host.node for host in self.alive()}, env.now))
            env.step()

    def run_for(self, seconds: float) -> None:
        if seconds > 0:
            self.env.run(self.env.now + seconds)

    def settle(self, within: float = 120.0) -> None:
        """Let time pass until nothing is under way."""
        self.run_until(self.quiet, within)

    def quiet(self) -> bool:
        """Whether nothing is under way but heartbeats."""
        return self.under_way == 0 and not any(
            link.unacknowledged for host in self.alive() for link in host.node.peers.links.values()
        )

    def work_time(self) -> float:
        rng = self.random
        return self.options.work * rng.random() if rng.random() < 0.7 else 0.0

    # --- hosts --------------------------------------------------------------------------------

    def alive(self) -> list[Host]:
        return [host for host in self.hosts.values() if host.alive]

    def kill(self, name: str) -> None:
        """The process is gone, and nobody is told."""
        host = self.hosts[name]
        self.cover("crash", name)
        self.note("fault", name, "crash")
        self.deaths[name] = None
        self.end_process(host)

    def killed_by_filter(self, host: Host, channel: str) -> None:
        """A filter has killed the process that runs it; brokers have a supervisor.

        The hub is spared by one that has killed before. That another one kills, nobody can know.
        """
        if host.name == HUB:
            if channel in self._killers:
                self.violated(
                    "hub", f"{channel} has killed before, and now the directory's process"
                )
            self.counts["hubs killed by filters"] += 1
            raise Over
        self._killers[channel] = None
        self.kill(host.name)
        if self.options.supervised and host.member.is_broker:
            self.soon(self.options.supervised, lambda _: self.start(host.name))

    def start_again(self, host: Host) -> None:
        """A process that can do nothing more in the fabric ends, and its user starts another."""
        if host.alive and self.hosts[host.name] is host:
            self.end_process(host)
            self.ended.append(host)
            self.start_at_once(host.name)

    def start(self, name: str) -> None:
        """A process of a name starts: it asks for that first, until it gets it."""
        again = lambda: self.soon(AGAIN, lambda _: self.start(name))  # noqa: E731
        if not self.hosts[name].alive:
            self.claim(name, lambda _: self.start_at_once(name), again)

    def start_at_once(self, name: str) -> None:
        """The same for one that does not ask for its name."""
        if self.hosts[name].alive:
            return
        host = self.restart(name)
        self.cover_restart(name)
        self.join(host)

    def claim(
        self,
        name: str,
        granted: Callable[[object], None],
        refused: Callable[[], None],
        again: bool = False,
    ) -> None:
        """A process that is about to join asks for its name; some broker answers it."""

        def ask(_: Event) -> None:
            self.hosts[HUB].request(ClaimName(name, again=again), granted, refused)

        self.soon(self.options.slowest, ask)

    def end_process(self, host: Host) -> None:
        """The process is gone, with all that it had."""
        host.alive = host.joined = False
        self.network.sever(host)
        self._machines.pop(host.name, None)
        self._attached.pop(host.name, None)

    def restart(self, name: str, before: Departed | None = None) -> Host:
        """A new process of a dead one's name, or a new node of one that goes on."""
        old = self.hosts[name].member
        self.network.forget(name)
        self.note("fault", name, "restart")
        member = Member(name, old.address, old.is_broker, old.incarnation + 1)
        host = self.hosts[name] = Host(self, member, before)
        return host

    def join(self, host: Host) -> None:
        def joined(_: object) -> None:
            host.joined = True

        def refused() -> None:
            # As a user would, try again: its predecessor has not been found lost, or it has been
            # cut off from the directory itself.
            again = self.start_again if is_orphan(host.node) else self.join
            self.soon(1.0, lambda _: again(host))

        host.request(Join(host.member), joined, refused)

    def agreed(self) -> bool:
        """Whether all processes know who is in the fabric: themselves, at the least, and whoever
        wants to join has. The directory knows who has died."""
        hub = self.hosts[HUB].node

        def knows(host: Host) -> bool:
            if host.rejoining:
                return False
            is_in = host.alive and not is_orphan(host.node)
            return is_member(hub, host.member) is is_in and host.joined >= is_in

        return all(map(knows, self.hosts.values()))

    def _expelled(self, host: Host) -> None:
        """The process has been told that it is taken for lost: as good as dead, from now on."""
        if host.rejoins:
            if not host.rejoining:
                host.rejoining = True
                if not host.may_be_lost:
                    self.violated("expelled", f"{host.name} was heard, and is taken for lost")
                self.deaths[host.name] = None
                self.counts["hosts expelled"] += 1
            return
        host.expelled = True
        self.deaths[host.name] = None
        self.counts["hosts expelled"] += 1
        self.note("fault", host.name, "is taken for lost")
        if host.name in self.again:
            self.soon(AGAIN, lambda _: self.start_again(host))

    def departed(self, host: Host, left: Departed) -> None:
        """A node has left behind all that it had: its process joins again."""
        assert self.rejoin is not None
        self.rejoin(host, left)

    # --- what is seen -------------------------------------------------------------------------

    def cover(self, kind: str, *names: str) -> None:
        """A fault takes effect at hosts: count it for every machine there."""
        for name in names:
            for (machine, _, _), (_, state) in self._machines.get(name, {}).items():
                self.covered[machine, state, kind] += 1
            for _ in self._attached.get(name, ()):
                self.covered["source", "ATTACHED", kind] += 1

    def cover_restart(self, name: str) -> None:
        """A process starts anew: count it for every machine that its predecessor had a part in."""
        for machines_ in self._machines.values():
            for (machine, derivation, _), (_, state) in machines_.items():
                if name in self._parties.get(derivation, ()):
                    self.covered[machine, state, "restart"] += 1
        for attached in self._attached.values():
            for derivation in attached:
                if name in self._parties.get(derivation, ()):
                    self.covered["source", "ATTACHED", "restart"] += 1

    def frame_fault(self, kind: str, source: str, target: str, frame: tuple[bytes, Any]) -> None:
        """Something happens to a frame, and so to both its ends."""
        self.counts[f"frame {kind}"] += 1
        if self._machines or self._attached:
            self.cover(kind, source, target)
        if self.record and kind in ("drop", "repeat", "cut"):
            what, derivation = self.names_of_flows.describe(frame)
            if what:
                kind = "drop" if kind == "cut" else kind
                self.note(kind, source, what, target, derivation)

    def told(self, source: str, target: str, frame: tuple[bytes, Any]) -> None:
        """A frame is sent. The trace hash is of these, so that it needs no history."""
        self._digest.update(struct.pack("d", self.env.now))
        self._digest.update(frame[0])
        if self.record:
            what, derivation = self.names_of_flows.describe(frame)
            if what:
                self.note("send", source, what, target, derivation)

    def arrived(self, source: str, target: str, frame: tuple[bytes, Any]) -> None:
        if self.record:
            what, derivation = self.names_of_flows.describe(frame)
            if what:
                self.note("arrive", source, what, target, derivation)

    def saw(self, host: Host, deliver: fx.Deliver) -> None:
        """A consumer receives events."""
        batch = deliver.batch
        self.counts["events seen"] += len(batch)
        self._digest.update(batch.seqs.tobytes())
        if self.record:
            self.note("see", host.name, f"consumer {deliver.port}: {story.summary(batch)}")

    def note(
        self, kind: str, place: str, what: str, other: str = "", derivation: int | None = None
    ) -> None:
        if self.record:
            self.history.append(Happening(self.env.now, kind, place, what, other, derivation))

    def violated(self, kind: str, what: str) -> None:
        self.violations.append(f"{kind}: {what}")

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def watch(self, host: Host) -> None:
        """Look whether machines of derivations came, went, or are in another state."""
        if self.inspect is not None:
            self.violations += [each for each in self.inspect(host) if each not in self.violations]
        if host.joined and not host.expelled and is_orphan(host.node):
            self._expelled(host)
        now = machines(host.node)
        before = self._machines.get(host.name)
        if not now and not before:
            return
        before = before or {}
        if host.name == HUB and any(key[0] == "initiator" for key in (*now, *before)):
            self._watch_sources(host)
        after: dict[Key, tuple[Machine, str]] = {}
        for key, machine in now.items():
            state = machine.state.name
            after[key] = machine, state
            if key not in before or before[key][1] != state:
                self._entered(host, key, state)
        for key, (machine, state) in before.items():
            if key not in now and machine.state.name != state:
                self._entered(host, key, machine.state.name)
        if after:
            self._machines[host.name] = after
        else:
            self._machines.pop(host.name, None)

    def _watch_sources(self, host: Host) -> None:
        """Sources have no machine before their swap; that they are attached is in the plan."""
        attached: dict[str, dict[int, None]] = {}
        for plan in plans(host.node):
            self.names_of_flows.know(plan)
            if plan.derivation not in self._parties:
                sources = (swap.source for swap in plan.swaps)
                self._parties[plan.derivation] = (*plan.origins, *plan.destinations, *sources)
            for swap in plan.swaps:
                source = self.hosts[swap.source]
                if source.alive and (swap.source, plan.derivation) not in self._swapped:
                    attached.setdefault(swap.source, {})[plan.derivation] = None
        before, self._attached = self._attached, attached
        for name, derivations in attached.items():
            for derivation in derivations:
                if derivation not in before.get(name, {}) and name in self.hosts:
                    self._entered(self.hosts[name], ("source", derivation, 0), "ATTACHED")

    def _entered(self, host: Host, key: Key, state: str) -> None:
        machine, derivation, _ = key
        self.counts[f"{machine} {state}"] += 1
        if machine == "initiator":
            self.kinds.entered(host.node, derivation, state)
        if machine == "source" and state == "SWAPPED":
            self._swapped[host.name, derivation] = None
            self._attached.get(host.name, {}).pop(derivation, None)
        self.note("state", host.name, f"{machine} {state}", "", derivation)
        if self.on_state is not None:
            self.on_state(host, machine, state)
