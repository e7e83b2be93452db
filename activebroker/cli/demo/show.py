"""The demo from start to end: set up, stream, move half-way, compare, clean up."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pandas as pd
from rich.console import Console

from activebroker import Fabric
from activebroker.cli.console import console as make_console
from activebroker.cli.demo import expected, report, setting
from activebroker.cli.demo.board import Board
from activebroker.cli.demo.consumers import Consumer, gaps
from activebroker.cli.demo.filters import LateDelta, OffTheMean, StrongWind
from activebroker.cli.demo.flights import Flight, days
from activebroker.cli.demo.processes import Processes
from activebroker.cli.demo.replay import CHANNEL
from activebroker.cli.demo.traffic import Traffic
from activebroker.core.errors import DeadlineExceeded

DAYS = {1: 31, 12: 365}
SECONDS = {1: 4.0, 12: 30.0}  # that the replay of so many months takes
TICK = 0.1
QUIET = 60.0  # seconds without any progress after which we wait no longer
END = 15.0  # seconds for processes to end


def show(months: int, *, on_ray: bool, on_spark: bool) -> bool:
    """Run the demo; True when all is as computed with pandas and no process is left."""
    begun = time.monotonic()
    console = make_console()
    processes = Processes()
    stack = ExitStack()
    try:
        run = _Run(console, processes, months, on_ray=on_ray, on_spark=on_spark)
        good = run.all(stack)
    except KeyboardInterrupt:
        console.print("Interrupted: ending what was started.")
        raise
    finally:
        processes.look()
        # A second Ctrl-C must not interrupt what ends the processes.
        with _uninterrupted():
            try:
                stack.close()
            finally:
                left = processes.end(END)
    if left:
        console.print(f"[red]Processes left behind, and ended by force: {', '.join(left)}[/]")
    else:
        console.print(
            f"No process of ours is left ({processes.count} were started). "
            f"All of it took {time.monotonic() - begun:.0f} s."
        )
    return good and not left


class _Run:
    def __init__(
        self, console: Console, processes: Processes, months: int, *, on_ray: bool, on_spark: bool
    ) -> None:
        self._console = console
        self._processes = processes
        self._months = months
        self._on_ray = on_ray
        self._on_spark = on_spark

    def all(self, stack: ExitStack) -> bool:
        self._expect()
        self._set_up(stack)
        with self._board:
            switch = self._stream()
        self._traffic.look()
        self._setting.fabric.channel(CHANNEL).close()
        for consumer in self._consumers.values():
            consumer.join(QUIET)
        return self._report(switch)

    # --- before -------------------------------------------------------------------------------

    def _expect(self) -> None:
        """What pandas says, first: half-way is known by it."""
        self._say("Computing with pandas what each consumer must get.")
        flights = expected.flights(self._months)
        self._total = len(flights)
        self._expected: dict[str, pd.DataFrame] = {
            LateDelta.__name__: expected.late_delta(flights),
            OffTheMean.__name__: expected.off_the_mean(flights),
            StrongWind.__name__: expected.strong_wind(flights),
        }

    def _set_up(self, stack: ExitStack) -> None:
        nodes = "a Ray cluster of two nodes" if self._on_ray else "two brokers"
        where = "beside it" if self._on_ray else "in this process"
        self._say(f"Starting {nodes}, and three suppliers {where}.")
        started: Future[None] | None = None
        if self._on_spark:
            from activebroker import spark

            # Beside the rest: most of both is waiting.
            self._say("Starting Spark.")
            stack.callback(spark.stop)
            given_up = threading.Event()
            started = stack.enter_context(ThreadPoolExecutor(1)).submit(_warm_up, given_up)
            stack.callback(given_up.set)
        open_setting = setting.on_ray if self._on_ray else setting.in_this_process
        pace = SECONDS[self._months] / DAYS[self._months]
        self._setting = stack.enter_context(open_setting(self._months, pace))
        if started is not None:
            started.result()
        fabric = self._setting.fabric
        flights = fabric.channel(CHANNEL)
        self._consumers: dict[str, Consumer] = {}
        for filter_, place in (
            (LateDelta, "supplier"),
            (OffTheMean, "consumer"),
            (StrongWind, "spark" if self._on_spark else "dallas"),
        ):
            consumer = Consumer(flights.derive(filter_, at=place))
            stack.callback(consumer.close)
            self._consumers[filter_.__name__] = consumer
        self._traffic = Traffic(fabric)
        airports = {each.origin: each.total for each in self._setting.airports}
        self._board = Board(
            self._console,
            airports | {name: len(frame) for name, frame in self._expected.items()},
        )

    # --- meanwhile ----------------------------------------------------------------------------

    def _stream(self) -> report.Switch:
        """Replay, move half-way, and wait until all has come, or nothing comes any more."""
        airports, off = self._setting.airports, self._consumers[OffTheMean.__name__]
        half = len(self._expected[OffTheMean.__name__]) // 2
        switch: report.Switch | None = None
        for airport in airports:
            airport.start()
        counts, changed, ticks = self._counts(), time.monotonic(), 0
        while not self._arrived() and time.monotonic() - changed < QUIET:
            time.sleep(TICK)
            ticks += 1
            for party in (*airports, *self._consumers.values()):
                party.check()
            before, counts = counts, self._counts()
            if counts != before:
                changed = time.monotonic()
            self._board.update(counts)
            if ticks % 5 == 0:
                self._traffic.look()
                self._processes.look()
            if switch is None and off.seen >= half:
                switch = self._move(off)
        if switch is None:
            raise DeadlineExceeded(
                f"Nothing came for {QUIET:g} s, and {OffTheMean.__name__} is not half-way: it has "
                f"{off.seen:,} of {2 * half:,} events."
            )
        return switch

    def _move(self, off: Consumer) -> report.Switch:
        published = sum(each.published for each in self._setting.airports)
        self._traffic.look()
        begun = time.monotonic()
        off.channel.move(to="atlanta")
        ended = time.monotonic()
        self._say(f"Half-way: {OffTheMean.__name__} has moved to atlanta.")
        self._traffic.look()
        self._setting.airport("JFK").offload(to="dallas")
        self._say("JFK has handed its fan-out to dallas.")
        return report.Switch(begun, ended, self._total - published)

    def _counts(self) -> dict[str, int]:
        airports = {each.origin: each.published for each in self._setting.airports}
        return airports | {name: each.seen for name, each in self._consumers.items()}

    def _arrived(self) -> bool:
        return all(each.finished for each in self._setting.airports) and all(
            self._consumers[name].seen >= len(frame) for name, frame in self._expected.items()
        )

    # --- after --------------------------------------------------------------------------------

    def _report(self, switch: report.Switch) -> bool:
        late, off, strong = self._consumers.values()
        airports = self._setting.airports
        node = "Ray node" if self._on_ray else "broker"
        self._console.print(
            report.filters(
                [
                    (late.channel, "each supplier", "Arrow columns: no Python runs"),
                    (off.channel, f"consumer, then {node} atlanta", "Python"),
                    (strong.channel, "Spark", "Spark")
                    if self._on_spark
                    else (strong.channel, f"{node} dallas", "Python (--no-spark)"),
                ]
            )
        )
        missed = self._traffic.missed({each.origin: each.total for each in airports})
        self._console.print(report.links(self._traffic.flows(), missed))
        pauses = gaps(off.arrivals, switch.begun, switch.ended)
        self._console.print(report.switch_over(OffTheMean.__name__, switch, pauses))
        verdicts = [
            (name, expected.compare(self._expected[name], consumer.frame()))
            for name, consumer in self._consumers.items()
        ]
        self._console.print(report.verdicts(verdicts))
        good = all(verdict.good for _, verdict in verdicts)
        for name, consumer in self._consumers.items():
            if consumer.channel.errors:
                good = False
                self._console.print(f"[red]{name} lost events: {consumer.channel.errors!r}[/]")
        return good

    def _say(self, message: str) -> None:
        self._console.print(message)


def _warm_up(given_up: threading.Event) -> None:
    """Start Spark and run a first small job, which takes seconds: not during the stream."""
    from activebroker import spark

    spark.session()
    if given_up.is_set():
        return
    with Fabric() as fabric:
        flights = fabric.channel(CHANNEL, Flight)
        winds = flights.derive(StrongWind, at="spark")
        with winds.subscribe() as events, flights.supplier() as supplier:
            supplier.publish_batch(days("JFK", months=1)[0])
            flights.close()
            for _ in events:
                pass


@contextmanager
def _uninterrupted() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
