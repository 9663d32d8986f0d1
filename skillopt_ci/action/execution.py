"""Run a command of the command line inside of a job: its results as values, its talk in the log."""

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, cast

from skillopt_ci.action.inputs import Command, Inputs
from skillopt_ci.action.outputs import Result
from skillopt_ci.action.workflow_commands import JobLog
from skillopt_ci.cli.main import Failure, describe, invoke
from skillopt_ci.cli.options import Globals
from skillopt_ci.redaction import RedactedStream
from skillopt_ci.sanitize import harmless

#: What a `rollout` job leaves behind, beside the report.
ANSWERS = "answers.jsonl"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: the objects that it printed, and what it died of, if it did."""

    exit_code: int
    results: tuple[Result, ...] = ()
    failure: Failure | None = None
    error: BaseException | None = field(default=None, repr=False)


def words(
    command: Command, inputs: Inputs, keep: Path, rollouts: tuple[str, ...] = ()
) -> list[str]:
    """The command line that does what the inputs ask for.

    ``keep`` is the folder in which `rollout` leaves what it paid for and `report` its page,
    ``rollouts`` what `step` and `propose` begin with.
    """
    overrides = [word for key in inputs.overrides for word in ("--override", key)]
    taken = [word for file in rollouts for word in ("--rollouts", file)]
    options: dict[Command, list[str]] = {
        Command.STEP: taken,
        Command.PROPOSE: ["--until-candidate", *taken],
        Command.EVAL: ["--split", inputs.split],
        Command.PLAN: ["--shards", str(inputs.shards)],
        Command.ROLLOUT: ["--shard", inputs.shard, "--output", str(keep / ANSWERS)],
        Command.REPORT: ["--output", str(keep / page_name(inputs))],
    }
    run = ["--run", inputs.run] if inputs.run else []
    common = ["--config", inputs.config, *run, *overrides, "--json"]
    return [command.verb, *common, *options.get(command, [])]


def execute(
    line: list[str], settings: Globals, log: JobLog, on_result: Callable[[Result], None]
) -> Ended:
    """Run ``line``; ``on_result`` gets each object as soon as it is printed.

    Nothing that the command says on the way can be taken for a workflow command.
    """
    results: list[Result] = []

    def take(result: Result) -> None:
        results.append(result)
        on_result(result)

    with log.group(f"skillopt-ci {line[0]}"), log.untrusted() as stream:
        try:
            objects, talk = _redacted(_Objects(take), settings), _redacted(stream, settings)
            with redirect_stdout(objects), redirect_stderr(talk):
                code = invoke(line, settings)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - told by the caller
            failure = describe(error, line, settings.environ, settings.redact)
            stream.write(f"{harmless(failure.message)}\n{harmless(failure.hint)}\n")
            return Ended(failure.exit_code, tuple(results), failure, error)
    return Ended(code, tuple(results))


def _redacted(stream: TextIO | io.TextIOBase, settings: Globals) -> RedactedStream:
    return RedactedStream(cast("TextIO", stream), settings.redact)


def page_name(inputs: Inputs) -> str:
    """The name of the run's page: it is that of the artifact too, so each run has its own."""
    return f"skillopt-report-{inputs.run}.html" if inputs.run else "skillopt-report.html"


class _Objects(io.TextIOBase):
    """Standard output of a command that prints one JSON object a line."""

    def __init__(self, take: Callable[[Result], None]) -> None:
        self._take = take
        self._rest = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(None, lines):
            self._take(json.loads(line))
        return len(text)
