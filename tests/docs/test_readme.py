import json
import re
from pathlib import Path

from script_module import script

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_file_that_is_linked_is_there():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    links += re.findall(r'(?:src|srcset)="([^":]+)"', README)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_figures_are_those_of_their_page():
    page = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    figures = re.findall(r"0\.\d{3}\**? \([\d,]+\)", README)
    assert len(figures) == 12
    assert [figure for figure in figures if figure not in page] == []


def test_the_page_of_agents_names_the_version_that_each_program_was_checked_with(tmp_path):
    versions = script("agent_versions")
    page = versions.PAGE.read_text()
    assert set(versions.checked(page)) == set(filter(None, versions.PACKAGES))
    for number, name in enumerate(filter(None, versions.PACKAGES)):
        package = tmp_path / "node_modules" / name / "package.json"
        package.parent.mkdir(parents=True)
        package.write_text(json.dumps({"version": f"1.0.{number}"}))
    changed = versions.with_versions(page, versions.installed(tmp_path))
    assert "| checked with | 1.0.0 | 1.0.1 | 1.0.2 | not checked | 1.0.3 |" in changed
    assert versions.with_versions(changed, versions.checked(page)) == page
