"""Train until a count of events is full, then die as a killed runner does: at once, untold.

``python mortal.py FOLDER KIND N``: SIGKILL at the N-th finished stage (KIND ``stages``) or at the
N-th event of any kind, final evaluation included (``events``); for N = 0 never. Its own
process id is in the environment of all its children as ``MORTAL``, for hooks that kill it.
"""

import asyncio
import os
import signal
import sys
from itertools import count
from pathlib import Path
from unittest.mock import patch

from skillopt_ci.cli.build import open_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.progress import Event, StageFinished
from skillopt_ci.training import prefetcher
from skillopt_ci.training.final_evaluation import finish
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.trainer import train


@patch.object(prefetcher, "tests_due", lambda *_: ())
async def train_all(session: Run, *, to_the_end: bool) -> None:
    async with prefetcher.prefetching(session) as ready:
        async for _ in train(ready):
            pass
    if to_the_end:
        await finish(session)


def main(folder: str, kind: str, last: str) -> None:
    counted = count(1)

    def observe(event: Event) -> None:
        counts = kind == "events" or isinstance(event, StageFinished)
        if counts and next(counted) == int(last):
            os.kill(os.getpid(), signal.SIGKILL)

    session = open_run(Globals({"DEMO_KEY": "sk-demo-key"}, Path(folder)), observe)
    with session.ledger.lock():
        asyncio.run(train_all(session, to_the_end=kind == "events"))


main(*sys.argv[1:])
