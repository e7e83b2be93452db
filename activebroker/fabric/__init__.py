"""The user's objects. Start with `fabric.py`."""

from activebroker.fabric.balancing import Balancing, Moved
from activebroker.fabric.channel import Channel
from activebroker.fabric.fabric import Fabric, connect
from activebroker.fabric.hosting import Host, JoinedHost, serve
from activebroker.fabric.keys import find_key, user_key
from activebroker.fabric.subscription import Subscription
from activebroker.fabric.supplier import Supplier

__all__ = [
    "Balancing",
    "Channel",
    "Fabric",
    "Host",
    "JoinedHost",
    "Moved",
    "Subscription",
    "Supplier",
    "connect",
    "find_key",
    "serve",
    "user_key",
]
