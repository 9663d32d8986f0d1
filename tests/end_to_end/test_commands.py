import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import forked
import pytest
from programs import write_program

from tests.conftest import BRANCH, Checkout, ModelServer, Workshop

pytestmark = pytest.mark.end_to_end
Run = Callable[..., "subprocess.CompletedProcess[str]"]
SCRIPT = Path(sys.executable).parent / "skillopt-ci"
SMALL = ("-o", "tasks.limit=12", "-o", "train.num_epochs=1", "-o", "train.batch_size=6")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command line below the test's folder, under a git that knows nobody."""
    home = tmp_path / "home"
    home.mkdir()
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home)}
    environ |= {"GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}

    def start(
        folder: Path, *words: str | Path, code: int = 0, **env: str
    ) -> subprocess.CompletedProcess[str]:
        env = {**environ, **env}
        if words[0] == "skillopt-ci":
            done = forked.run(["-m", "skillopt_ci", *words[1:]], cwd=folder, env=env)
        else:
            done = subprocess.run(
                words, cwd=folder, env=env, capture_output=True, text=True, check=False
            )
        assert done.returncode == code, done.stderr
        return done

    return start


def test_quickstart_needs_no_identity_no_folder_and_no_network(run, tmp_path):
    proxy = "http://127.0.0.1:9"
    done = run(tmp_path, SCRIPT, "quickstart", *SMALL, HTTPS_PROXY=proxy, HTTP_PROXY=proxy)
    (folder,) = (tmp_path / "home").glob("skillopt-quickstart-*")
    assert f"  cd {folder}\n" in done.stdout
    assert list(tmp_path.iterdir()) == [tmp_path / "home"]


def test_what_init_writes_is_valid_and_can_be_trained(run, tmp_path):
    folder = tmp_path / "mine"
    run(tmp_path, "git", "init", "--quiet", "--initial-branch=main", folder)
    run(folder, "git", "config", "user.name", "Ada")
    run(folder, "git", "config", "user.email", "ada@example.org")
    run(folder, "skillopt-ci", "init", "--yes", "--provider", "simulated")
    run(folder, "git", "add", ".")
    run(folder, "git", "commit", "--quiet", "-m", "Set up training")
    assert "Ready to train" in run(folder, "skillopt-ci", "check", "--probe").stdout
    step = json.loads(run(folder, "skillopt-ci", "step", "--json").stdout)
    assert step["commit"] == run(folder, "git", "rev-parse", "skillopt/mine").stdout.strip()
    assert re.search(r"last step +1 ", run(folder, "skillopt-ci", "status").stdout)


# How commands end, for scripts that must tell why.


def test_too_many_errors(checkout, command, model_server):
    model_server.trouble = lambda prompt: (500, "out of order")
    done = command(checkout, "step", "--json")
    assert done.returncode == 5
    assert json.loads(done.stdout)["error"]["type"] == "TooManyErrors"
    assert checkout.ref("skillopt/demo") == ""


def test_terminated_run_goes_on_where_it_was(checkout, model_server):
    words = [sys.executable, "-m", "skillopt_ci", "run", "-o", "model.target.max_concurrency=1"]

    def terminate(prompt: str) -> tuple[int, str] | None:
        if not prompt.endswith("Item 102 of kind c"):
            return None
        process.send_signal(signal.SIGTERM)
        return 500, "too late"

    model_server.trouble = terminate
    environ = {**os.environ, "DEMO_KEY": "sk-demo-key"}
    with subprocess.Popen(
        words, cwd=checkout.folder, env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        _, told = process.communicate()
    assert process.returncode == 130, told
    assert "the same command resumes" in told
    model_server.trouble = lambda prompt: None
    assert len(checkout.run()) == 4
    assert model_server.answered.total() == checkout.state().usage.calls


# Git will not take the commits: a message, an exit code, and nothing lost or paid twice.


@pytest.fixture
def origin(workshop: Workshop) -> Path:
    return workshop.origin()


@pytest.fixture
def clone(workshop: Workshop, origin: Path) -> Checkout:
    return workshop.clone(origin, "clone")


def assert_goes_on(clone: Checkout, server: ModelServer) -> None:
    clone.step()
    assert clone.state().step == 1
    assert server.most_answers == 1
    assert server.answered.total() == clone.state().usage.calls


PROTECTED = """
case $1 in refs/heads/%s) echo "error: GH006: Protected branch update failed"; exit 1;; esac
"""
FROZEN = 'test "$1" = prepared || exit 0\ngrep -q " refs/heads/%s$" || exit 0\nexit 1'
BRANCHES = (BRANCH, "skillopt-candidate/demo")
HOOKS = [("pre-push", "echo not on a Saturday >&2; exit 1", "not on a Saturday")]
HOOKS += [("update", PROTECTED % branch, "branch protection[^$]*GH006") for branch in BRANCHES]
REFUSED = "reference-transaction hook refused"
HOOKS += [("reference-transaction", FROZEN % branch, REFUSED) for branch in BRANCHES]


@pytest.mark.parametrize(("hook", "script", "told"), HOOKS)
def test_a_hook_that_refuses(origin, clone, command, model_server, hook, script, told):
    place = origin if hook == "update" else clone.folder / ".git"
    refusing = write_program(place / "hooks" / hook, script)
    done = command(clone, "step")
    assert done.returncode == 5
    assert re.search(told, done.stderr)
    assert hook != "pre-push" or model_server.prompts == []
    refusing.unlink()
    assert_goes_on(clone, model_server)
