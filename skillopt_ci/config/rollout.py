"""The `rollout` section: how the target works on a task, and where."""

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from skillopt_ci.config.base import Argument, PathInside, Section
from skillopt_ci.config.models import Price

AgentTool = Literal["shell", "read", "write"]

#: The agents whose programs are known, see :mod:`skillopt_ci.agents.cli_agents`.
KnownAgent = Literal["claude-code", "codex", "copilot", "cursor", "gemini"]


class ChatConfig(Section):
    """One chat answer for each task."""

    type: Literal["chat"] = "chat"


class AgentConfig(Section):
    """The built-in agent: `model.target` with tools, on the task's computer.

    A file `agent.md` in the folder `prompts` replaces its system prompt.
    """

    type: Literal["agent"]
    tools: tuple[AgentTool, ...] = Field(default=("shell", "read", "write"), min_length=1)
    """The tools it has besides `submit`."""
    output_bytes: int = Field(default=16_000, ge=200)
    """Longer tool results are cut to their head and tail."""
    command_seconds: float = Field(default=120.0, gt=0)
    """Longer commands are killed, and the agent sees that."""
    reminders: int = Field(default=1, ge=0)
    """Reminders after answers without a tool call; the next such answer is the submission."""

    @field_validator("tools")
    @classmethod
    def _each_once(cls, value: tuple[AgentTool, ...]) -> tuple[AgentTool, ...]:
        if len(set(value)) < len(value):
            raise ValueError("each tool may be named once")
        return value


class ExternalConfig(Section):
    """Another agent's program, run on the task's computer for each attempt."""

    type: Literal["external"]
    agent: KnownAgent | Literal["command"]
    """A known agent, or `command`: any other program."""
    command: tuple[Argument, ...] = ()
    """For a known agent, its program if not on PATH (`/opt/node/bin/claude`); the arguments it
    needs are added. For `agent: command`, program and arguments: `{prompt}`, `{model}` and
    `{root}` (the configuration's folder) are filled in. Run without a shell. If no argument takes
    the prompt, it is on standard input."""
    model: str = ""
    """The model, as the agent calls it; empty: the agent's default."""
    arguments: tuple[Argument, ...] = ()
    """Further arguments for a known agent."""
    env: tuple[str, ...] | None = None
    """Environment variables the agent may see; null: those with the known agent's own key. Commands
    that the agent runs can read them, too."""
    skill_as: PathInside = "auto"
    """Where to put the skill. `skill`: the agent's folder of skills; `agents`, `claude`, `gemini`:
    the file `AGENTS.md`, `CLAUDE.md` or `GEMINI.md`; otherwise a path in the workspace, with
    `{name}` for the skill's name. `auto`: a `SKILL.md` becomes one of the agent's skills, anything
    else the instruction file that the agent always reads."""
    output: KnownAgent | Literal["auto", "text"] = "auto"
    """The agent whose event stream the program writes, or `text`: standard output is the answer.
    `auto`: the known agent's own; for a command, `text`."""
    price: Price | None = None
    """For agents that report tokens but no cost."""

    @model_validator(mode="after")
    def _fits_the_agent(self) -> "ExternalConfig":
        if self.agent == "command":
            if not self.command:
                raise ValueError("`agent: command` needs `command`, a program with its arguments")
            if self.arguments:
                raise ValueError("`arguments` are for a known agent; write them into `command`")
        return self

    @property
    def format(self) -> KnownAgent | Literal["text"]:
        """What ``output`` comes to."""
        own: KnownAgent | Literal["text"] = "text" if self.agent == "command" else self.agent
        return own if self.output == "auto" else self.output


class ScriptedConfig(Section):
    """The same commands and answer for every task: for tests, and as a baseline.

    A task may bring its own as `metadata: {script: {commands: […], answer: …}}`.
    """

    type: Literal["scripted"]
    commands: tuple[Argument | tuple[Argument, ...], ...] = ()
    """Run one after the other on the task's computer, each a list or a text for `sh -c`."""
    answer: str = ""
    """The response."""
    command_seconds: float = Field(default=120.0, gt=0)
    """Longer commands are killed, and the next one runs."""


class HumanConfig(Section):
    """A person at this terminal, who sees the task, types commands for its computer and submits."""

    type: Literal["human"]
    command_seconds: float = Field(default=600.0, gt=0)
    """Longer commands are killed."""


SolverConfig = Annotated[
    ChatConfig | AgentConfig | ExternalConfig | ScriptedConfig | HumanConfig,
    Field(discriminator="type"),
]

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]

#: Folders of a computer that nothing of this machine may be put into, or take the place of.
_TAKEN = ("/dev", "/etc", "/home/agent", "/proc", "/sys", "/tmp", "/workspace")  # noqa: S108
_TAKEN_AS_A_WHOLE = (*_TAKEN, "/usr", "/bin", "/lib")


class ComputerConfig(Section):
    """The computers that agents work on, and their limits."""

    type: Literal["sandbox", "docker", "unconfined"] = "sandbox"
    """`sandbox`: Linux namespaces, through bubblewrap; `docker`: containers; `unconfined`: just a
    folder, only for agents that you trust like yourself."""
    network: Literal["none", "open"] = "none"
    """`none`: no network; `open`: everything this machine can reach."""
    image: Argument = ""
    """With `docker`: the image, for tasks that name none."""
    memory_mb: int = Field(default=1024, ge=32)
    """Memory of one computer, in MiB, not counting its files."""
    cpus: float = Field(default=1.0, ge=0.1)
    """Processors of one computer."""
    processes: int = Field(default=256, ge=16)
    """Maximum concurrent processes and threads."""
    disk_mb: int = Field(default=1024, ge=4)
    """Space for files, in MiB. Files are kept in memory."""
    environ: dict[VariableName, Argument] = Field(default_factory=dict)
    """Environment variables of its commands. None of this machine's are passed on."""
    readable: tuple[Path, ...] = ()
    """Files and folders of this machine that it can read, at the same path."""

    @model_validator(mode="after")
    def _only_containers_have_images(self) -> "ComputerConfig":
        if self.image and self.type != "docker":
            raise ValueError(f"`image` is for `type: docker`; a computer of `{self.type}` has none")
        return self

    @field_validator("readable")
    @classmethod
    def _leaves_the_computer_whole(cls, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        for path in paths:
            if not path.is_absolute() or ".." in path.parts or "\0" in str(path):
                raise ValueError(f"{path} must be an absolute path without .. or zero bytes")
            hides = any(PurePosixPath(taken).is_relative_to(path) for taken in _TAKEN_AS_A_WHOLE)
            if hides or any(path.is_relative_to(taken) for taken in _TAKEN):
                raise ValueError(f"{path} would take the place of the computer's own files")
        return paths


def _argv(value: object) -> object:
    # From here on even JSON is Python to pydantic, to which no list is a tuple in strict mode.
    if isinstance(value, list):
        return tuple(value)
    return ("sh", "-c", value) if isinstance(value, str) else value


def as_files(value: object) -> dict[str, str] | tuple[str, ...]:
    """A list of paths, or a mapping from names to their text; raises ValueError."""
    match value:
        case dict() if all(isinstance(text, str) for text in value.values()):
            return value
        case list() | tuple() if all(isinstance(name, str) for name in value):
            return tuple(value)
    raise ValueError("expected a list of paths, or a mapping from names to their text")


#: Program and arguments; a plain text is a line for `sh -c`.
Command = Annotated[tuple[Argument, ...], Field(min_length=1), BeforeValidator(_argv)]
Files = Annotated[dict[str, str] | tuple[str, ...], BeforeValidator(as_files)]


class LimitChanges(Section):
    """Limits of one task. Others are those in `rollout.task.limits`, then `rollout.limits`."""

    setup_seconds: float | None = Field(default=None, gt=0)
    """Seconds to start the computer and set it up."""
    rollout_seconds: float | None = Field(default=None, gt=0)
    """Seconds of work."""
    grading_seconds: float | None = Field(default=None, gt=0)
    """Seconds for each grading command."""
    steps: int | None = Field(default=None, gt=0)
    """Answers of the model."""
    tokens: int | None = Field(default=None, gt=0)
    """Prompt and completion tokens together."""
    cost_usd: float | None = Field(default=None, gt=0)
    """US dollars."""


class Submission(Section):
    """How to check a submission before the agent may end."""

    command: Command
    """Run on the agent's computer; exit status 0: the submission is valid."""
    message: str = ""
    """What the agent sees if it is not; empty: the end of the command's output."""


class ComputerBlock(Section):
    """The `computer` block of a task."""

    files: Files = ()
    """Initial files of the workspace: names and texts, or paths relative to the task file. Those
    that begin with `#!` are executable."""
    setup: tuple[Command, ...] = ()
    """Commands that prepare the workspace, each a list or a text for `sh -c`."""
    network: Literal["none", "open"] | None = None
    """As in `rollout.computer`, which is the default."""
    image: Argument | None = None
    """Docker image, instead of the one in `rollout.computer`."""
    environ: dict[VariableName, Argument] = Field(default_factory=dict)
    """Environment variables, in addition to those in `rollout.computer`."""
    submission: Submission | None = None
    """How to check a submission. Not for external agents, whose work is graded as it is."""
    artifacts: tuple[PathInside, ...] = ("**",)
    """Files of the workspace to keep and grade, as paths and globs. If they come to more than
    100 MB, files of the set-up included, the attempt scores 0: leave out what is large."""
    limits: LimitChanges | None = None
    """Limits of this task."""

    def over(self, common: "ComputerBlock") -> "ComputerBlock":
        """This block, with what it does not name taken from ``common``; files aside."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        given["environ"] = {**common.environ, **self.environ}
        if self.limits is not None and common.limits is not None:
            changes = self.limits.model_dump(exclude_none=True)
            given["limits"] = common.limits.model_copy(update=changes)
        return common.model_copy(update=given)


class AttemptLimits(Section):
    """Limits of one attempt at a task. At a limit the work ends, and is graded as it is.

    A chat answer is one call; `model.target` limits that.
    """

    setup_seconds: float = Field(default=300.0, gt=0)
    """Seconds to start the task's computer and set it up."""
    rollout_seconds: float = Field(default=1800.0, gt=0)
    """Seconds of work. Waiting for a busy or failing server does not count."""
    grading_seconds: float = Field(default=300.0, gt=0)
    """Seconds for each grading command."""
    steps: int | None = Field(default=50, gt=0)
    """Answers of the model; null: no limit."""
    tokens: int | None = Field(default=None, gt=0)
    """Prompt and completion tokens together; null: no limit."""
    cost_usd: float | None = Field(default=None, gt=0)
    """US dollars, as far as prices are known; null: no limit."""

    def changed(self, changes: LimitChanges | None) -> "AttemptLimits":
        given = {} if changes is None else changes.model_dump(exclude_none=True)
        return self.model_copy(update=given)


class LocalExecutor(Section):
    """Attempts run in this process."""

    type: Literal["local"] = "local"


class RayExecutor(Section):
    """Attempts run on a Ray cluster; needs the extra `skillopt-ci[ray]` and the cache."""

    type: Literal["ray"]
    address: str = "auto"
    """`auto`: the cluster this machine belongs to; `local`: start one on this machine;
    `ray://host:port`: connect from outside."""
    cpus: float = Field(default=1.0, gt=0)
    """Cores to reserve for each attempt. 0.1 is enough for chat answers, which mostly wait."""
    restarts: int = Field(default=2, ge=0)
    """How often the cluster restarts an attempt whose worker died, before this machine runs it."""


ExecutorConfig = Annotated[LocalExecutor | RayExecutor, Field(discriminator="type")]


class RolloutConfig(Section):
    """How the target works on tasks. The default is one chat answer per task."""

    solver: SolverConfig = ChatConfig()
    """Who works on a task: a chat model, an agent, another program, a script or a person."""
    computer: ComputerConfig | None = None
    """Where agents work and their work is graded; null: tasks need no computer."""
    task: ComputerBlock | None = None
    """Defaults for the `computer` block of every task; paths in `files` are relative to the
    configuration's folder."""
    attempts: int = Field(default=1, gt=0)
    """Independent attempts per task; the task's score is their mean."""
    nudges: int = Field(default=0, ge=0)
    """How often `agent` or `human` may continue after an invalid submission. Not for `external`."""
    grade_every_step: bool = False
    """Also grade the work after every tool call (`chat` makes none), to see its progress. Not for
    external agents, nor by a scorer with `same_computer`, whose files the agent would see."""
    retries: int = Field(default=2, ge=0)
    """Retries of an attempt after an infrastructure error, with growing pauses."""
    limits: AttemptLimits = AttemptLimits()
    executor: ExecutorConfig = LocalExecutor()
    """Where attempts run."""
    programs_can_read_secrets: bool = False
    """Run scorers' programs, environments and `unconfined` computers with all our permissions: code
    that a model controls can then read keys, the token and the Docker socket. Otherwise they are
    confined; where that is impossible, pull requests are not evaluated."""
    events: bool = True
    """Record each attempt's events in the repository's `.git`, for `trace` and the report."""

    @model_validator(mode="after")
    def _steps_are_seen(self) -> "RolloutConfig":
        if self.solver.type == "external" and (self.grade_every_step or self.nudges):
            raise ValueError(
                "`grade_every_step`, `nudges`: an external agent is seen only when it has ended"
            )
        return self
