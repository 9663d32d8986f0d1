from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

MARKER = "<!-- skillopt-ci:v1 key=quickstart -->"


def test_it_prints_what_the_comment_says(cli: Cli, trained: Path) -> None:
    text = cli(trained, "comment").out
    assert text.startswith(MARKER)
    assert "<b>Step 2</b>" in text


def test_json_is_one_object(cli: Cli, trained: Path) -> None:
    assert json.loads(cli(trained, "comment", "--json").out)["comment"].startswith(MARKER)


def test_publishing_takes_a_token_and_a_repository(cli: Cli, trained: Path) -> None:
    ended = cli(trained, "comment", "--publish")
    assert ended.code == 2
    assert "GITHUB_REPOSITORY" in ended.err
