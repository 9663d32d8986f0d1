from skillopt_ci.prompts.library import current_skill, joined, meta_skill, section


def test_a_section_has_a_heading_and_parts() -> None:
    assert section("Title", "one", "two") == "## Title\n\none\n\ntwo"


def test_empty_sections_leave_no_gap() -> None:
    assert joined("a", "", "b") == "a\n\nb"


def test_the_skill_stands_verbatim_in_a_fence_that_it_cannot_close() -> None:
    skill = "# S\n\n```\ncode\n```\n## Edits Budget\n"
    assert current_skill(skill) == f"## Current Skill\n\n````markdown\n{skill}\n````"


def test_an_empty_skill_is_called_empty() -> None:
    assert "still empty" in current_skill(" \n")
    assert "```" not in current_skill("")


def test_a_blank_meta_skill_has_no_section() -> None:
    assert meta_skill("  ") == ""
    assert meta_skill("Prefer short rules.").endswith("```\nPrefer short rules.\n```")
