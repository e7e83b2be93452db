"""The node: what a process does in the fabric, as machines without I/O. Start with `node.py`."""

from activebroker.broker.node import Node

__all__ = ["Node"]
