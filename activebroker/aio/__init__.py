"""The user's objects for asyncio: whatever waits is awaited.

>>> import asyncio
>>> from activebroker import Fabric, aio
>>> async def main():
...     async with aio.open(Fabric) as fabric:
...         numbers = await fabric.channel("numbers", object)
...         large = await numbers.derive(lambda number: number > 1)
...         async with large.subscribe() as events, numbers.supplier() as source:
...             for number in range(4):
...                 await source.publish(number)
...             await numbers.close()
...             return [event.content async for event in events]
>>> asyncio.run(main())
[2, 3]

Each object stands for one of `activebroker`, its attribute `sync`, and has its methods. Those that
open something, as `subscribe`, can be awaited or entered with `async with`, which closes in the
end. An object belongs to the event loop in which it was made.

Taking and publishing events needs no thread. Every other call runs in a thread of its own, so that
neither the event loop nor its executor is held up, at most 32 of a fabric at a time. All can
be cancelled: no event is lost by it; what was opened, or derived, meanwhile is closed again; other
requests, as a move, are still carried out.
"""

from activebroker.aio.objects import (
    Balancing,
    Channel,
    Fabric,
    Subscription,
    Supplier,
    connect,
    open,
)
from activebroker.aio.wrapping import Opening

__all__ = [
    "Balancing",
    "Channel",
    "Fabric",
    "Opening",
    "Subscription",
    "Supplier",
    "connect",
    "open",
]
