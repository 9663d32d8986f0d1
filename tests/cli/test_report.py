"""`report`: the file, and the page that follows a run."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.cli.evidence import page_evidence
from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.read import open_reader

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_it_writes_one_file_from_git_alone(cli: Cli, clone: Callable[..., Path]) -> None:
    folder = clone()
    for path in [folder / "skillopt.yaml", *folder.glob("tasks/*")]:
        path.unlink()
    done = cli(folder, "report", "--json")
    assert done.code == 0, done.err
    written = folder / "skillopt-report.html"
    assert done.json == {
        "run": "quickstart",
        "file": "skillopt-report.html",
        "bytes": written.stat().st_size,
    }
    assert "Simulated models." in written.read_text(encoding="utf-8")


def test_the_file_may_be_elsewhere_and_is_replaced_as_a_whole(cli: Cli, done: Path) -> None:
    for _ in range(2):
        assert cli(done, "report", "--output", "site/index.html").code == 0
    assert [path.name for path in (done / "site").iterdir()] == ["index.html"]


def test_a_run_that_has_not_started_says_how_to_start_it(cli: Cli, untrained: Path) -> None:
    told = cli(untrained, "report")
    assert told.code == 2
    assert "skillopt-ci step" in told.err
    assert not (untrained / "skillopt-report.html").exists()


def test_every_text_of_the_skill_is_there_with_where_it_came_from(finished: Path) -> None:
    found = page_evidence(open_reader(Globals({}, finished)))
    history = [entry.skill_sha256 for entry in found.run.history]
    assert len(found.versions) == len(dict.fromkeys(history))
    assert found.versions[0].label == "at the start"
    assert all(version.anchor for version in found.versions[1:])
    merged = {f"step-{record.step}" for record in found.run.steps if record.proposal.changed}
    assert merged <= set(found.candidates)


@pytest.fixture
def served(done: Path) -> Iterator[int]:
    """The port at which the report of a repository is served by a real process."""
    # other tests measure skills in the repository that this one is a copy of
    for file in (done / ".git" / "skillopt-ci" / "events" / "quickstart").glob("*.jsonl"):
        if "-quickstart-" not in file.name:
            file.unlink()
    process = subprocess.Popen(
        [sys.executable, "-m", "skillopt_ci", "report", "--serve", "--port", "0"],
        cwd=done,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
    assert found is not None
    yield int(found[1])
    process.terminate()
    process.communicate()
    assert process.returncode == 0


def ask(port: int, path: str, host: str = "localhost") -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_the_served_page_follows_the_run(served: int, done: Path, git: Callable[..., str]) -> None:
    status, page = ask(served, "/")
    assert (status, page.count('class="card ')) == (200, 2)
    tip = git(done, "rev-parse", "skillopt/quickstart")
    status, told = ask(served, "/version")
    assert (status, told.split("\n")[0]) == (200, tip)
    assert re.fullmatch(r"16 attempts at selection tasks \(\d+ solved\)", told.split("\n")[1])
    git(done, "update-ref", "refs/heads/skillopt/quickstart", f"{tip}~1")
    assert not ask(served, "/version")[1].startswith(tip)
    _, page = ask(served, "/")
    assert page.count('class="card ') == 1


def test_nobody_else_is_answered(served: int) -> None:
    assert ask(served, "/", host="evil.example")[0] == 403
    assert ask(served, "/../../etc/passwd")[0] == 404


def test_a_run_that_cannot_be_read_for_a_moment_is_told(served: int, done: Path) -> None:
    shutil.move(done / ".git", done / "elsewhere")
    assert ask(served, "/version")[0] == 503
    shutil.move(done / "elsewhere", done / ".git")
    assert ask(served, "/version")[0] == 200


def test_a_port_that_is_taken_is_told(cli: Cli, done: Path, served: int) -> None:
    told = cli(done, "report", "--serve", "--port", str(served))
    assert told.code == 2
    assert "--port 0" in told.err


def test_the_json_of_the_page_is_whole(cli: Cli, done: Path) -> None:
    cli(done, "report", "-q")
    page = (done / "skillopt-report.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    assert set(json.loads(found[1])) == {"lines", "texts", "columns", "rows", "cells", "places"}
