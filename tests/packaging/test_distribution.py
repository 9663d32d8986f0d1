import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from skillopt_ci import __version__
from skillopt_ci.cli.scaffold import WORKFLOW

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, folder], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return zipfile.ZipFile(folder / done.stdout.split()[-1])


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    files = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "skillopt_ci").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files <= set(wheel.namelist())
    information = f"skillopt_ci-{__version__}.dist-info"
    assert {name.partition("/")[0] for name in wheel.namelist()} == {"skillopt_ci", information}
    assert "License-Expression: MIT" in wheel.read(f"{information}/METADATA").decode("utf-8")
    assert b"skillopt_ci.cli.main:main" in wheel.read(f"{information}/entry_points.txt")
    assert b"MIT License" in wheel.read(f"{information}/licenses/LICENSE")


def test_the_ci_script_is_runnable_and_make_lists_its_targets():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    subprocess.run(["bash", "-n", ROOT / ".ci" / "run"], check=True)
    done = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        *("help", "quickstart", "test", "unit", "oldest", "lint", "format"),
        *("docs", "lock", "image", "check", "stats", "setup"),
    ]


# What a job installs is what was reviewed: locked by hash, the base image by its digest.

_INSTALL = re.compile(r"\b(?:pip|uv)\b[^\n]*\b(?:install|sync)\b[^\n]*")


def test_every_base_image_is_pinned_by_its_digest():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    stages = {line.split()[-1] for line in lines if re.match(r"FROM .* AS ", line)}
    images = [line.split()[1] for line in lines if line.startswith("FROM ")]
    foreign = [image for image in images if image not in {*stages, "scratch"}]
    assert foreign
    assert [image for image in foreign if not re.search(r"@sha256:[0-9a-f]{64}$", image)] == []


@pytest.mark.parametrize(
    "file", ["Dockerfile", "composite/action.yml", ".github/workflows/release.yml"]
)
def test_packages_are_installed_by_hash(file):
    installs = _INSTALL.findall((ROOT / file).read_text(encoding="utf-8"))
    assert installs
    # our own code comes from the checkout, without anything that it depends on
    pinned = r"--require-hashes|--no-deps|--locked|--frozen"
    loose = [one for one in installs if not re.search(pinned, one)]
    assert loose == []


def _locked(file: str) -> dict[str, str]:
    text = (ROOT / "requirements" / file).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", text, re.MULTILINE))


def test_lock_holds_what_the_package_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = project["project"]["dependencies"]
    extras = project["project"]["optional-dependencies"]
    asked = [*asked, *extras["anthropic"], *extras["azure"]]
    run, build = _locked("run.txt"), _locked("build.txt")
    for text, locked in [(one, run) for one in asked] + [
        (one, build) for one in project["build-system"]["requires"]
    ]:
        requirement = Requirement(text)
        version = locked.get(canonicalize_name(requirement.name), "none")
        assert requirement.specifier.contains(version), f"{text}: {version} (run make lock)"


# The steps of the release workflow, run in a clone: what is tagged, and what the package knows.

IMAGE = "ghcr.io/skillopt-ci/skillopt-ci@sha256:" + "0" * 64


@pytest.mark.end_to_end
def test_a_release_resolves_to_one_commit_that_runs_the_image(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    origin, clone = tmp_path / "origin.git", tmp_path / "clone"

    def git(folder: Path, *words: str) -> str:
        done = subprocess.run(["git", "-C", folder, *words], capture_output=True, check=True)
        return done.stdout.decode().strip()

    git(ROOT, "clone", "--quiet", "--bare", ".", str(origin))
    git(tmp_path, "clone", "--quiet", str(origin), str(clone))
    environ = {**os.environ, "IMAGE": IMAGE, "VERSION": f"v{__version__}", "TOKEN": "job"}
    environ |= {"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_SERVER_URL": "https://x.test"}
    environ["LC_ALL"] = "C.UTF-8"  # as in the workflow: what a letter is differs between languages

    def run(job: str, name: str) -> None:
        (step,) = [each for each in jobs[job]["steps"] if each.get("name") == name]
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        subprocess.run(words, cwd=clone, env=environ, check=True, capture_output=True)

    release = ROOT / ".github" / "workflows" / "release.yml"
    jobs: dict[str, Any] = yaml.safe_load(release.read_text(encoding="utf-8"))["jobs"]
    log = clone / "CHANGELOG.md"
    written = log.read_text(encoding="utf-8").replace(f"## [{__version__}]", "## [before]")
    log.write_text(written, encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        run("check", "Read the version")
    assert b"CHANGELOG.md::has no section" in refused.value.stdout
    log.write_text(written.replace("Unreleased", __version__, 1), encoding="utf-8")
    run("check", "Read the version")
    for year in (2030, 2031):  # the second time as if the job were run again after its push
        git(clone, "reset", "--quiet", "--soft", "origin/HEAD")
        environ["GIT_COMMITTER_DATE"] = f"{year}-01-01T00:00:00Z"
        run("tag", "Point the action at the published image")
        run("tag", "Push the tag")
    run("package", "Tell the package its commit")
    run("major-tag", "Push the tag")
    tag, major = f"v{__version__}", f"v{__version__.partition('.')[0]}"
    commit = git(origin, "rev-parse", tag)
    assert git(origin, "rev-parse", major) == commit
    outputs = f"version={tag}\n" + 2 * f"commit={commit}\n"
    assert (tmp_path / "output").read_text(encoding="utf-8") == outputs
    for manifest in ("action.yml", "docker/action.yml"):
        runs = yaml.safe_load(git(origin, "show", f"{tag}:{manifest}"))["runs"]
        assert runs["image"] == f"docker://{IMAGE}"

    (tmp_path / "dist").mkdir()
    build = [sys.executable, "-c", BUILD, tmp_path / "dist"]
    subprocess.run(build, cwd=clone, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    (page,) = (tmp_path / "installed").glob("*.dist-info/METADATA")
    found = re.findall(r'(?:\]\(|(?:src|srcset|href)=")([^)"]+)', page.read_text("utf-8"))
    assert [link for link in found if not link.startswith("https://")] == []
    assert sum(f"/raw/{commit}/docs/pictures/" in link for link in found) == 4
    own = tmp_path / "own"
    git(tmp_path, "init", "--quiet", str(own))
    words = [sys.executable, "-P", "-m", "skillopt_ci", "init", "--yes", "--github"]
    installed = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    subprocess.run(words, cwd=own, env=installed, check=True, capture_output=True)
    written = (own / WORKFLOW).read_text(encoding="utf-8")
    assert f"/.github/workflows/train.yml@{commit} # {tag}\n" in written
