"""Git will not take the commits: a message, an exit code, and nothing lost or paid twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Checkout, ModelServer, Workshop

pytestmark = pytest.mark.end_to_end

BRANCH = "skillopt/demo"


@pytest.fixture
def origin(workshop: Workshop) -> Path:
    return workshop.origin()


@pytest.fixture
def clone(workshop: Workshop, origin: Path) -> Checkout:
    return workshop.clone(origin, "clone")


def hook(git_dir: Path, name: str, script: str) -> Path:
    file = git_dir / "hooks" / name
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def assert_goes_on(clone: Checkout, server: ModelServer) -> None:
    clone.step()
    assert clone.state().step == 1
    assert server.most_answers == 1
    assert server.answered.total() == clone.state().usage.calls


def test_missing_identity(clone, command, model_server):
    done = command(clone, "step", GIT_CONFIG_GLOBAL="/dev/null")
    assert done.returncode == 2
    assert "git does not know who is committing" in done.stderr
    assert "git.author_name" in done.stderr
    assert model_server.prompts == []


def test_read_only_remote(clone, command, model_server):
    clone.git("config", "remote.origin.pushurl", f"{model_server.url}/demo.git")
    done = command(clone, "step")
    assert done.returncode == 5
    assert "it may be read but not written" in done.stderr
    assert model_server.prompts == []


def test_pre_push_hook(clone, command, model_server):
    refusing = hook(clone.folder / ".git", "pre-push", "echo not on a Saturday >&2; exit 1")
    done = command(clone, "step")
    assert done.returncode == 5
    assert "not on a Saturday" in done.stderr
    assert model_server.prompts == []
    refusing.unlink()
    assert_goes_on(clone, model_server)


PROTECTED = """\
case $1 in refs/heads/{branch}) echo "error: GH006: Protected branch update failed"; exit 1;; esac
"""


@pytest.mark.parametrize("branch", ["skillopt/demo", "skillopt-candidate/demo"])
def test_protected_branch(origin, clone, command, model_server, branch):
    refusing = hook(origin, "update", PROTECTED.format(branch=branch))
    done = command(clone, "step")
    assert done.returncode == 5
    assert "branch protection" in done.stderr
    assert "GH006" in done.stderr
    refusing.unlink()
    assert_goes_on(clone, model_server)


@pytest.mark.parametrize("ref", [f"refs/heads/{BRANCH}", "refs/heads/skillopt-candidate/demo"])
def test_reference_transaction_hook(clone, command, model_server, ref):
    script = f'test "$1" = prepared || exit 0\ngrep -q " {ref}$" || exit 0\nexit 1'
    refusing = hook(clone.folder / ".git", "reference-transaction", script)
    done = command(clone, "step")
    assert done.returncode == 5
    assert "reference-transaction hook refused" in done.stderr
    refusing.unlink()
    assert_goes_on(clone, model_server)
