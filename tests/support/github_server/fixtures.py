"""Fixtures for every test that needs a GitHub."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from github_server.bare import Bare
from github_server.server import serving
from github_server.state import Hub


@pytest.fixture
def github_hub(tmp_path: Path) -> Iterator[Hub]:
    """A GitHub with an empty repository octo/skills; all requests must be as GitHub wants them.

    ``job`` is the token of a workflow, ``pat`` that of the person ada.
    """
    folder = tmp_path / "github" / "octo" / "skills.git"
    subprocess.run(
        ["git", "init", "--quiet", "--bare", "--initial-branch=main", str(folder)], check=True
    )
    bare = Bare(folder)
    bare.git("config", "http.receivepack", "true")
    with serving(Hub(bare)) as hub:
        yield hub
    assert hub.problems == []
