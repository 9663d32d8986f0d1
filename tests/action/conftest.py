from pathlib import Path

import pytest
from action_world import World
from github_server.state import Hub

from skillopt_ci.demo import write_example


@pytest.fixture
def world(github_hub: Hub, tmp_path: Path) -> World:
    """The bundled example, checked out of a GitHub without credentials."""
    made = World(github_hub, tmp_path / "workspace", tmp_path / "runner")
    made.files.mkdir()
    write_example(made.workspace)
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("add", "--all")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@localhost")
    made.git(*who, "commit", "--quiet", "--message", "Write down how ledger lines look")
    made.git("push", "--quiet", str(github_hub.bare.folder), "main")
    made.git("remote", "add", "origin", f"{github_hub.url}/octo/skills.git")
    return made
