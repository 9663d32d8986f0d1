"""The `rollout.solver` section: who works on tasks."""

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from skillopt_ci.settings.base import Section
from skillopt_ci.settings.model import Price

AgentTool = Literal["shell", "read", "write"]

#: The agents whose programs are known, see :mod:`skillopt_ci.rollout.solvers.agents`.
KnownAgent = Literal["claude-code", "codex", "copilot", "cursor", "gemini"]


class ChatSettings(Section):
    """One chat answer for each task."""

    type: Literal["chat"] = "chat"


class AgentSettings(Section):
    """The built-in agent: `model.target` with tools, on the task's computer.

    Its system prompt is the file `agent.md`, which a file of that name in the folder `prompts`
    replaces.
    """

    type: Literal["agent"]
    tools: tuple[AgentTool, ...] = Field(default=("shell", "read", "write"), min_length=1)
    """What it may use besides `submit`."""
    output_bytes: int = Field(default=16_000, ge=200)
    """A longer result of a tool keeps its head and tail."""
    command_seconds: float = Field(default=120.0, gt=0)
    """A command that takes longer is killed, and the agent is told so."""
    reminders: int = Field(default=1, ge=0)
    """How often an answer that uses no tool is met with a reminder before it counts as the end."""

    @field_validator("tools")
    @classmethod
    def _each_once(cls, value: tuple[AgentTool, ...]) -> tuple[AgentTool, ...]:
        if len(set(value)) < len(value):
            raise ValueError("each tool may be named once")
        return value


class ExternalSettings(Section):
    """An agent with a program of its own, run on the task's computer for each attempt."""

    type: Literal["external"]
    agent: KnownAgent | Literal["command"]
    """Which agent; `command`: any other program."""
    command: tuple[str, ...] = ()
    """For a known agent, what is run in place of its program's bare name (`/opt/node/bin/claude`);
    the arguments it needs are added. For `agent: command`, program and all arguments: `{prompt}`
    and `{model}` are filled in, `{root}` is the configuration's folder. Never a shell line. The
    prompt is on standard input where no argument takes it."""
    model: str = ""
    """The model's name as the agent knows it; empty: the agent's own choice."""
    arguments: tuple[str, ...] = ()
    """Further arguments for a known agent."""
    env: tuple[str, ...] | None = None
    """Names of our environment variables that the agent may see; absent: those that hold the known
    agent's own key. They are not hidden from the commands that the agent runs."""
    skill_as: str = Field(default="auto", min_length=1)
    """Where the skill is put. `skill`: the agent's folder of skills; `agents`, `claude`, `gemini`:
    the file `AGENTS.md`, `CLAUDE.md` or `GEMINI.md`; otherwise a path in the workspace, with
    `{name}` for the skill's name. `auto`: a `SKILL.md` among the agent's skills, anything else as
    the file of instructions that the agent always reads."""
    output: KnownAgent | Literal["auto", "text"] = "auto"
    """Which agent's stream of events the command writes, or `text`: standard output is the answer.
    `auto`: the known agent's own, for a command `text`."""
    price: Price | None = None
    """For agents that report tokens and no cost."""

    @model_validator(mode="after")
    def _fits_the_agent(self) -> "ExternalSettings":
        if self.agent == "command":
            if not self.command:
                raise ValueError("`agent: command` needs `command`, a program with its arguments")
            if self.arguments:
                raise ValueError("`arguments` are for a known agent; write them into `command`")
        return self

    @field_validator("skill_as")
    @classmethod
    def _inside_the_workspace(cls, value: str) -> str:
        if value.startswith("/") or ".." in value.split("/"):
            raise ValueError("expected a path inside the workspace")
        return value


class ScriptedSettings(Section):
    """The same commands and answer for every task: for tests, and as a baseline.

    A task may bring its own as `metadata: {script: {commands: […], answer: …}}`.
    """

    type: Literal["scripted"]
    commands: tuple[str | tuple[str, ...], ...] = ()
    """Run one after the other on the task's computer; a plain text is a line for `sh -c`."""
    answer: str = ""
    """The response."""
    command_seconds: float = Field(default=120.0, gt=0)
    """A command that takes longer is killed; the next one is run."""


class HumanSettings(Section):
    """A person at this terminal: shown the task, types commands for its computer, submits."""

    type: Literal["human"]
    command_seconds: float = Field(default=600.0, gt=0)
    """A command that takes longer is killed."""


SolverSettings = Annotated[
    ChatSettings | AgentSettings | ExternalSettings | ScriptedSettings | HumanSettings,
    Field(discriminator="type"),
]
