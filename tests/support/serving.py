"""A server of models in a thread of this process."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from aiohttp import web

from skillopt_ci.model.chat_server import listening


class Server(Protocol):
    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""


@contextmanager
def running(server: Server, port: int = 0) -> Iterator[str]:
    """Let ``server`` answer until the end of the block; give the base URL. Port 0: a free one."""
    begun: SimpleQueue[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = SimpleQueue()

    async def serve() -> None:
        end = asyncio.Event()
        async with listening(server.respond, port) as url:
            begun.put((url, asyncio.get_running_loop(), end))
            await end.wait()

    thread = Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    url, loop, end = begun.get()
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()
