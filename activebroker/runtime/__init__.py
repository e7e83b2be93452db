"""The runtime: drives a node with real threads, time and sockets. Start with `runtime.py`."""

from activebroker.node.executor import MakeRunner, python_runner
from activebroker.runtime.backlog import Gap, SlowPolicy, WhenSlow
from activebroker.runtime.logs import open_log
from activebroker.runtime.publishing import PublishBuffer
from activebroker.runtime.queue import EventQueue
from activebroker.runtime.runtime import Runtime, Succession, warm_up
from activebroker.runtime.waiting import turn

__all__ = [
    "EventQueue",
    "Gap",
    "MakeRunner",
    "PublishBuffer",
    "Runtime",
    "SlowPolicy",
    "Succession",
    "WhenSlow",
    "open_log",
    "python_runner",
    "turn",
    "warm_up",
]
