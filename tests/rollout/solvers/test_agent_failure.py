from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.agents import skill_files
from skillopt_ci.agents.cli_agents import AGENTS, agent_failure
from skillopt_ci.agents.skill_files import SkillFolder, read_skill_folder
from skillopt_ci.errors import ModelSetupError, SkillError
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable
from skillopt_ci.rollout.types import AgentError

BUSY = [
    "You exceeded your current quota, please check your plan",
    *("API Error: 529 {'type':'overloaded_error'}", "stream disconnected before completion"),
    *("API Error: Request timed out.", "API Error: 520", "TypeError: socket hang up"),
    *("Stream idle timeout - partial response received", "Connection closed mid-response"),
    *("The socket connection was closed unexpectedly.", "Connection failed: error sending request"),
    *("Unable to connect to API (ConnectionRefused)", "Selected model is at capacity."),
    *("The response stopped arriving.", "request to x failed, reason: connect ECONNREFUSED"),
    *("Claude AI usage limit reached|1750000000", "You're out of extra usage · resets 10am (UTC)"),
    *("You have hit your limit · resets 2am", "You've hit your session limit · resets 3:45pm"),
    *("5-hour limit reached · resets 8pm", "API Error: Response stalled mid-stream."),
    *("getaddrinfo EAI_AGAIN x.com", "Your workspace is out of credits.", "Weekly limit reached"),
    *("You hit your spend cap set in your workspace.", "You've reached your Fable limit"),
    *("You've hit your team's pooled group budget.", "Flex capacity unavailable."),
    "403: Your resource has been temporarily blocked: it may violate our content policy.",
    "We’re currently experiencing high demand, which may cause temporary errors.",
    "exceeded retry limit, last status: 429 Too Many Requests",
    "Failed to get response from the AI model; retried 5 times Last error: 500 boom",
    *("API returned an empty or malformed response", "API Error: Unterminated string in JSON at 1"),
    *("API Error: Incomplete JSON segment at the end", "API Error: Unexpected token in JSON at 0"),
]
NO_KEY = [
    *("Please set an Auth method in your settings.json", "Incorrect API key provided: sk-x"),
    *("Invalid API key · Please run /login", "Error: No authentication information found."),
    "Failed to authenticate. API Error: 403 Your key may not use this model (HTTP status 403)",
    "Authentication failed with provider at http://x/v1 (HTTP 401). Check your key.",
    *("Invalid auth method selected.", "unexpected status 401 Unauthorized", "API key not valid."),
    *("API key expired. Please renew the API key.", "Please log out and sign in again."),
    *("402 Insufficient Balance", "Your ANTHROPIC_API_KEY belongs to a disabled organization"),
]
WRONG_SETTING = [
    "There's an issue with the selected model (m). It may not exist or you may not have access.",
    "Model 'm' not found on provider at http://x/v1 (HTTP 404).",
    "The 'm' model is not supported when using Codex with a ChatGPT account.",
    *('Model "m" from --model flag is not available.', "Cannot use this model: m. Available: x"),
    "error: unexpected argument '--x' found",
    "--dangerously-skip-permissions cannot be used with root/sudo privileges",
]
REFUSED = [
    "Prompt is too long · the request is ~300000 tokens (limit 200000)",
    "Your input exceeds the context window of this model.",
    *("invalid_prompt: this may violate our rules", "This violates our content policy."),
    "This content was flagged for possible cybersecurity risk. To get authorized, join it.",
    "API Error: Opus 5's safeguards flagged this message (https://www.anthropic.com/legal/aup).",
]


@pytest.mark.parametrize("told", BUSY)
def test_a_server_in_trouble_is_no_failure_of_the_agent(told):
    failure = agent_failure("codex", "codex", 1, told, worked=True, keys=("A_KEY",))
    assert isinstance(failure, ModelUnavailable)


PROSE = ["12,402 tokens", "1,520 or 529.3 s", "I hit your step limit", "It stopped arriving"]
CODE = ["line 402, line 404", "at run (x.js:402:15)", "at x.js:15:401", "x.js:404:9", "x.js:9:503"]


@pytest.mark.parametrize("told", ["you hit your turn cap: line 503", *PROSE, *CODE])
def test_neither_prose_nor_a_line_of_code_or_a_part_of_a_number_is_a_servers_failure(told):
    for worked in (True, False):
        assert isinstance(agent_failure("command", "agent", 1, told, worked=worked), AgentError)


@pytest.mark.parametrize("told", [*NO_KEY, *WRONG_SETTING])
def test_a_missing_key_or_a_setting_that_cannot_work_stops_the_run(told):
    assert isinstance(agent_failure("codex", "codex", 1, told, worked=False), ModelSetupError)
    # but not once the agent has worked
    assert isinstance(agent_failure("codex", "codex", 1, told, worked=True), AgentError)


@pytest.mark.parametrize("told", REFUSED)
def test_a_prompt_that_the_server_refuses_is_the_tasks_outcome(told):
    assert isinstance(agent_failure("codex", "codex", 1, told, worked=False), ModelRefusal)
    assert isinstance(agent_failure("codex", "codex", 1, told, worked=True), AgentError)


@pytest.mark.parametrize("status", [126, 127])
def test_a_program_that_cannot_be_run_stops_the_run(status):
    assert isinstance(agent_failure("a", "/x/a", status, "", worked=False), ModelSetupError)
    assert isinstance(agent_failure("a", "/x/a", status, "", worked=True), AgentError)


def test_only_the_end_of_a_long_message_is_told_on_one_line():
    said = str(agent_failure("a", "a", 1, "x\n" * 5000 + "the end", worked=True))
    assert (said.endswith("x x the end"), len(said) < 600) == (True, True)


@pytest.mark.parametrize(
    ("told", "raised"),
    [
        ("stream disconnected before completion", ModelSetupError),
        ("its time was over", ModelSetupError),
        ("429 Too Many Requests", ModelUnavailable),
        ("connect ECONNREFUSED", ModelUnavailable),
    ],
)
def test_an_agent_without_a_key_that_never_answered_is_set_up_wrong(told, raised):
    how: Any = {"worked": False, "silent": True, "keys": ("A_KEY", "B_KEY")}
    failure = agent_failure("codex", "codex", 1, told, **how)
    assert type(failure) is raised
    assert ("none of A_KEY, B_KEY is set" in str(failure)) is (raised is ModelSetupError)


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
    facts, folder = AGENTS[agent], SkillFolder(document, "x")
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
    assert 0 < len(name) <= 64
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
    files = [(file.name, file.executable) for file in folder.files]
    assert files == [("notes.md", False), ("scripts/run.sh", True)]
    assert folder.folder == "tidy"


def test_its_fingerprint_is_that_of_the_files_beside_the_skill(tmp_path):
    document = _folder(tmp_path)
    (document.parent / "\udcff").write_text("a name that is no text")
    before = read_skill_folder(document).sha256
    document.write_text("another text")
    assert read_skill_folder(document).sha256 == before
    (document.parent / "notes.md").write_text("other notes")
    assert read_skill_folder(document).sha256 != before


def test_a_skill_at_the_top_of_a_repository_stands_alone(tmp_path):
    document = _folder(tmp_path)
    (document.parent / ".git").mkdir()
    assert read_skill_folder(document).files == ()
    (document.parent / ".git").rmdir()
    other = document.rename(document.parent / "AGENTS.md")
    assert read_skill_folder(other).files == ()  # as do other documents


def test_a_folder_that_no_agent_could_read_is_refused(tmp_path, monkeypatch):
    document = _folder(tmp_path)
    monkeypatch.setattr(skill_files, "MOST_FILES", 2)
    assert len(read_skill_folder(document).files) == 2
    monkeypatch.setattr(skill_files, "MOST_FILES", 1)
    with pytest.raises(SkillError, match="more than 1 files"):
        read_skill_folder(document)
