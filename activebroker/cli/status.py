"""`activebroker status`: what a running fabric does."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer
from rich.live import Live

from activebroker.cli.console import console
from activebroker.fabric import Fabric, connect
from activebroker.observe import Report, report, tables

SPAN = 1.0  # seconds between the two samples that rates are made of


def status(
    address: Annotated[str, typer.Argument(help="tcp://HOST:PORT of any broker of the fabric.")],
    key: Annotated[
        str | None, typer.Option(help="The fabric's key; better given as ACTIVEBROKER_KEY.")
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0.1, help="Look again and again, until Ctrl-C."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a line a look.")] = False,
) -> None:
    """Show a fabric's brokers, channels, derivations, moves, flows and rates."""
    with connect(
        address, key, name=f"status-{secrets.token_hex(4)}", listen=False, reconnect=False
    ) as fabric:
        reports = _reports(fabric, watch or SPAN)
        if watch is None:
            reports = itertools.islice(reports, 1, 2)  # the first that has rates
        if as_json:
            for each in reports:
                typer.echo(msgspec.json.encode(each))
        else:
            _show(reports)


def _reports(fabric: Fabric, period: float) -> Iterator[Report]:
    latest: Report | None = None
    while True:
        latest = report(fabric.status(), at=time.time(), earlier=latest, observer=fabric.node)
        yield latest
        time.sleep(period)


def _show(reports: Iterator[Report]) -> None:
    out = console()
    if not out.is_terminal:
        for each in reports:
            out.print(tables(each))
        return
    with Live(console=out, auto_refresh=False, vertical_overflow="visible") as live:
        for each in reports:
            live.update(tables(each), refresh=True)
