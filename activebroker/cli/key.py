"""`activebroker key`: a new fabric key."""

from __future__ import annotations

import typer

from activebroker.transport import generate_key


def key() -> None:
    """Print a new key. Who has it may publish, subscribe and ship filters: keep it secret."""
    typer.echo(generate_key())
