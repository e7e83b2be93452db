"""Bring your Python filter to the events, not the events to your filter.

>>> import activebroker as ab
>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Trade:
...     name: str
...     price: float
>>> with ab.Fabric() as fabric:
...     trades = fabric.channel("trades", Trade)
...     dear = trades.derive(lambda trade: trade.price > 100)
...     with dear.subscribe() as events, trades.supplier("NYSE") as nyse:
...         nyse.publish(Trade("IBM", 90.0))
...         nyse.publish(Trade("IBM", 120.0))
...         trades.close()
...         [event.content.price for event in events]
[120.0]
"""

from activebroker.core import errors
from activebroker.core.errors import ActiveBrokerError
from activebroker.events import Batch, Event, Precision, Shape, Zone
from activebroker.fabric import Channel, Fabric, Subscription, Supplier, connect
from activebroker.filters import Failure, FIFOFilter, KeyedFilter
from activebroker.runtime import Gap
from activebroker.transport import generate_key
from derivation.balance import Balance

__version__ = "0.1.0"

__all__ = [
    "ActiveBrokerError",
    "Balance",
    "Batch",
    "Channel",
    "Event",
    "FIFOFilter",
    "Fabric",
    "Failure",
    "Gap",
    "KeyedFilter",
    "Precision",
    "Shape",
    "Subscription",
    "Supplier",
    "Zone",
    "connect",
    "errors",
    "generate_key",
]
