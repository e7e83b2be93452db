"""The command itself: options, and how it ends. What takes long to import is imported inside."""

from __future__ import annotations

from typing import Annotated

import typer

from activebroker.core.errors import MissingExtra, with_extra

INTERRUPTED = 130  # exit code after Ctrl-C, as shells have it


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="One month instead of the year.")] = False,
    local: Annotated[
        bool, typer.Option("--local", help="All in this process, without a Ray cluster.")
    ] = False,
    no_spark: Annotated[
        bool, typer.Option("--no-spark", help="Run the heavy filter on a broker instead.")
    ] = False,
) -> None:
    """Replay the flights of 2013 through filters that move while events flow, and check all.

    Three airports publish; three consumers derive channels at the supplier, in the consumer and
    on Spark. Half-way, one filter moves to a broker on another node and an airport hands its
    fan-out to a broker. What each consumer got is compared with a computation in pandas.
    The exit code is 1 where anything differs, or where a process is left behind.
    """
    try:
        from activebroker.cli.demo.show import show
    except ImportError as error:
        raise MissingExtra(
            f"The demo needs more than the core ({error}). {with_extra('demo')}"
        ) from error

    try:
        good = show(months=1 if quick else 12, on_ray=not local, on_spark=not no_spark)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if not good:
        raise typer.Exit(1)
