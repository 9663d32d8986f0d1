"""Commands run in this process, on real repositories with the bundled example made small."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import Cli, command_of
from repositories import GIT_CONFIG

from skillopt_ci.cli.init import make_repository
from skillopt_ci.cli.main import main
from skillopt_ci.git.process import Git

CONFIG = "skillopt.yaml"
BRANCH = "skillopt/quickstart"


@contextmanager
def at_home(home: Path) -> Iterator[pytest.MonkeyPatch]:
    """Put the process into an environment of its own, with a user's git configuration."""
    with pytest.MonkeyPatch.context() as process:
        process.setenv("HOME", str(home))
        process.setenv("GIT_CONFIG_NOSYSTEM", "1")
        process.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
        for name in ("CI", "COLUMNS", "OPENAI_API_KEY"):
            process.delenv(name, raising=False)
        yield process


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / ".gitconfig").write_text(GIT_CONFIG, encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def plain_environment(home: Path) -> Iterator[None]:
    with at_home(home) as process:
        process.setenv("DEMO_KEY", "sk-demo-key")
        yield


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    return command_of(capsys, monkeypatch)


@pytest.fixture(scope="session")
def untrained(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two steps to do; not to be changed."""
    folder = tmp_path_factory.mktemp("untrained") / "repository"
    with at_home(home):
        make_repository(folder)
    config = (folder / CONFIG).read_text(encoding="utf-8")
    small = {
        "num_epochs: 3": "num_epochs: 1",
        "batch_size: 16": "batch_size: 8",
        "scorer:": "  limit: 16\nscorer:",
        "optimizer:\n  learning_rate": (
            "evaluation:\n  eval_test: false\n  confirm: 0\noptimizer:\n  use_slow_update: false\n"
            "  use_meta_skill: false\n  learning_rate"
        ),
    }
    for old, new in small.items():
        assert config.count(old) == 1
        config = config.replace(old, new)
    (folder / CONFIG).write_text(config, encoding="utf-8")
    Git(folder).run("commit", "--quiet", "--all", "--amend", "--no-edit")
    return folder


@pytest.fixture(scope="session")
def trained(home: Path, untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same after both steps; not to be changed."""
    folder = tmp_path_factory.mktemp("trained") / "repository"
    shutil.copytree(untrained, folder)
    with at_home(home) as process:
        process.chdir(folder)
        assert main(["-q", "run"]) == 0
    return folder


@pytest.fixture
def fresh(untrained: Path, tmp_path: Path) -> Path:
    """An untrained repository for this test alone."""
    return shutil.copytree(untrained, tmp_path / "fresh")


@pytest.fixture
def done(trained: Path, tmp_path: Path) -> Path:
    """A trained repository for this test alone."""
    return shutil.copytree(trained, tmp_path / "done")


@pytest.fixture(scope="session")
def finished(home: Path, trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same after the end of the epoch and of the run; not to be changed."""
    folder = tmp_path_factory.mktemp("finished") / "repository"
    shutil.copytree(trained, folder)
    keys = ("optimizer.use_slow_update", "optimizer.use_meta_skill", "evaluation.eval_test")
    with at_home(home) as process:
        process.chdir(folder)
        assert main(["-q", "run", *(word for key in keys for word in ("-o", f"{key}=true"))]) == 0
    return folder


@pytest.fixture
def ended(finished: Path, tmp_path: Path) -> Path:
    """A finished repository for this test alone."""
    return shutil.copytree(finished, tmp_path / "ended")


@pytest.fixture
def clone(trained: Path, tmp_path: Path) -> Callable[..., Path]:

    def make(*options: str, of: Path = trained) -> Path:
        folder = tmp_path / "clone"
        Git(tmp_path).run("clone", "--quiet", *options, of.as_uri(), str(folder))
        return folder

    return make


@pytest.fixture
def git() -> Callable[..., str]:
    return lambda folder, *args: Git(folder).run(*args).text


@pytest.fixture
def edit() -> Callable[[Path, str, str], None]:

    def replace(file: Path, old: str, new: str) -> None:
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1
        file.write_text(text.replace(old, new), encoding="utf-8")

    return replace
