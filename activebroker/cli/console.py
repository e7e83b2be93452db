"""Where commands print tables."""

from __future__ import annotations

import os
import sys

from rich.console import Console

PIPE_WIDTH = 200  # columns; what is not a terminal is read by a program, or later


def console() -> Console:
    """A console on standard output; in a pipe, tables are wide rather than folded."""
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=PIPE_WIDTH if piped else None)
