"""`activebroker balance`: filters move between brokers by themselves."""

from __future__ import annotations

import contextlib
import logging
import secrets
import signal
import time
from typing import Annotated

import typer
from rich.text import Text

from activebroker.cli.console import console
from activebroker.core.errors import Closed
from activebroker.fabric import Moved, connect
from derivation.balance import Balance

LOOK_UP = 0.5  # seconds between looks for moves to show


def balance(
    address: Annotated[str, typer.Argument(help="tcp://HOST:PORT of any broker of the fabric.")],
    key: Annotated[
        str | None, typer.Option(help="The fabric's key; better given as ACTIVEBROKER_KEY.")
    ] = None,
    limit: Annotated[
        float, typer.Option(help="The share of a CPU that a broker's filters may take.")
    ] = 0.8,
    low: Annotated[
        float | None,
        typer.Option(help="A broker is idle at this share or below; by default limit / 4."),
    ] = None,
    period: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="How often it looks.")
    ] = 5.0,
) -> None:
    """Relieve loaded brokers and empty idle ones, until Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    try:
        policy = Balance(limit, limit / 4 if low is None else low)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    name = f"balance-{secrets.token_hex(4)}"
    with (
        contextlib.suppress(KeyboardInterrupt),
        connect(address, key, name=name, listen=False, reconnect=False) as fabric,
        fabric.balance(policy, period=period) as balancing,
    ):
        out = console()
        out.print(
            f"Balancing {address}: no broker's filters over {limit:.2f} CPUs. Ctrl-C ends it.",
            soft_wrap=True,
        )
        shown = 0
        while balancing.active:
            time.sleep(LOOK_UP)
            for moved in balancing.moves[shown:]:
                out.print(_line(moved), soft_wrap=True)
                shown += 1
        raise Closed("The fabric has ended, and balancing with it.")


def _line(moved: Moved) -> Text:
    """As Text: names are the users' and may look like markup."""
    at = time.strftime("%H:%M:%S", time.localtime(moved.at))
    if moved.error is None:
        return Text(f"{at} {moved.channel} moved to {moved.to}: {moved.reason}")
    return Text(f"{at} {moved.channel} did not move to {moved.to}: {moved.error}", "red")
