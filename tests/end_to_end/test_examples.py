"""The example folders, trained by the installed command on computers that really confine.

Scripted models serve them instead of the paid ones that they name.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import forked
import pytest
from serving import running
from shell_office import ShellOffice

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="the sandbox needs bubblewrap"),
]


#: A few tasks, and steps large enough to learn from them.
SMALL = (
    "tasks.limit=4",
    "train.num_epochs=1",
    "train.batch_size=4",
    "gradient.minibatch_size=8",
    "optimizer.learning_rate=10",
    "optimizer.min_learning_rate=10",
    "optimizer.use_slow_update=false",
    "optimizer.use_meta_skill=false",
    "evaluation.max_error_rate=0",
    "evaluation.confirm=0",
)


def make(folder: Path, *parts: str) -> Path:
    """Make a repository of the example's parts, laid over one another."""
    for part in parts:
        shutil.copytree(Path(__file__).parents[2] / "examples" / part, folder, dirs_exist_ok=True)
    for words in (
        ["init", "-q", "-b", "main"],
        ["config", "user.name", "Ada"],
        ["config", "user.email", "ada@localhost"],
        ["add", "-A"],
        ["commit", "-qm", "Start"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def skillopt(folder: Path, *words: str) -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder.parent)}
    environ |= {"LC_ALL": "C.UTF-8", "OPENAI_API_KEY": "sk-example"}
    done = forked.run(["-m", "skillopt_ci", *words], cwd=folder, env=environ)
    assert done.returncode in (0, 3), done.stdout + done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("parts", [("shell",), ("shell", "external-agent")])
def test_the_example_is_valid_and_learns(parts, tmp_path):
    folder = make(tmp_path / "example", *parts)
    said = skillopt(folder, "check")
    assert "24 train, 16 selection, 24 test" in said
    assert "sandbox works here" in said
    with running(ShellOffice()) as url:
        model = f"{{provider: compatible, model: scripted, base_url: {url}}}"
        settings = [*SMALL, f"model.target={model}", f"model.optimizer={model}"]
        overrides = [word for setting in settings for word in ("-o", setting)]
        said = skillopt(folder, "run", *overrides)
    scores = dict(re.findall(r"^(initial|best) +test ([\d.]+)", said, re.MULTILINE))
    assert float(scores["best"]) >= float(scores["initial"]) + 0.2
