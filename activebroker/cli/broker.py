"""`activebroker broker`: a broker without Ray."""

from __future__ import annotations

import contextlib
import logging
import platform
import signal
import time
from typing import Annotated

import typer

from activebroker.core.errors import Closed, DeadlineExceeded, Unreachable
from activebroker.directory.deaths import Budget
from activebroker.fabric import find_key, serve
from activebroker.fabric.hosting import step_down
from activebroker.runtime import Runtime

log = logging.getLogger(__name__)
BUDGET = Budget()
LOOK_UP = 0.5  # seconds, at most, until a signal is seen
FAILED = 70  # the exit code (EX_SOFTWARE of sysexits.h) that lets an init system start it again
REJOINING = 60.0  # seconds in which it tries to join anew
PATIENCE = 3.0  # seconds for the directory's good-bye: who sends SIGTERM often kills soon after


def broker(
    listen: Annotated[
        str,
        typer.Option(
            metavar="tcp://HOST:PORT", help="Where others reach it; port * takes any free one."
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(help="The place's name in derive(at=...); this machine's name by default."),
    ] = None,
    join: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Join the fabric of this broker; else start a new one."
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="With --join: take the place of a broker of this name even if that lives; of one "
            "that has died it is taken in any case.",
        ),
    ] = False,
    deaths_by_one_event: Annotated[
        int,
        typer.Option(
            min=1,
            help="Of the first broker: with how many deaths at one event a filter is put in "
            "quarantine.",
        ),
    ] = BUDGET.by_one_event,
    deaths_in_a_minute: Annotated[
        int, typer.Option(min=1, help="The same, with how many deaths of any cause in a minute.")
    ] = BUDGET.in_a_minute,
    key: Annotated[
        str | None,
        typer.Option(
            help="The fabric's key. Others on this machine can see it here; the environment "
            "variable ACTIVEBROKER_KEY is not seen. Without either, on a loopback address, the "
            "user's key file serves."
        ),
    ] = None,
) -> None:
    """Run a broker until Ctrl-C, SIGTERM or stop_broker. If it fails, it ends with exit code 70."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("activebroker").setLevel(logging.INFO)
    key = find_key(key, address=listen)
    name = platform.node() if name is None else name
    budget = Budget(deaths_by_one_event, deaths_in_a_minute)
    node = serve(name, listen, key, join_address=join, replace=replace, budget=budget)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            typer.echo(_welcome(node.name, node.transport.address or listen))
            while not node.dismissed:
                # No endless wait: a signal that another thread happens to receive ends none.
                time.sleep(LOOK_UP)
                if node.failure is not None:  # which the node has logged
                    raise typer.Exit(FAILED)
                if node.orphaned:
                    log.warning("%s This broker joins anew.", node.orphaned)
                    node.stop()
                    node = join_anew(name, listen, key, join)
        _leave(node)
    finally:
        node.stop()


def join_anew(name: str, listen: str, key: str, join: str | None) -> Runtime:
    """Start a node that takes the place of one that was lost, as soon as the fabric lets it; but
    not that of a successor: of two, one would always end the other.

    Raises NameTaken; Unreachable, DeadlineExceeded after `REJOINING` seconds.
    """
    end = time.monotonic() + REJOINING
    while True:
        try:
            return serve(name, listen, key, join_address=join, again=True)
        except (Unreachable, DeadlineExceeded) as error:
            if time.monotonic() >= end:
                raise
            log.info("not back in the fabric yet: %s", error)
            time.sleep(LOOK_UP)


def _leave(node: Runtime) -> None:
    try:
        step_down(node, PATIENCE)
    except (Closed, Unreachable, DeadlineExceeded) as error:
        log.warning("left without an answer: %s", error)


def _welcome(name: str, address: str) -> str:
    return f"""\
Broker {name!r} listens at {address}
  programs      activebroker.connect({address!r})
  more brokers  activebroker broker --listen tcp://HOST:PORT --name NAME --join {address}
  look inside   activebroker status {address}
They need the same key. Ctrl-C ends the broker."""
