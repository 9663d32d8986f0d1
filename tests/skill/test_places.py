"""Which files agents read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.skill.document import documents, place_of


@pytest.mark.parametrize(
    ("path", "reader"),
    [
        ("AGENTS.md", "agents"),
        ("services/api/AGENTS.md", "agents"),
        ("CLAUDE.md", "Claude Code"),
        ("GEMINI.md", "Gemini CLI"),
        (".claude/skills/ledger/SKILL.md", "Claude Code"),
        ("plugins/x/.claude/skills/ledger/SKILL.md", "Claude Code"),
        (".github/skills/ledger/SKILL.md", "Copilot"),
        (".agents/skills/ledger/SKILL.md", "agents"),
        ("skills/ledger/SKILL.md", "agents"),
        ("SKILL.md", "agents"),
        (".github/copilot-instructions.md", "Copilot"),
        (".github/instructions/python.instructions.md", "Copilot"),
        (".cursor/rules/style.mdc", "Cursor"),
    ],
)
def test_an_agents_document_is_known_with_its_reader(path: str, reader: str) -> None:
    place = place_of(path)
    assert place is not None
    assert place.reader == reader


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "docs/agents.md",
        "skill.md",
        "AGENTS.md.bak",
        ".cursor/rules/deep/er/style.md",
        ".skillopt/ledger/SKILL.md",
    ],
)
def test_other_files_are_none(path: str) -> None:
    assert place_of(path) is None


@given(st.lists(st.sampled_from(["AGENTS.md", "a/SKILL.md", "x.md", "b/CLAUDE.md"])))
def test_each_document_is_listed_once_and_in_order(paths: list[str]) -> None:
    found = [path for path, _ in documents(paths)]
    assert found == sorted(set(paths) - {"x.md"})
