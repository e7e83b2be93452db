"""A gateway in asyncio: browsers take events over WebSockets, each only those it asks for.

A client of `ws://host:port/IBM` gets the quotes of IBM as JSON. Its filter runs where the quotes
are; the gateway needs no thread for it. A client that is slow gets the latest quotes, and is told
how many it has missed; one that goes takes its filter with it.

Started with an address this program is a gateway for the channel "quotes" of that fabric, at port
8765. Without one it starts a fabric, a gateway and two clients here.
"""

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass

from websockets.asyncio.client import connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

import activebroker as ab
from activebroker import aio
from activebroker.core.errors import Closed


@dataclass(frozen=True)
class Quote:
    name: str
    price: float


class Named(ab.FIFOFilter):
    def __init__(self, name: str) -> None:
        self.name = name

    def enqueue(self, event: ab.Event) -> None:
        if event.content.name == self.name:
            super().enqueue(event)


async def gateway(quotes: aio.Channel, host: str = "127.0.0.1", port: int = 0) -> Server:
    """Start to serve clients; port 0 takes one that is free."""

    async def client(socket: ServerConnection) -> None:
        assert socket.request is not None
        mine = await quotes.derive((Named, socket.request.path.removeprefix("/")))
        try:
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(send(mine, socket))
                await socket.wait_closed()
                sending.cancel()
        except* ConnectionClosed:
            pass  # amid a message
        finally:
            with suppress(Closed):  # with the channel of the quotes
                await mine.close()

    return await serve(client, host, port)


async def send(quotes: aio.Channel, socket: ServerConnection) -> None:
    gaps: list[ab.Gap] = []
    async with quotes.subscribe(when_slow="drop_oldest", keep=100, on_gap=gaps.append) as events:
        await socket.send(json.dumps({"ready": quotes.name}))
        async for event in events:
            while gaps:
                await socket.send(json.dumps({"missed": gaps.pop(0).count}))
            await socket.send(json.dumps(asdict(event.content)))
    await socket.close()  # the channel was closed


async def run(fabric: aio.Fabric) -> dict[str, list[float]]:
    """Two clients at a gateway; the prices that each gets."""
    quotes = await fabric.channel("quotes", Quote)
    async with await gateway(quotes) as server, quotes.supplier("NYSE") as nyse:
        address = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with connect(address + "IBM") as ibm, connect(address + "KO") as coke:
            for client in (ibm, coke):
                assert "ready" in json.loads(await client.recv())
            for step in range(10):
                await nyse.publish(Quote("IBM", 80.0 + step))
                await nyse.publish(Quote("AMD", 100.0 + step))
                await nyse.publish(Quote("KO", 60.0 + step))
            return {
                "IBM": [json.loads(await ibm.recv())["price"] for _ in range(10)],
                "KO": [json.loads(await coke.recv())["price"] for _ in range(10)],
            }


async def main() -> dict[str, list[float]]:
    async with aio.open(ab.Fabric) as fabric:
        got = await run(fabric)
    print(f"the clients got {got}")
    return got


async def serve_at(address: str) -> None:
    async with aio.connect(address) as fabric:
        server = await gateway(await fabric.channel("quotes", Quote), "0.0.0.0", 8765)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve_at(sys.argv[1]) if sys.argv[1:] else main())
