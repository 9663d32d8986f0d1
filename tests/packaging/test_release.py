"""The steps of the release workflow, run in a clone: what is tagged, and what the package knows."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from skillopt_ci import __version__
from skillopt_ci.cli.scaffold import WORKFLOW

BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
IMAGE = "ghcr.io/skillopt-ci/skillopt-ci@sha256:" + "0" * 64


@pytest.mark.end_to_end
def test_a_release_resolves_to_one_commit_that_runs_the_image(root, tmp_path):
    if not (root / ".git").exists():
        pytest.skip("this is no clone")
    origin, clone = tmp_path / "origin.git", tmp_path / "clone"

    def git(folder: Path, *words: str) -> str:
        done = subprocess.run(["git", "-C", folder, *words], capture_output=True, check=True)
        return done.stdout.decode().strip()

    git(root, "clone", "--quiet", "--bare", ".", str(origin))
    git(tmp_path, "clone", "--quiet", str(origin), str(clone))
    environ = {**os.environ, "IMAGE": IMAGE, "VERSION": f"v{__version__}", "TOKEN": "job"}
    environ |= {"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_SERVER_URL": "https://x.test"}

    def run(job: str, name: str) -> None:
        (step,) = [each for each in jobs[job]["steps"] if each.get("name") == name]
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        subprocess.run(words, cwd=clone, env=environ, check=True, capture_output=True)

    release = root / ".github" / "workflows" / "release.yml"
    jobs: dict[str, Any] = yaml.safe_load(release.read_text(encoding="utf-8"))["jobs"]
    run("tag", "Point the action at the published image")
    run("tag", "Push the tag")
    run("package", "Tell the package its commit")
    run("major-tag", "Push the tag")
    tag, major = f"v{__version__}", f"v{__version__.partition('.')[0]}"
    commit = git(origin, "rev-parse", tag)
    assert git(origin, "rev-parse", major) == commit
    assert (tmp_path / "output").read_text(encoding="utf-8") == f"commit={commit}\n"
    for manifest in ("action.yml", "docker/action.yml"):
        runs = yaml.safe_load(git(origin, "show", f"{tag}:{manifest}"))["runs"]
        assert runs["image"] == f"docker://{IMAGE}"

    (tmp_path / "dist").mkdir()
    build = [sys.executable, "-c", BUILD, tmp_path / "dist"]
    subprocess.run(build, cwd=clone, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    own = tmp_path / "own"
    git(tmp_path, "init", "--quiet", str(own))
    words = [sys.executable, "-P", "-m", "skillopt_ci", "init", "--yes", "--github"]
    installed = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    subprocess.run(words, cwd=own, env=installed, check=True, capture_output=True)
    written = (own / WORKFLOW).read_text(encoding="utf-8")
    assert f"/.github/workflows/train.yml@{commit} # {tag}\n" in written
