"""`activebroker broker`: a broker without Ray."""

from __future__ import annotations

import contextlib
import logging
import platform
import signal
import time
from typing import Annotated

import typer

from activebroker.broker.messages import Leave
from activebroker.core.errors import Closed, DeadlineExceeded, Unreachable
from activebroker.fabric import find_key, serve
from activebroker.runtime import Runtime

log = logging.getLogger(__name__)
LOOK_UP = 0.5  # seconds, at most, until a signal is seen
FAILED = 70  # the exit code (EX_SOFTWARE of sysexits.h) that lets an init system start it again
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
            help="With --join: take the place of a broker of this name that has died, without "
            "waiting until that is noticed.",
        ),
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(
            help="The fabric's key. Others on this machine can see it here; the environment "
            "variable ACTIVEBROKER_KEY is not seen. Without either, on a loopback address, the "
            "user's key file serves."
        ),
    ] = None,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM. If it fails, it ends with exit code 70."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    key = find_key(key, address=listen)
    name = platform.node() if name is None else name
    node = serve(name, listen, key, join_address=join, replace=replace)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            typer.echo(_welcome(node.name, node.transport.address or listen))
            while True:
                # No endless wait: a signal that another thread happens to receive ends none.
                time.sleep(LOOK_UP)
                if node.failure is not None:  # which the node has logged
                    raise typer.Exit(FAILED)
                if node.orphaned:
                    log.warning("%s This broker joins anew.", node.orphaned)
                    node.stop()
                    node = serve(name, listen, key, join_address=join, replace=True)
        _leave(node)
    finally:
        node.stop()


def _leave(node: Runtime) -> None:
    try:
        node.request(Leave(node.name), PATIENCE)
        node.wait_drained(1.0)
    except (Closed, Unreachable, DeadlineExceeded) as error:
        log.warning("left without an answer: %s", error)


def _welcome(name: str, address: str) -> str:
    return f"""\
Broker {name!r} listens at {address}
  programs      activebroker.connect({address!r})
  more brokers  activebroker broker --listen tcp://HOST:PORT --name NAME --join {address}
  look inside   activebroker status {address}
They need the same key. Ctrl-C ends the broker."""
