"""The hosts and the network between them: who lives, who is in the fabric, and what they do."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import simpy
from simpy.events import Event

from activebroker.node import effects as fx
from activebroker.node.effects import Legacy, PeerEnded
from activebroker.protocol.requests import ClaimName, Join, Leave
from activebroker.protocol.specs import Member
from activebroker.simulation import story
from activebroker.simulation.host import NOTHING, Host, Surroundings
from activebroker.simulation.kinds import Kinds
from activebroker.simulation.logs import MemoryLog
from activebroker.simulation.machines import Key, is_member, is_orphan, machines, plans
from activebroker.simulation.network import Network, calm
from activebroker.simulation.scenario import HUB, Options
from derivation.machine import Machine

DRAINS = 1.0  # seconds, at most, until a process that has left ends
AGAIN = 1.0  # seconds after which a process that was told that it is lost starts again


class Stuck(Exception):
    """What was waited for did not come about in time."""


class Over(Exception):
    """The directory is gone, as it may be: nothing is promised after that."""


class World(Surroundings):
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
        super().__init__(rng, options, record)
        self.kinds = Kinds()
        self._killers: dict[str, None] = {}  # channels whose filters have killed their hosts
        self._logs: dict[tuple[str, str], MemoryLog] = {}  # by host and path, whatever processes do
        self.network = Network(self, calm(options), self._arrive)  # calm until there are faults
        self._swapped: dict[tuple[str, int], None] = {}
        self.again: dict[str, None] = {}  # who starts anew when told that it is lost
        self.homes: dict[str, None] = {}  # brokers with a log, which always come back
        self.ended: list[Host] = []  # processes that ended when they were told that they are lost
        self.hosts: dict[str, Host] = {}
        for name in (HUB, *names):
            address = None if name in tuple(undialable) else name
            member = Member(name, address, name in (HUB, *brokers), 1)
            again = options.rejoining and not member.is_broker
            self.hosts[name] = Host(self, member, NOTHING if again else None)
        self.inspect: Callable[[Host], Iterable[str]] | None = None
        self.rejoin: Callable[[Host, Legacy], None] | None = None
        self.on_state: Callable[[Host, str, str], None] | None = None

    def begin(self) -> None:
        for host in self.hosts.values():
            self.join(host)
        self.run_until(lambda: all(host.joined for host in self.hosts.values()))

    # --- time ---------------------------------------------------------------------------------

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

    # --- hosts --------------------------------------------------------------------------------

    def alive(self) -> list[Host]:
        return [host for host in self.hosts.values() if host.alive]

    def kill(self, name: str) -> None:
        """The process is gone. The directory alone may be told, before there is another one."""
        host = self.hosts[name]
        self.cover("crash", name)
        self.note("fault", name, "crash")
        self.deaths[name] = None
        self.end_process(host)
        if self.options.noticed:
            self.soon(self.options.noticed, lambda _: self._notice(host))

    def leave(self, host: Host) -> None:
        """A broker leaves in good order, and ends soon after the answer, if there is one."""
        self.note("fault", host.name, "leaves")
        self.deaths[host.name] = None

        def left(*_: object) -> None:
            self.soon(self.random.uniform(0.0, DRAINS), lambda _: self._left(host))

        host.request(Leave(host.name), left, left)

    def _left(self, host: Host) -> None:
        seconds = self.leaving.pop(host.name, 0.0) or self.comes_back(host.name)
        if host.alive and self.hosts[host.name] is host:
            self.end_process(host)
            if seconds:
                self.soon(seconds, lambda _: self.start(host.name))

    def _notice(self, host: Host) -> None:
        """The directory sees that nobody listens there, at the moment in which it looks."""
        hub = self.hosts[HUB]
        if not hub.alive or self.hosts[host.name] is not host:
            return
        if hub.paused:
            self.soon(self.options.noticed, lambda _: self._notice(host))
        else:
            hub.give(PeerEnded(host.name))

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

    def comes_back(self, name: str) -> float:
        """Seconds after which a process comes back in any case; 0 if nobody sees to it."""
        return AGAIN if name in self.homes else 0.0

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

    def log(self, host: str, path: str) -> MemoryLog:
        return self._logs.setdefault((host, path), MemoryLog())

    def end_process(self, host: Host) -> None:
        """The process is gone, with all that it had in memory."""
        host.alive = host.joined = False
        for (name, _), log in self._logs.items():
            if name == host.name:
                log.crash()
        self.network.sever(host.member, self.hosts)
        self._machines.pop(host.name, None)
        self._attached.pop(host.name, None)

    def restart(self, name: str, before: Legacy | None = None) -> Host:
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
        if host.name in self.again or host.name in self.homes:
            self.soon(AGAIN, lambda _: self.start_again(host))

    def departed(self, host: Host, left: Legacy) -> None:
        """A node has left behind all that it had: its process joins again."""
        assert self.rejoin is not None
        self.rejoin(host, left)

    def _arrive(
        self, peer: str, source: str, frame: tuple[bytes, Any], input: fx.FrameArrived
    ) -> None:
        self.hosts[peer].frame_arrived(source, frame, input)

    # --- what is seen -------------------------------------------------------------------------

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
            if plan.move not in self._parties:
                sources = (swap.source for swap in plan.swaps)
                self._parties[plan.move] = (*plan.origins, *plan.destinations, *sources)
            for swap in plan.swaps:
                source = self.hosts[swap.source]
                if source.alive and (swap.source, plan.move) not in self._swapped:
                    attached.setdefault(swap.source, {})[plan.move] = None
        before, self._attached = self._attached, attached
        for name, moves in attached.items():
            for move in moves:
                if move not in before.get(name, {}) and name in self.hosts:
                    self._entered(self.hosts[name], ("source", move, 0), "ATTACHED")

    def _entered(self, host: Host, key: Key, state: str) -> None:
        machine, move, _ = key
        self.counts[f"{machine} {state}"] += 1
        if machine == "initiator":
            self.kinds.entered(host.node, move, state)
        if machine == "source" and state == "SWAPPED":
            self._swapped[host.name, move] = None
            self._attached.get(host.name, {}).pop(move, None)
        self.note("state", host.name, f"{machine} {state}", "", move)
        if self.on_state is not None:
            self.on_state(host, machine, state)
