"""The command line: `activebroker COMMAND`. Start with `app.py`."""

from activebroker.cli.app import app, main

__all__ = ["app", "main"]
