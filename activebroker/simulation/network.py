"""The network between hosts: delays, bandwidth, and what goes wrong with frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from activebroker.node.effects import FrameArrived
from activebroker.protocol.messages import Heard
from activebroker.protocol.specs import Member
from activebroker.simulation.course import Course
from activebroker.simulation.scenario import Options

Arrive = Callable[[str, str, tuple[bytes, Any], FrameArrived], None]
"""What becomes of a frame: to whom, and from whom, it has come, and what their nodes are given."""

INSTANT = 1e-9  # seconds between frames in order, which rounding must not exchange
HEARTBEAT = Heard.__name__.encode()
LATE = 10.0  # times the base delay, for a frame that is late or is overtaken
MOST_LOST = 8  # frames in a row: with one a second more, chance alone would be silence for too long


@dataclass(slots=True)
class Route:
    """From one host to another; frames arrive in order, unless they are overtaken."""

    delay: float
    last: float = 0.0  # when the last frame in order arrives
    free: float = 0.0  # when its bandwidth is free
    cut_until: float = 0.0
    lasts: bool = False  # the cut goes on when all else heals
    lost: int = 0  # frames in a row, by chance


class Network:
    """Carries frames. `options` may change while it runs."""

    def __init__(self, course: Course, options: Options, arrive: Arrive) -> None:
        self.options = options
        self.connected: dict[tuple[str, str], None] = {}
        self._course = course
        self._arrives = arrive
        self._random = course.random
        self._routes: dict[tuple[str, str], Route] = {}
        self._severed: dict[tuple[Member, str], None] = {}  # from a process that is gone

    def transmit(
        self, source: Member, peer: str, address: str | None, frames: Sequence[tuple[bytes, Any]]
    ) -> None:
        """Put frames on their way. A peer that cannot be dialled has to dial first."""
        name = source.name
        pair = (name, peer) if name < peer else (peer, name)
        if pair not in self.connected:
            now = self._course.env.now
            ways = self.route(source.name, peer), self.route(peer, source.name)
            if address is None or any(way.cut_until > now for way in ways):
                return  # to connect takes both ways
            self.connected[pair] = None
        course, options, happens = self._course, self.options, self._happens
        random = self._random.random
        now = course.env.now
        route = self.route(name, peer)
        course.counts["frames"] += len(frames)
        for frame in frames:
            course.told(name, peer, frame)
            if happens(options.loss) and route.lost < MOST_LOST:
                route.lost += 1
                course.frame_fault("drop", name, peer, frame)
                continue
            route.lost = 0
            due = now + route.delay * (1.0 + options.jitter * (random() - 0.5))
            if options.bandwidth:
                size = len(frame[0]) + sum(map(len, frame[1]))
                route.free = max(route.free, now) + size / options.bandwidth
                due += route.free - now
            if happens(options.straggling):
                course.frame_fault("delay", name, peer, frame)
                due += LATE * route.delay
            due = max(due, route.last + INSTANT)
            if happens(options.reordering):
                course.frame_fault("overtake", name, peer, frame)
                due += LATE * route.delay * random()
            else:
                route.last = due
            self._send(source, peer, due - now, frame)
            if happens(options.duplication):
                course.frame_fault("repeat", name, peer, frame)
                again = due + route.delay * LATE * random() ** 2
                self._send(source, peer, again - now, frame)

    def route(self, source: str, target: str) -> Route:
        if (route := self._routes.get((source, target))) is None:
            delay = self._random.uniform(0.0001, self.options.slowest)
            route = self._routes[source, target] = Route(delay)
        return route

    def cut(self, source: str, target: str, seconds: float, lasts: bool = False) -> None:
        """Nothing that is on its way, or sent within `seconds`, arrives; `lasts`: come what may."""
        route = self.route(source, target)
        route.cut_until = max(route.cut_until, self._course.env.now + seconds)
        route.lasts = route.lasts or lasts

    def sever(self, dead: Member, names: Iterable[str]) -> None:
        """What a dead process has sent does not arrive everywhere."""
        for name in names:
            if name != dead.name and self._happens(0.5):
                self._severed[dead, name] = None

    def forget(self, name: str, peer: str | None = None) -> None:
        """Drop the connections of a host, or that with one peer."""
        for pair in list(self.connected):
            if name in pair and (peer is None or peer in pair):
                del self.connected[pair]

    def heal(self) -> None:
        """From now on nothing fails, but for cuts that last."""
        self.options = calm(self.options)
        for route in self._routes.values():
            if not route.lasts:
                route.cut_until = 0.0

    def _send(self, source: Member, peer: str, after: float, frame: tuple[bytes, Any]) -> None:
        # Somewhere a heartbeat is always on its way: nobody waits for it. (Its tag is in its head.)
        send = self._course.later if HEARTBEAT in frame[0] else self._course.soon
        send(after if after > 0.0 else 0.0, lambda _: self._arrive(source, peer, frame))

    def _arrive(self, source: Member, peer: str, frame: tuple[bytes, Any]) -> None:
        if self._severed and (source, peer) in self._severed:
            return
        if self._routes[source.name, peer].cut_until > self._course.env.now:
            self._course.frame_fault("cut", source.name, peer, frame)
            return
        head, buffers = frame
        arrived = FrameArrived(head, [memoryview(part) for part in buffers], source.name)
        self._arrives(peer, source.name, frame, arrived)

    def _happens(self, probability: float) -> bool:
        return probability > 0.0 and self._random.random() < probability


def calm(options: Options) -> Options:
    """The same setting, on a network that does not fail."""
    return replace(options, loss=0.0, duplication=0.0, reordering=0.0, straggling=0.0)
