from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.agents import skill_files
from skillopt_ci.agents.cli_agents import AGENTS
from skillopt_ci.agents.skill_files import SkillFolder, read_skill_folder
from skillopt_ci.errors import SkillError

NAMED = "---\nname: tidy-logs\n---\n\n# Rules\n"
IN_FOLDER = SkillFolder("SKILL.md", "Some Folder")


@pytest.mark.parametrize(
    ("document", "agent", "skill_as", "place"),
    [
        ("SKILL.md", "claude-code", "auto", ".claude/skills/tidy-logs/SKILL.md"),
        ("AGENTS.md", "claude-code", "auto", "CLAUDE.md"),
        ("AGENTS.md", "codex", "auto", "AGENTS.md"),
        ("notes.md", "gemini", "auto", "GEMINI.md"),
        ("notes.md", "copilot", "skill", ".github/skills/tidy-logs/SKILL.md"),
        ("SKILL.md", "copilot", "agents", "AGENTS.md"),
        ("SKILL.md", "codex", "claude", "CLAUDE.md"),
        ("SKILL.md", "codex", "gemini", "GEMINI.md"),
        ("SKILL.md", "cursor", ".cursor/rules/{name}.mdc", ".cursor/rules/tidy-logs.mdc"),
        ("SKILL.md", "command", "auto", ".agents/skills/tidy-logs/SKILL.md"),
    ],
)
def test_the_place_is_where_the_agent_looks(document, agent, skill_as, place):
    facts = AGENTS[agent]
    folder = SkillFolder(document, "x")
    at = {"skills": facts.skills, "instructions": facts.instructions}
    assert folder.path_for(NAMED, skill_as, **at) == place


@pytest.mark.parametrize(
    ("skill", "name"),
    [
        (NAMED, "tidy-logs"),
        ('---\nname: "Quoted Name"\n---\n', "quoted-name"),
        ("# no front matter\n", "some-folder"),
        ("---\ndescription: d\n---\nname: not this\n", "some-folder"),
        ("---\nname: ../../etc\n---\n", "etc"),
        ("---\nname: '//'\n---\n", "skill"),
    ],
)
def test_the_name_is_that_of_the_front_matter_or_the_folder(skill, name):
    assert IN_FOLDER.skill_name(skill) == name


@given(st.text(max_size=200))
def test_a_name_is_always_one_harmless_part_of_a_path(text):
    name = IN_FOLDER.skill_name(f"---\nname: {text}\n---\n")
    assert name
    assert len(name) <= 64
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def _folder(root: Path) -> Path:
    document = root / "tidy" / "SKILL.md"
    (document.parent / "scripts").mkdir(parents=True)
    document.write_text(NAMED)
    (document.parent / "scripts" / "run.sh").write_text("#!/bin/sh\n")
    (document.parent / "scripts" / "run.sh").chmod(0o755)
    (document.parent / "notes.md").write_text("notes")
    (document.parent / ".hidden").write_text("no")
    (document.parent / "link").symlink_to("/etc/passwd")
    return document


def test_a_folder_is_read_without_hidden_files_and_links(tmp_path):
    folder = read_skill_folder(_folder(tmp_path))
    assert [(file.name, file.executable) for file in folder.files] == [
        ("notes.md", False),
        ("scripts/run.sh", True),
    ]
    assert folder.folder == "tidy"


def test_its_fingerprint_is_that_of_the_files_beside_the_skill(tmp_path):
    document = _folder(tmp_path)
    before = read_skill_folder(document).sha256
    document.write_text("another text")
    assert read_skill_folder(document).sha256 == before
    (document.parent / "notes.md").write_text("other notes")
    assert read_skill_folder(document).sha256 != before


def test_other_documents_stand_alone(tmp_path):
    document = _folder(tmp_path)
    other = document.rename(document.parent / "AGENTS.md")
    assert read_skill_folder(other).files == ()


def test_a_skill_at_the_top_of_a_repository_stands_alone(tmp_path):
    document = _folder(tmp_path)
    (document.parent / ".git").mkdir()
    assert read_skill_folder(document).files == ()


def test_a_folder_that_no_agent_could_read_is_refused(tmp_path, monkeypatch):
    document = _folder(tmp_path)
    monkeypatch.setattr(skill_files, "MOST_FILES", 2)
    with pytest.raises(SkillError, match="more than 2 files"):
        read_skill_folder(document)
