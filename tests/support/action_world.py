"""The action as the runner starts it: a mounted checkout, a payload, files, a GitHub to push to."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import forked
from github_server.state import Hub

from skillopt_ci.action.inputs import Inputs
from skillopt_ci.action.job import Job
from skillopt_ci.action.outputs import JobLog
from skillopt_ci.demo import write_example

SMALL = "train.batch_size=4\nevaluation.sel_env_num=8\nevaluation.test_env_num=4"
ADA = {"login": "ada", "type": "User"}
OURS, FORK = {"full_name": "octo/skills"}, {"full_name": "mallory/skills"}


@dataclass(frozen=True)
class Finished:
    """What the runner has after the action ended."""

    code: int
    log: str
    outputs: dict[str, str]
    summary: str


@dataclass
class World:
    """A job's surroundings; ``environ`` is added to what the runner sets."""

    hub: Hub
    workspace: Path
    files: Path
    environ: dict[str, str] = field(default_factory=dict)

    def start(
        self,
        event: str,
        payload: dict[str, Any] | None = None,
        *,
        before: str = "",
        **inputs: str,
    ) -> Finished:
        """Run the action; ``before`` is a program with its options that starts it."""
        (self.files / "event.json").write_text(json.dumps(payload or {}), encoding="utf-8")
        (self.files / "output").write_text("earlier<<end\nyes\nend\n", encoding="utf-8")
        (self.files / "summary").write_text("# Earlier\n", encoding="utf-8")
        words = ["-c", "import sys; from skillopt_ci.action.main import main; sys.exit(main())"]
        environ = self.variables(event, {"token": "job", "overrides": SMALL, **inputs})
        if before:
            done = subprocess.run(
                [*before.split(), sys.executable, *words],
                cwd=self.workspace,
                env=environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
        else:
            done = forked.run(words, cwd=self.workspace, env=environ, merged=True)
        outputs = read_outputs((self.files / "output").read_text(encoding="utf-8"))
        earlier, _, summary = (self.files / "summary").read_text(encoding="utf-8").partition("\n")
        # what other steps of the job told the runner stays
        assert (outputs.pop("earlier"), earlier) == ("yes", "# Earlier")
        return Finished(done.returncode, done.stdout, outputs, summary)

    def variables(self, event: str, inputs: dict[str, str]) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.files),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(self.files / "event.json"),
            "GITHUB_REPOSITORY": "octo/skills",
            "GITHUB_SERVER_URL": self.hub.url,
            "GITHUB_API_URL": self.hub.url,
            "GITHUB_OUTPUT": str(self.files / "output"),
            "GITHUB_STEP_SUMMARY": str(self.files / "summary"),
            **{f"INPUT_{name.upper()}": value for name, value in inputs.items()},
            **self.environ,
        }

    def git(self, *words: str) -> str:
        line = ["git", "-c", "safe.directory=*", "-C", str(self.workspace), *words]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout.rstrip("\n")


def example_world(hub: Hub, folder: Path) -> World:
    """Return the bundled example, checked out of a GitHub without credentials."""
    made = World(hub, folder / "workspace", folder / "runner")
    made.files.mkdir()
    write_example(made.workspace)
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("add", "--all")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@localhost")
    made.git(*who, "commit", "--quiet", "--message", "Write down how ledger lines look")
    made.git("push", "--quiet", str(hub.bare.folder), "main")
    made.git("remote", "add", "origin", f"{hub.url}/octo/skills.git")
    return made


def opened_pull(
    head: str, base: str | None, repository: dict[str, str] = OURS, number: int = 1, **more: object
) -> dict[str, Any]:
    """The payload of the event that Ada opened a pull request, with ``more`` in its place."""
    ends = {
        "head": {"sha": head, "ref": "better", "repo": repository},
        "base": {"sha": base, "ref": "main", "repo": OURS},
    }
    return {"action": "opened", "pull_request": {"number": number, **ends}, "sender": ADA, **more}


def read_outputs(text: str) -> dict[str, str]:
    """Read a file of outputs as the runner does."""
    outputs, lines = {}, iter(text.splitlines())
    for head in lines:
        name, arrow, delimiter = head.partition("<<")
        assert arrow, f"no output begins with {head!r}"
        outputs[name] = "\n".join(_until(delimiter, lines))
    return outputs


def _until(delimiter: str, lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if line == delimiter:
            return
        yield line
    raise AssertionError(f"{delimiter} is missing")


def make_job(workspace: Path, log: TextIO | None = None, **changes: Any) -> Job:
    """A job in ``workspace`` as if the runner had started it; ``changes`` are its fields."""
    fields = {"inputs": Inputs(), "environ": {}, **changes}
    return Job(workspace, log=JobLog(log or io.StringIO(), lambda: "t"), **fields)


def obeyed(log: str) -> list[str]:
    """The commands that the runner would take from a log, by their names."""
    found, stopped = [], ""
    for line in re.split(r"\r\n|\r|\n", log):
        match = re.match(r"\s*::([^ :]+)", line)
        if stopped:
            stopped = "" if line.strip() == f"::{stopped}::" else stopped
        elif match:
            found.append(match[1])
            stopped = line.rpartition("::")[2] if match[1] == "stop-commands" else ""
        elif "##[" in line:
            found.append(line)
    return found
