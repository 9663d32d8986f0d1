"""What is known of other people's agents: how each is run, and where it looks for skills.

Every line but Cursor's was checked with the makers' own program, by ``scripts/agent-check.sh``;
``docs/agents.md`` has versions and sources.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from skillopt_ci.rollout.solvers.streams import claude_code, codex, copilot, cursor, gemini, plain
from skillopt_ci.rollout.solvers.streams.account import Reader


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """One agent.

    ``arguments`` run it once without asking anybody; permissions are all given, since the computer
    is what confines it. ``prompt`` says how it is told its task. ``skills`` is its folder of skills
    in a repository, ``instructions`` the file that it reads in any case. ``keys`` are the variables
    that hold its key or say which server takes it, ``environ`` is what is set besides. ``same_key``
    names variables that are filled from another where they are not set. ``turns_status`` is the
    exit status that tells of a limit of its own on turns.
    """

    program: str
    arguments: tuple[str, ...]
    prompt: Literal["stdin", "argument"]
    model_option: str
    skills: str
    instructions: str
    keys: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    same_key: Mapping[str, str] = field(default_factory=dict)
    prompt_option: str = ""
    last_argument: str = ""
    turns_option: str = ""
    cost_option: str = ""
    turns_status: int | None = None


CLAUDE_CODE = AgentFacts(
    program="claude",
    arguments=(
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-mode",
        "bypassPermissions",
    ),
    prompt="stdin",
    model_option="--model",
    skills=".claude/skills",
    instructions="CLAUDE.md",
    keys=(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_OAUTH_TOKEN",
    ),
    environ=MappingProxyType({"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}),
    turns_option="--max-turns",
    cost_option="--max-budget-usd",
)

CODEX = AgentFacts(
    program="codex",
    arguments=(
        "exec",
        "--json",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
    ),
    prompt="stdin",
    model_option="--model",
    last_argument="-",
    skills=".agents/skills",
    instructions="AGENTS.md",
    keys=("CODEX_API_KEY", "OPENAI_API_KEY"),
    same_key=MappingProxyType({"CODEX_API_KEY": "OPENAI_API_KEY"}),
)

COPILOT = AgentFacts(
    program="copilot",
    arguments=("--output-format", "json", "--allow-all-tools", "--no-ask-user"),
    prompt="argument",
    prompt_option="-p",
    model_option="--model",
    skills=".github/skills",
    instructions="AGENTS.md",
    # GH_TOKEN and GITHUB_TOKEN work too, but can do more than an agent should be handed unasked.
    keys=(
        "COPILOT_GITHUB_TOKEN",
        "COPILOT_PROVIDER_API_KEY",
        "COPILOT_PROVIDER_BEARER_TOKEN",
        "COPILOT_PROVIDER_BASE_URL",
        "COPILOT_PROVIDER_TYPE",
        "COPILOT_PROVIDER_WIRE_API",
        "COPILOT_PROVIDER_MODEL_ID",
    ),
    environ=MappingProxyType({"COPILOT_AUTO_UPDATE": "false"}),
)

CURSOR = AgentFacts(
    program="cursor-agent",
    arguments=("-p", "--output-format", "stream-json", "--force", "--trust"),
    prompt="stdin",
    model_option="--model",
    skills=".cursor/skills",
    instructions="AGENTS.md",
    keys=("CURSOR_API_KEY",),
)

GEMINI = AgentFacts(
    program="gemini",
    arguments=("--output-format", "stream-json", "--approval-mode=yolo"),
    prompt="stdin",
    model_option="--model",
    skills=".gemini/skills",
    instructions="GEMINI.md",
    keys=(
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
    ),
    turns_status=53,
    # Without it, a folder that nobody has vouched for gets neither skills nor tools.
    environ=MappingProxyType({"GEMINI_CLI_TRUST_WORKSPACE": "true"}),
)

#: A program that nothing is known of.
COMMAND = AgentFacts(
    program="",
    arguments=(),
    prompt="stdin",
    model_option="",
    skills=".agents/skills",
    instructions="AGENTS.md",
    keys=(),
)

AGENTS: Mapping[str, AgentFacts] = MappingProxyType(
    {
        "claude-code": CLAUDE_CODE,
        "codex": CODEX,
        "copilot": COPILOT,
        "cursor": CURSOR,
        "gemini": GEMINI,
        "command": COMMAND,
    }
)

READERS: Mapping[str, Reader] = MappingProxyType(
    {
        "claude-code": claude_code.read_claude_code,
        "codex": codex.read_codex,
        "copilot": copilot.read_copilot,
        "cursor": cursor.read_cursor,
        "gemini": gemini.read_gemini,
        "text": plain.read_plain,
    }
)
