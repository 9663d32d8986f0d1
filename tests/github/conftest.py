"""A run's branches on the test server, and the real client in front of it."""

import pytest
from github_server.scene import SKILL, Scene
from github_server.state import Hub

from skillopt_ci.github.client import Client


@pytest.fixture
def scene(github_hub: Hub) -> Scene:
    github_hub.bare.save("main", SKILL, "# Skill\n")
    return Scene(github_hub)


@pytest.fixture
def client(scene: Scene) -> Client:
    return scene.client()
