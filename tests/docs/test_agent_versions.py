"""The page of agents says with which versions their programs were checked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from script_module import script


@pytest.fixture(scope="module")
def versions() -> Any:
    return script("agent_versions")


def test_the_page_names_a_version_of_each_program(versions):
    named = versions.checked(versions.PAGE.read_text())
    assert set(named) == set(filter(None, versions.PACKAGES))
    assert all(version[0].isdigit() for version in named.values())


def test_versions_that_passed_are_written_into_the_row_alone(versions, tmp_path):
    for number, name in enumerate(filter(None, versions.PACKAGES)):
        package = tmp_path / "node_modules" / name / "package.json"
        package.parent.mkdir(parents=True)
        package.write_text(json.dumps({"version": f"1.0.{number}"}))
    page = versions.PAGE.read_text()
    changed = versions.with_versions(page, versions.installed(tmp_path))
    assert "| checked with | 1.0.0 | 1.0.1 | 1.0.2 | not checked | 1.0.3 |" in changed
    assert versions.with_versions(changed, versions.checked(page)) == page


def test_a_page_without_the_row_is_refused(versions):
    with pytest.raises(ValueError, match="no row `checked with`"):
        versions.checked("# Agents\n")


def test_it_prints_what_npm_installs(versions, capsys):
    assert versions.main(["packages"]) == 0
    assert "@openai/codex@" in capsys.readouterr().out
    assert versions.main([]) == 2
