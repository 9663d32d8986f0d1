from pathlib import Path

import pytest
from action_world import World, example_world
from github_server.state import Hub


@pytest.fixture
def world(github_hub: Hub, tmp_path: Path) -> World:
    return example_world(github_hub, tmp_path)
