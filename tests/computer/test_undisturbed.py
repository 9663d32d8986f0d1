import asyncio

import pytest

from skillopt_ci.aio import undisturbed


async def disturb(work_fails: bool, cancellations: int) -> list[str]:
    gate, told = asyncio.Event(), list[str]()

    async def work() -> str:
        await gate.wait()
        told.append("done")
        if work_fails:
            raise LookupError
        return "result"

    async def wait() -> None:
        try:
            told.append(await undisturbed(work()))
        except (asyncio.CancelledError, LookupError) as error:
            told.append(type(error).__name__)

    task = asyncio.create_task(wait())
    for _ in range(cancellations):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    gate.set()
    await task
    return told


@pytest.mark.parametrize(
    ("fails", "cancellations", "told"),
    [
        (False, 0, "result"),
        (True, 0, "LookupError"),
        (False, 1, "CancelledError"),
        (False, 3, "CancelledError"),
        (True, 2, "CancelledError"),
    ],
)
def test_work_is_done_first(fails: bool, cancellations: int, told: str) -> None:
    assert asyncio.run(disturb(fails, cancellations)) == ["done", told]


def test_work_that_is_itself_cancelled_says_so() -> None:
    async def cancel() -> None:
        task = asyncio.ensure_future(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(task.cancel)
        await undisturbed(task)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())
