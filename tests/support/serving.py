"""The simulated models' server in a thread of this process."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread

from skillopt_ci.demo.server import SimulatedServer
from skillopt_ci.model.chat_server import listening


@contextmanager
def running(server: SimulatedServer) -> Iterator[str]:
    """Let ``server`` answer on a free port until the end of the block; give the base URL."""
    begun: SimpleQueue[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = SimpleQueue()

    async def serve() -> None:
        end = asyncio.Event()
        async with listening(server.respond) as url:
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
