"""Train until a stage is finished, then die as a killed runner does: at once, with nothing told.

``python mortal.py FOLDER N``: SIGKILL at the N-th finished stage; for N = 0 the whole run. Its own
process id is in the environment of all its children as ``MORTAL``, for hooks that kill it.
"""

import asyncio
import os
import signal
import sys
from itertools import count
from pathlib import Path

from skillopt_ci.cli.build import open_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.progress import Event, StageFinished
from skillopt_ci.training.prefetcher import prefetching
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.trainer import train


async def train_all(session: Run) -> None:
    async with prefetching(session) as ready:
        async for _ in train(ready):
            pass


def main(folder: str, last: str) -> None:
    stages = count(1)

    def observe(event: Event) -> None:
        if isinstance(event, StageFinished) and next(stages) == int(last):
            os.kill(os.getpid(), signal.SIGKILL)

    settings = Globals({"DEMO_KEY": "sk-demo-key"}, Path(folder))
    session = open_run(settings, observe)
    with session.ledger.lock():
        asyncio.run(train_all(session))


main(*sys.argv[1:])
