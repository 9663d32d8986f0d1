"""What a job installs is what was reviewed: locked by hash, the base image by its digest."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_INSTALL = re.compile(r"\b(?:pip|uv)\b[^\n]*\b(?:install|sync)\b[^\n]*")


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="issue 16.5: image by its tag only")
def test_every_base_image_is_pinned_by_its_digest() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    stages = {line.split()[-1] for line in lines if re.match(r"FROM .* AS ", line)}
    images = [line.split()[1] for line in lines if line.startswith("FROM ")]
    foreign = [image for image in images if image not in stages]
    assert foreign
    assert [image for image in foreign if not re.search(r"@sha256:[0-9a-f]{64}$", image)] == []


@pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="issue 16.5: installed without hashes"
)
@pytest.mark.parametrize("file", ["Dockerfile", "composite/action.yml"])
def test_packages_are_installed_by_hash(file: str) -> None:
    installs = _INSTALL.findall((ROOT / file).read_text(encoding="utf-8"))
    assert installs
    # our own code comes from the checkout, without anything that it depends on
    loose = [
        one
        for one in installs
        if not re.search(r"--require-hashes|--no-deps|--locked|--frozen", one)
    ]
    assert loose == []
