"""How light the command line is: its start, reading a run of 1,000 steps, many training tasks.

``python bench/light.py [STEPS]`` trains the bundled example, makes its run that long, and prints
each figure with its limit; it exits with 1 if one is over it. Every figure is the best of several:
a busy machine only ever adds, to wall time most. CPU includes that of git.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from skillopt_ci.git.history import message
from skillopt_ci.git.objects import read_file
from skillopt_ci.git.process import Git
from skillopt_ci.ledger.folder import CommittedFolder, RunFolder, document
from skillopt_ci.ledger.records import HistoryEntry, State, StepRecord

RUN = RunFolder("quickstart")
BRANCH = "refs/heads/skillopt/quickstart"
STEPS = 1_000
#: Training tasks for the estimate.
TASKS = 10_000
REPEATS = 5
#: The command, which says at its end how much memory it had at most. The kernel's own figure for
#: a child starts with that of its parent.
COMMAND = """\
import sys
from skillopt_ci.cli.main import main
code = main()
sys.stderr.write(open("/proc/self/status").read())
sys.exit(code)
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """What one command took, in seconds and mebibytes (without git's)."""

    wall: float
    cpu: float
    memory: float


@dataclass(frozen=True, slots=True)
class Line:
    """A figure beside its limit."""

    what: str
    unit: str
    figure: float
    limit: float

    def __str__(self) -> str:
        verdict = "ok" if self.figure < self.limit else "OVER"
        return f"{self.what:<32}{self.figure:>8.2f}{self.limit:>8.2f} {self.unit:<10}{verdict}"


def measure(folder: Path, *words: str) -> Figure:
    """Run the command line once, with all processes that it waits for."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        said.seek(0)
        words_said = said.read().decode()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"skillopt-ci {' '.join(words)} failed:\n{words_said}")
    peak = re.search(r"VmHWM:\s+(\d+) kB", words_said)
    return Figure(wall, used.ru_utime + used.ru_stime, int(peak[1]) / 1024 if peak else 0.0)


def best(folder: Path, *words: str) -> Figure:
    """The least of several runs, each figure by itself."""
    figures = [measure(folder, *words) for _ in range(REPEATS)]
    return Figure(*(min(column) for column in zip(*map(_columns, figures), strict=True)))


def _columns(figure: Figure) -> tuple[float, float, float]:
    return figure.wall, figure.cpu, figure.memory


def train(folder: Path) -> Git:
    """Train the bundled example and return its repository."""
    measure(folder.parent, "quickstart", str(folder), "--quiet")
    return Git(folder)


def prolong(git: Git, steps: int) -> None:
    """Add steps to the run until it has ``steps``: each a commit with its evidence and trailers.

    They repeat those that are there, one after the other.

    The state and the whole history are in the last one: readers look nowhere else for them.
    """
    folder = CommittedFolder(RUN.run, partial(read_file, git, BRANCH))
    state, history = folder.read_state(), folder.read_history()
    assert state is not None
    known = [entry for entry in history if entry.kind == "step"]
    evidence_of = {entry.step: folder.read_step(entry.step) for entry in known}
    again = [known[number % len(known)] for number in range(state.step + 1, steps + 1)]
    more = [
        entry.model_copy(update={"step": number})
        for number, entry in enumerate(again, start=state.step + 1)
    ]
    evidence = [record for entry in again if (record := evidence_of[entry.step]) is not None]
    stream = _stream(state, (*history, *more), more, evidence)
    git.run("fast-import", "--quiet", stdin="".join(stream).encode())


def _stream(
    state: State,
    history: Iterable[HistoryEntry],
    more: list[HistoryEntry],
    evidence: list[StepRecord],
) -> Iterator[str]:
    for number, (entry, record) in enumerate(zip(more, evidence, strict=True)):
        files = {RUN.step(entry.step): document(record.model_copy(update={"step": entry.step}))}
        if number == len(more) - 1:
            files[RUN.history] = "".join(f"{one.model_dump_json()}\n" for one in history)
            files[RUN.state] = document(state.model_copy(update={"step": entry.step}))
        text = message(f"Step {entry.step}", entry.reason, {"Skillopt-Step": str(entry.step)})
        yield f"commit {BRANCH}\ncommitter Bench <bench@localhost> {1_800_000_000 + number} +0000\n"
        yield _data(text)
        yield f"from {BRANCH}^0\n" if number == 0 else ""
        yield from (f"M 100644 inline {path}\n{_data(content)}" for path, content in files.items())


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}\n"


def lines(folder: Path, steps: int) -> Iterator[Line]:
    """Measure everything, on a run with as many steps."""
    start = best(folder, "--help")
    yield Line("--help", "s wall", start.wall, 0.2)
    yield Line("--help", "s CPU", start.cpu, 0.2)
    git = train(folder / "example")
    short = best(git.folder, "status")
    prolong(git, steps)
    for command, seconds, more in (("status", 1.0, 32), ("log", 1.0, 32), ("report", 4.0, 128)):
        long = best(git.folder, command)
        yield Line(f"{command} of {steps} steps", "s CPU", long.cpu, seconds)
        yield Line(f"{command} of {steps} steps: memory", "MiB", long.memory, short.memory + more)
    tasks = ({"id": f"t{n}", "prompt": f"Note {n}", "references": f"{n}"} for n in range(TASKS))
    (git.folder / "many.jsonl").write_text("".join(json.dumps(one) + "\n" for one in tasks))
    many = best(git.folder, "--override", "tasks.train=many.jsonl", "estimate")
    yield Line(f"estimate with {TASKS} tasks", "s CPU", many.cpu, 2.0)
    yield Line(f"estimate with {TASKS} tasks: memory", "MiB", many.memory, short.memory + 64)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", type=int, nargs="?", default=STEPS)
    steps = parser.parse_args().steps
    print(f"{'':<32}{'figure':>8}{'limit':>8}")
    over = False
    with tempfile.TemporaryDirectory(prefix="skillopt-ci-bench-") as folder:
        for each in lines(Path(folder), steps):
            print(each, flush=True)
            over |= each.figure >= each.limit
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
