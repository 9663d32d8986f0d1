"""What a job passes to the runner: outputs, a summary and log lines."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any, Literal, TextIO

from skillopt_ci.sanitize import harmless_line

#: An object that a command printed.
Printed = Mapping[str, Any]
Level = Literal["notice", "warning", "error"]

#: The title of what says what GitHub refused.
UNPUBLISHED = "Not everything could be published"


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs that `action.yml` documents, for later steps; empty if not applicable."""

    result: str = ""
    action: str = ""
    step: str = ""
    score_before: str = ""
    score_after: str = ""
    improved: str = ""
    commit: str = ""
    pull_request: str = ""
    finding: str = ""
    report: str = ""
    page: str = ""
    cost_usd: str = ""
    matrix: str = ""
    phase: str = ""

    @classmethod
    def of(cls, **values: Any) -> "Outputs":
        return cls(**{name: _text(value) for name, value in values.items()})

    def by_name(self) -> dict[str, str]:
        return {name.replace("_", "-"): value for name, value in asdict(self).items()}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def fold(results: Sequence[Printed]) -> Outputs:
    last: Printed = results[-1] if results else {}
    if "matrix" in last:
        return Outputs.of(
            matrix=json.dumps(last["matrix"], separators=(",", ":")), phase=last.get("phase")
        )
    if "skills" in last:  # an evaluation of one skill, or of two
        skills, difference = last["skills"], last.get("difference")
        return Outputs.of(
            score_before=skills[0]["hard"] if len(skills) > 1 else None,
            score_after=skills[-1]["hard"],
            improved=None if difference is None else difference["hard"] > 0,
            cost_usd=last.get("cost_usd"),
        )
    if "score_initial" in last:  # the run's status
        before, after = last["score_initial"], last["score_current"]
        return Outputs.of(
            step=last.get("step"),
            commit=last.get("commit"),
            score_before=before,
            score_after=after,
            improved=None if before is None else after > before,
        )
    if "best_gain" in last and len(results) == 1:  # the end of a run
        return Outputs.of(
            step=last["step"],
            commit=last["commit"],
            score_before=(last["initial"]["test"] or {}).get("hard"),
            score_after=(last["best"]["test"] or {}).get("hard"),
            improved=None if last["best_gain"] is None else last["best_gain"]["mean"] > 0,
        )
    if last.keys() & {"bytes", "error"}:  # a page, or why there is no result
        return Outputs()
    # commands that train print a result for each step: all of them count
    costs = [result["cost_usd"] for result in results if "cost_usd" in result]
    steps = [result for result in results if "score_before" in result]
    newest: Printed = steps[-1] if steps else {}
    return Outputs.of(
        action=newest.get("action"),
        step=newest.get("step"),
        score_before=steps[0]["score_before"] if steps else None,
        score_after=newest.get("score_after"),
        improved=any(map(_is_better, steps)) if steps else None,
        commit=last.get("commit"),
        cost_usd=sum(costs, 0.0) if costs and None not in costs else None,
    )


def _is_better(step: Printed) -> bool:
    """Whether its candidate was merged for its score, or scored higher at an open gate."""
    before, after = step["score_before"], step.get("score_after")
    opened = step.get("action") == "force_accept" and None not in (before, after)
    return str(step.get("action")).startswith("accept") or (opened and after > before)


def append_outputs(file: Path, outputs: Mapping[str, str], token: Callable[[], str]) -> None:
    """Write each output between delimiters made by ``token``, which must be unguessable."""
    with file.open("a", encoding="utf-8", newline="\n") as stream:
        for name, value in outputs.items():
            if value:
                while (delimiter := f"skillopt_{token()}") in value:
                    pass
                stream.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")


def command(name: str, text: str = "", **properties: str) -> str:
    """A workflow command: a log line that the runner obeys."""
    given = [
        f"{key}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}"
        for key, value in properties.items()
        if value
    ]
    return f"::{' '.join([name, ','.join(given)]).strip()}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


@dataclass(frozen=True, slots=True)
class JobLog:
    """The job's log; ``token`` makes unguessable words."""

    stream: TextIO
    token: Callable[[], str]

    def mask(self, secret: str) -> None:
        """Have the runner mask each line of ``secret`` from here on."""
        for line in filter(str.strip, secret.splitlines()):
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
        """Show ``message`` on the run's page and, if given, at the line of the file."""
        place = {"file": str(file or ""), "line": str(line or "")}
        # GitHub cuts longer messages
        self._write(command(level, message[:4_000], title=title, **place))

    @contextmanager
    def untrusted(self, title: str) -> Iterator[TextIO]:
        """A folded stream on which the runner obeys no workflow commands; these do not nest."""
        token = self.token()
        self._write(f"::group::{harmless_line(title)}\n{command('stop-commands', token)}")
        try:
            yield self.stream
        finally:
            # The newline matters: the token must be at the start of a line.
            self._write(f"\n::{token}::\n::endgroup::")

    def _write(self, line: str) -> None:
        self.stream.write(f"{line}\n")
        self.stream.flush()
