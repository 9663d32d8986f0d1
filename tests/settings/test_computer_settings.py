from pathlib import Path

import pytest
from pydantic import ValidationError

from skillopt_ci.computer.build import computers, spec
from skillopt_ci.computer.computer import Network
from skillopt_ci.config.rollout import ComputerConfig


def test_the_usual_computer_is_a_sandbox_without_network() -> None:
    settings = ComputerConfig()
    assert computers(settings, {}).name == "sandbox"
    assert spec(settings).network is Network.NONE


@pytest.mark.parametrize("kind", ["sandbox", "docker", "unconfined"])
def test_the_kind_is_what_is_configured(kind: str) -> None:
    settings = ComputerConfig.model_validate({"type": kind})
    assert computers(settings, {"PATH": "/bin"}).name == kind


def test_only_the_unconfined_kind_always_has_a_caveat() -> None:
    assert "not confined" in computers(ComputerConfig(type="unconfined"), {}).caveat
    assert computers(ComputerConfig(type="docker"), {}).caveat == ""


def test_every_limit_reaches_the_computer() -> None:
    settings = ComputerConfig.model_validate(
        {
            "network": "open",
            "image": "python:3.12",
            "memory_mb": 64,
            "cpus": 0.5,
            "processes": 32,
            "disk_mb": 8,
            "environ": {"A": "1", "B": "2"},
            "readable": ["/opt/tool"],
        }
    )
    made = spec(settings, environ={"B": "3"})
    assert (made.network, made.image) == (Network.OPEN, "python:3.12")
    assert (made.memory_mb, made.cpus, made.processes, made.disk_mb) == (64, 0.5, 32, 8)
    assert made.environ == {"A": "1", "B": "3"}
    assert made.readable == (Path("/opt/tool"),)
    assert spec(settings, image="other").image == "other"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("type", "chroot"),
        ("network", "some"),
        ("memory_mb", 0),
        ("cpus", 0),
        ("processes", 1),
        ("disk_mb", 0),
        ("environ", {"NOT A NAME": ""}),
        ("environ", {"A": "zero\0byte"}),
        ("readable", ["relative"]),
        ("readable", ["/"]),
        ("readable", ["/usr"]),
        ("readable", ["/home"]),
        ("readable", ["/workspace/x"]),
        ("readable", ["/tmp/x"]),
        ("readable", ["/opt/../etc"]),
    ],
)
def test_what_no_computer_can_be_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValidationError):
        ComputerConfig.model_validate({key: value})


@pytest.mark.parametrize("path", ["/opt/tool", "/home/runner/.local", "/usr/local/lib/tool"])
def test_what_can_be_lent(path: str) -> None:
    assert ComputerConfig.model_validate({"readable": [path]}).readable == (Path(path),)
