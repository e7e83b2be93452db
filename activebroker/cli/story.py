"""`activebroker story`: how a move went."""

from __future__ import annotations

import secrets
from typing import Annotated

import msgspec
import typer

from activebroker.cli.console import console
from activebroker.fabric import connect
from activebroker.observe import story_table


def story(
    address: Annotated[str, typer.Argument(help="tcp://HOST:PORT of any broker of the fabric.")],
    channel: Annotated[str, typer.Argument(help="The channel that was moved or offloaded.")],
    key: Annotated[
        str | None, typer.Option(help="The fabric's key; better given as ACTIVEBROKER_KEY.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell how a channel's last move or offload went, or goes, at all who have a part in it."""
    with connect(
        address, key, name=f"story-{secrets.token_hex(4)}", listen=False, reconnect=False
    ) as fabric:
        told = fabric.story(channel)
    if as_json:
        typer.echo(msgspec.json.encode(told))
    else:
        console().print(story_table(told))
