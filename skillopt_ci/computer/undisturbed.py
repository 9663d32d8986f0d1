"""Work that is done to its end, whoever is cancelled meanwhile: cleaning up, above all."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

Result = TypeVar("Result")


async def undisturbed(work: Awaitable[Result]) -> Result:
    """Wait for ``work`` until it is done; a cancellation that comes meanwhile is raised then."""
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None and not task.cancelled():
        task.exception()  # heard, and of less weight than the cancellation
        raise cancellation
    return task.result()
