"""What a process does in the fabric, as machines without I/O. Start with `node.py`."""

from activebroker.node.node import Node

__all__ = ["Node"]
