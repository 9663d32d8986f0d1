import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.skill.regions import APPENDIX, SLOW_UPDATE
from skillopt_ci.skill.validation import MAX_LINES, MAX_WORDS, SkillProblem, problems, unloadable

SKILL = Path("skills/pdf/SKILL.md")
AGENTS = Path("AGENTS.md")
UNPAIRED = f"# A\n{SLOW_UPDATE.start}\n{SLOW_UPDATE.end}\n\n{APPENDIX.end}\n"
ENTANGLED = f"{APPENDIX.start}x\n{SLOW_UPDATE.start}y{APPENDIX.end}z{SLOW_UPDATE.end}\n"
GOOD = "---\nname: pdf\ndescription: Reads PDF files.\n---\n\n# PDF\n"


def only(found: tuple[SkillProblem, ...]) -> SkillProblem:
    (problem,) = found
    return problem


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("---\nname: pdf\n", 1, "not properly closed"),
        ("---\ndescription: d\nname: PDF\n---\n", 1, "must be lowercase"),
        ("---\nname: pdf\ndescription: ''\n---\n", 1, "must be a non-empty string"),
        ("---\nname: pdf\n\tdescription: d\n---\n", 1, "Invalid YAML"),
        ("---\n- a\n---\n", 1, "must be a YAML mapping"),
        (GOOD.replace("pdf", "csv"), 1, "must match skill name"),
        (GOOD.replace("pdf", "p_f"), 1, "invalid characters"),
    ],
)
def test_what_breaks_the_skill_format_is_an_error(text, line, words):
    first, told = problems(text, SKILL)[0], unloadable(text, SKILL)
    assert (first.severity, first.line) == ("error", line)
    assert (words in first.message, words in told) == (True, True)
    assert not re.search(r"\.[.;]", told), told  # each reason is told without its full stop


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# PDF\n", "must start with YAML frontmatter"),
        ("---\nname: pdf\n---\n", "Missing required field in frontmatter: description"),
        ("---\ndescription: d\n---\n", "Missing required field in frontmatter: name"),
    ],
)
def test_what_is_not_there_yet_is_a_warning(text, words):
    problem = only(problems(text, SKILL))
    assert (problem.severity, problem.line) == ("warning", 1)
    assert words in problem.message
    told = unloadable(text, SKILL)
    assert told.startswith(f"Agents will skip {SKILL}: ")
    assert words in told


def test_a_byte_order_mark_is_named_and_what_follows_it_is_checked():
    told = unloadable("\ufeff" + GOOD, SKILL)
    assert "byte order mark" in told
    assert "begin with" not in told
    wrong = problems("\ufeff" + GOOD.replace("name: pdf", "name: PDF"), SKILL)
    assert "must be lowercase" in wrong[0].message


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (GOOD, SKILL),
        (GOOD.replace("---\n\n", "colour: red\n---\n\n"), SKILL),
        ("# Rules\n", AGENTS),
        ("", SKILL),
    ],
    ids=["sound", "a field beyond the standard", "no SKILL.md", "empty"],
)
def test_what_agents_load_is_not_warned_about(text, path):
    assert unloadable(text, path) == ""


TOOLS = "allowed-tools: [Read]\nname:"


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (" \n", SKILL, ""),
        (" \n", AGENTS, ""),
        (GOOD.replace("name:", "model: x\nname:"), SKILL, "model"),  # beyond the standard
        (GOOD.replace("name:", "name: x\nname:"), SKILL, "Duplicate key 'name'"),
        ("a\n" * (MAX_LINES + 1), AGENTS, "very long"),
        ("a " * (MAX_WORDS + 1), AGENTS, "very long"),
    ],
)
def test_what_agents_can_live_with_is_a_warning(text, path, words):
    problem = only(problems(text, path))
    assert problem.severity == "warning"
    assert words in problem.message
    assert "\n" not in problem.message


def test_yaml_that_only_the_strict_parser_disallows_is_fine_and_errors_beside_it_are_told():
    text = GOOD.replace("name: pdf", f"{TOOLS} PDF")
    assert {problem.severity for problem in problems(text, SKILL)} == {"error"}
    assert problems(GOOD.replace("name:", TOOLS), SKILL) == ()


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (
            UNPAIRED,
            5,
            "The marker `<!-- APPENDIX_END -->` has no matching `<!-- APPENDIX_START -->`.",
        ),
        (ENTANGLED, 2, "begins inside the one above it: separate them, or updates lose text."),
        ("a\n\ud800", 2, "The document holds bytes that are not UTF-8."),
    ],
)
def test_markers_that_do_not_match_and_broken_bytes_are_errors(text, line, told):
    problem = only(problems(text, AGENTS))
    assert (problem.severity, problem.line, told in problem.message) == ("error", line, True)


def test_invisible_characters_are_named_once_per_kind_and_after_errors():
    found = problems(f"\u200b\n{APPENDIX.end}\n", AGENTS)
    assert [problem.severity for problem in found] == ["error", "warning"]
    first, second = problems("a\n\u202eb\u200b\u200b\n", AGENTS)
    assert first.message == "The document holds an invisible U+202E (RIGHT-TO-LEFT OVERRIDE)."
    assert second.message.endswith("U+200B (ZERO WIDTH SPACE), 2 times.")
    assert (first.severity, first.line) == ("warning", 2)


@pytest.mark.parametrize("text", [GOOD, "# A\n", "\ta\r\n", "ا\u200cب", "👩\u200d💻", "é 日本 ß"])
def test_ordinary_writing_is_no_problem(text):
    assert problems(text, AGENTS) == ()
    assert problems(GOOD + text, SKILL) == problems(GOOD + text, Path("SKILL.md")) == ()


@given(st.text(alphabet=st.sampled_from("---\n: \t[]{}'\"nameé&*!|>#"), max_size=30))
def test_any_frontmatter_can_be_judged(source):
    assert problems(f"---\n{source}\n---\n", SKILL)


def test_the_reference_library_is_loaded_only_for_a_check():
    code = "import sys, skillopt_ci.skill.validation; sys.exit('skills_ref' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
