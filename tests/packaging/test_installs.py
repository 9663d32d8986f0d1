"""What a job installs is what was reviewed: locked by hash, the base image by its digest."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
_INSTALL = re.compile(r"\b(?:pip|uv)\b[^\n]*\b(?:install|sync)\b[^\n]*")


def test_every_base_image_is_pinned_by_its_digest():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    stages = {line.split()[-1] for line in lines if re.match(r"FROM .* AS ", line)}
    images = [line.split()[1] for line in lines if line.startswith("FROM ")]
    foreign = [image for image in images if image not in {*stages, "scratch"}]
    assert foreign
    assert [image for image in foreign if not re.search(r"@sha256:[0-9a-f]{64}$", image)] == []


@pytest.mark.parametrize("file", ["Dockerfile", "composite/action.yml"])
def test_packages_are_installed_by_hash(file):
    installs = _INSTALL.findall((ROOT / file).read_text(encoding="utf-8"))
    assert installs
    # our own code comes from the checkout, without anything that it depends on
    loose = [
        one
        for one in installs
        if not re.search(r"--require-hashes|--no-deps|--locked|--frozen", one)
    ]
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
