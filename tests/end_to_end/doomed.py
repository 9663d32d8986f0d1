"""Train and finish, but die at the N-th thing that is told: at once, in the middle of anything.

``python doomed.py FOLDER N``: SIGKILL at the N-th event of whatever kind, unless all is done first.
"""

import asyncio
import os
import signal
import sys
from itertools import count
from pathlib import Path

from skillopt_ci.cli.build import open_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.progress import Event
from skillopt_ci.training.final_evaluation import finish
from skillopt_ci.training.prefetcher import prefetching
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.trainer import train


async def train_and_finish(session: Run) -> None:
    async with prefetching(session) as ready:
        async for _ in train(ready):
            pass
    await finish(session)


def main(folder: str, last: str) -> None:
    events = count(1)

    def observe(event: Event) -> None:
        if next(events) == int(last):
            os.kill(os.getpid(), signal.SIGKILL)

    session = open_run(Globals({}, Path(folder)), observe)
    with session.ledger.lock():
        asyncio.run(train_and_finish(session))


main(*sys.argv[1:])
