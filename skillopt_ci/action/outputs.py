"""The action's outputs, folded from the JSON objects that a command printed."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePath
from typing import Any, Literal, TextIO

from skillopt_ci.errors import UsageError
from skillopt_ci.sanitize import harmless_line

Result = Mapping[str, Any]


def _output(text: str) -> Any:
    return field(default="", metadata={"text": text})


@dataclass(frozen=True, slots=True)
class Outputs:
    """What later steps of a job can read; empty where there is nothing to say."""

    result: str = _output(
        "`done`, `nothing-to-do`, `inconclusive` (a budget ended it), `superseded` (another run "
        "was first), `skipped` (the event asks for nothing) or `failed`."
    )
    action: str = _output("What the last step came to, such as `accept_new_best` or `reject`.")
    step: str = _output("Number of the last step.")
    score_before: str = _output("Score of the skill before the first step, or at base.")
    score_after: str = _output("Score of the last candidate, or at head.")
    improved: str = _output("`true` if a candidate was merged, or the compared skill is better.")
    commit: str = _output("Tip of the skills branch.")
    pull_request: str = _output("Number of the pull request.")
    finding: str = _output(
        "For `eval` of a pull request: `improvement`, `regression`, `no clear difference` or "
        "`inconclusive`."
    )
    report: str = _output("Markdown file with what the comment says, relative to the workspace.")
    page: str = _output(
        "One HTML file that shows the whole run, relative to the workspace; after what trains, "
        "`comment` and `report`."
    )
    cost_usd: str = _output("US dollars that this job spent; empty if a price is unknown.")
    matrix: str = _output(
        "For `plan`: the matrix of `rollout` jobs; for `discover`: of runs. For `fromJSON`."
    )
    phase: str = _output("For `plan`: what the rollouts are for; empty if there is nothing to do.")

    def by_name(self) -> dict[str, str]:
        """Each output's value by its name in ``action.yml``."""
        return {output_name(entry.name): getattr(self, entry.name) for entry in fields(self)}


def output_texts() -> dict[str, str]:
    """Each output's description by its name in ``action.yml``."""
    return {output_name(entry.name): entry.metadata["text"] for entry in fields(Outputs)}


def output_name(attribute: str) -> str:
    """The output's name in ``action.yml``."""
    return attribute.replace("_", "-")


def fold(results: Sequence[Result]) -> Outputs:
    """The outputs of a job in which a command printed ``results``, in this order."""
    if not results or "bytes" in results[-1]:
        return Outputs()
    last = results[-1]
    if "matrix" in last:
        return Outputs(matrix=_compact(last["matrix"]), phase=_text(last.get("phase")))
    if "skills" in last:
        return _evaluation(last)
    if "score_initial" in last:
        return _standing(last)
    if "best_gain" in last and len(results) == 1:
        return _end(last)
    return _steps(results)


def _steps(results: Sequence[Result]) -> Outputs:
    steps = [result for result in results if "score_before" in result]
    outputs = Outputs(
        commit=_text(results[-1].get("commit")),
        cost_usd=_text(_total(result["cost_usd"] for result in results if "cost_usd" in result)),
    )
    if not steps:
        return outputs
    last = steps[-1]
    return replace(
        outputs,
        action=_text(last.get("action")),
        step=_text(last.get("step")),
        score_before=_text(steps[0]["score_before"]),
        score_after=_text(last.get("score_after")),
        improved=_text(any(str(step.get("action")).startswith("accept") for step in steps)),
    )


def _evaluation(result: Result) -> Outputs:
    skills, difference = result["skills"], result.get("difference")
    return Outputs(
        score_before=_text(skills[0]["hard"] if len(skills) > 1 else None),
        score_after=_text(skills[-1]["hard"]),
        improved=_text(None if difference is None else difference["hard"] > 0),
        cost_usd=_text(result.get("cost_usd")),
    )


def _standing(result: Result) -> Outputs:
    before, after = result["score_initial"], result["score_current"]
    return Outputs(
        step=_text(result.get("step")),
        score_before=_text(before),
        score_after=_text(after),
        improved=_text(None if before is None else after > before),
        commit=_text(result.get("commit")),
    )


def _end(result: Result) -> Outputs:
    initial, best, gain = (result[key] for key in ("initial", "best", "best_gain"))
    return Outputs(
        step=_text(result["step"]),
        score_before=_text((initial["test"] or {}).get("hard")),
        score_after=_text((best["test"] or {}).get("hard")),
        improved=_text(None if gain is None else gain["mean"] > 0),
        commit=_text(result["commit"]),
    )


def _total(costs: Iterable[float | None]) -> float | None:
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


# What the runner tells a job about itself.


@dataclass(frozen=True, slots=True)
class Runner:
    """The job's surroundings, from the variables that every runner sets."""

    workspace: Path
    event_name: str
    event_path: Path
    repository: str
    server_url: str
    api_url: str
    run_url: str
    output: Path | None
    summary: Path | None
    debug: bool

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Runner":
        """Read the variables; raises UsageError that names those that are missing."""
        needed = ("GITHUB_WORKSPACE", "GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH", "GITHUB_REPOSITORY")
        missing = [name for name in needed if not environ.get(name)]
        if missing:
            raise UsageError(
                f"this is no job of a GitHub runner: {', '.join(missing)} not set",
                hint="Elsewhere, call the command line: `skillopt-ci --help`.",
            )
        server = environ.get("GITHUB_SERVER_URL") or "https://github.com"
        repository = environ["GITHUB_REPOSITORY"]
        return cls(
            workspace=Path(environ["GITHUB_WORKSPACE"]),
            event_name=environ["GITHUB_EVENT_NAME"],
            event_path=Path(environ["GITHUB_EVENT_PATH"]),
            repository=repository,
            server_url=server,
            api_url=environ.get("GITHUB_API_URL") or "https://api.github.com",
            run_url=_run_url(f"{server}/{repository}", environ.get("GITHUB_RUN_ID", "")),
            output=_file(environ, "GITHUB_OUTPUT"),
            summary=_file(environ, "GITHUB_STEP_SUMMARY"),
            debug=environ.get("RUNNER_DEBUG") == "1",
        )


def _run_url(repository: str, run: str) -> str:
    return f"{repository}/actions/runs/{run}" if run else ""


def _file(environ: Mapping[str, str], name: str) -> Path | None:
    return Path(environ[name]) if environ.get(name) else None


# The files through which a job hands outputs and its summary to the runner.

#: GitHub drops a step's summary that is longer than this many bytes.
SUMMARY_LIMIT = 1024 * 1024
_CUT = "\n\n*This summary was cut here: it is longer than GitHub shows.*\n"


def append_outputs(file: Path, outputs: Mapping[str, str], token: Callable[[], str]) -> None:
    """Set the step's outputs, each between delimiters that its value does not contain.

    Empty ones are left out: reading them gives the same. ``token`` makes words that nobody can
    guess, a new one for every call.
    """
    with file.open("a", encoding="utf-8", newline="\n") as stream:
        for name, value in outputs.items():
            if not value:
                continue
            delimiter = _delimiter(value, token)
            stream.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")


def append_summary(file: Path, markdown: str) -> None:
    """Add to the step's summary what still fits, cut at the end of a line."""
    used = file.stat().st_size if file.exists() else 0
    room = max(0, SUMMARY_LIMIT - used - 1)
    with file.open("a", encoding="utf-8", newline="\n") as stream:
        stream.write(_fitting(markdown, room))


def _delimiter(value: str, token: Callable[[], str]) -> str:
    while True:
        delimiter = f"skillopt_{token()}"
        if delimiter not in value:
            return delimiter


def _fitting(markdown: str, room: int) -> str:
    data = (markdown.rstrip("\n") + "\n").encode("utf-8")
    if len(data) <= room:
        return data.decode("utf-8")
    kept = data[: max(0, room - len(_CUT))].rpartition(b"\n")[0]
    return (kept.decode("utf-8") + _CUT) if kept else ""


# Workflow commands: lines by which a job speaks to the runner that reads its log.

Level = Literal["notice", "warning", "error"]

#: GitHub shows no more of one message.
_LONGEST = 4_000


def escape_data(text: str) -> str:
    """``text`` as the part of a command after the second ``::``."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """``text`` as the value of a command's property."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def command(name: str, text: str = "", **properties: str) -> str:
    """A workflow command; properties without a value are left out."""
    given = [f"{key}={escape_property(value)}" for key, value in properties.items() if value]
    return f"::{' '.join([name, ','.join(given)]).strip()}::{escape_data(text)}"


@dataclass(frozen=True, slots=True)
class JobLog:
    """The job's log. ``token`` makes words that nobody can guess."""

    stream: TextIO
    token: Callable[[], str]

    def say(self, text: str) -> None:
        """Write a line of our own."""
        self._write(harmless_line(text))

    def mask(self, secret: str) -> None:
        """Have the runner hide ``secret`` from here on, each of its lines by itself."""
        for line in secret.splitlines():
            if line.strip():
                self._write(command("add-mask", line))

    def annotate(
        self,
        level: Level,
        message: str,
        *,
        title: str = "",
        file: PurePath | None = None,
        line: int | None = None,
    ) -> None:
        """Show ``message`` on the run's page and, if a file is given, at that line of it."""
        place = {
            "file": "" if file is None else str(file),
            "line": "" if file is None or line is None else str(line),
        }
        self._write(command(level, message[:_LONGEST], title=title, **place))

    @contextmanager
    def group(self, title: str) -> Iterator[None]:
        """Fold what is written inside; groups do not nest."""
        self._write(f"::group::{harmless_line(title)}")
        try:
            yield
        finally:
            self._write("::endgroup::")

    @contextmanager
    def untrusted(self) -> Iterator[TextIO]:
        """Give a stream on which nothing is taken for a command."""
        token = self.token()
        self._write(command("stop-commands", token))
        try:
            yield self.stream
        finally:
            # text that ended in the middle of a line must not swallow the token
            self._write(f"\n::{token}::")

    def _write(self, line: str) -> None:
        self.stream.write(f"{line}\n")
        self.stream.flush()
