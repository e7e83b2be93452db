"""`activebroker demo`: a year of real flights, end to end. Start with `show.py`."""

from activebroker.cli.demo.command import demo

__all__ = ["demo"]
