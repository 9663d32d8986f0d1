"""The `rollout` section: how the target works on a task, and where."""

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from skillopt_ci.config.base import Argument, Section
from skillopt_ci.config.models import Price

AgentTool = Literal["shell", "read", "write"]

#: The agents whose programs are known, see :mod:`skillopt_ci.agents.cli_agents`.
KnownAgent = Literal["claude-code", "codex", "copilot", "cursor", "gemini"]


class ChatConfig(Section):
    """One chat answer for each task."""

    type: Literal["chat"] = "chat"


class AgentConfig(Section):
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


class ExternalConfig(Section):
    """An agent with a program of its own, run on the task's computer for each attempt."""

    type: Literal["external"]
    agent: KnownAgent | Literal["command"]
    """Which agent; `command`: any other program."""
    command: tuple[Argument, ...] = ()
    """For a known agent, what is run in place of its program's bare name (`/opt/node/bin/claude`);
    the arguments it needs are added. For `agent: command`, program and all arguments: `{prompt}`
    and `{model}` are filled in, `{root}` is the configuration's folder. Never a shell line. The
    prompt is on standard input where no argument takes it."""
    model: str = ""
    """The model's name as the agent knows it; empty: the agent's own choice."""
    arguments: tuple[Argument, ...] = ()
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
    def _fits_the_agent(self) -> "ExternalConfig":
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


class ScriptedConfig(Section):
    """The same commands and answer for every task: for tests, and as a baseline.

    A task may bring its own as `metadata: {script: {commands: […], answer: …}}`.
    """

    type: Literal["scripted"]
    commands: tuple[Argument | tuple[Argument, ...], ...] = ()
    """Run one after the other on the task's computer; a plain text is a line for `sh -c`."""
    answer: str = ""
    """The response."""
    command_seconds: float = Field(default=120.0, gt=0)
    """A command that takes longer is killed; the next one is run."""


class HumanConfig(Section):
    """A person at this terminal: shown the task, types commands for its computer, submits."""

    type: Literal["human"]
    command_seconds: float = Field(default=600.0, gt=0)
    """A command that takes longer is killed."""


SolverConfig = Annotated[
    ChatConfig | AgentConfig | ExternalConfig | ScriptedConfig | HumanConfig,
    Field(discriminator="type"),
]


VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]

#: Folders of a computer that nothing of this machine may be put into, or take the place of.
_TAKEN = ("/dev", "/etc", "/home/agent", "/proc", "/sys", "/tmp", "/workspace")  # noqa: S108
_TAKEN_AS_A_WHOLE = (*_TAKEN, "/usr", "/bin", "/lib")


class ComputerConfig(Section):
    """The computers that agents work on: what confines them, and their limits."""

    type: Literal["sandbox", "docker", "unconfined"] = "sandbox"
    """`sandbox`: confined by Linux itself, with bubblewrap; `docker`: containers of a Docker
    engine; `unconfined`: a folder and nothing around it, for what you trust as yourself."""
    network: Literal["none", "open"] = "none"
    """`none`: nothing can be reached; `open`: all that this machine can reach."""
    image: str = ""
    """Image of the containers, for tasks that name none. `docker` only."""
    memory_mb: int = Field(default=1024, ge=32)
    """Memory of one computer, in MiB; its files come on top."""
    cpus: float = Field(default=1.0, ge=0.1)
    """Processors of one computer."""
    processes: int = Field(default=256, ge=16)
    """Most processes and threads at a time."""
    disk_mb: int = Field(default=1024, ge=4)
    """Space for files, in MiB. They are kept in memory."""
    environ: dict[VariableName, str] = Field(default_factory=dict)
    """Variables that commands see. Nothing of the surrounding environment is passed on."""
    readable: tuple[Path, ...] = ()
    """Files and folders of this machine that are there as well, read-only, at the same path."""

    @model_validator(mode="after")
    def _only_containers_have_images(self) -> "ComputerConfig":
        if self.image and self.type != "docker":
            raise ValueError(f"`image` is for `type: docker`; a computer of `{self.type}` has none")
        return self

    @field_validator("environ")
    @classmethod
    def _values_can_be_set(cls, environ: dict[str, str]) -> dict[str, str]:
        if any("\0" in value for value in environ.values()):
            raise ValueError("a variable cannot hold a zero byte")
        return environ

    @field_validator("readable")
    @classmethod
    def _leaves_the_computer_whole(cls, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        for path in paths:
            if not path.is_absolute() or ".." in path.parts:
                raise ValueError(f"{path} must be an absolute path without ..")
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
    """Limits of one task, in the place of those of `rollout.limits`."""

    setup_seconds: float | None = Field(default=None, gt=0)
    """Seconds to start the computer and set it up."""
    rollout_seconds: float | None = Field(default=None, gt=0)
    """Seconds of work."""
    grading_seconds: float | None = Field(default=None, gt=0)
    """Seconds for each command that grades."""
    steps: int | None = Field(default=None, gt=0)
    """Answers of the model."""
    tokens: int | None = Field(default=None, gt=0)
    """Prompt and completion tokens together."""
    cost_usd: float | None = Field(default=None, gt=0)
    """US dollars."""


class Submission(Section):
    """How a submission is looked at before the agent may end."""

    command: Command
    """Run on the agent's computer; exit status 0: there is a valid submission."""
    message: str = ""
    """What the agent is told if not; by default the end of what the command printed."""


class ComputerBlock(Section):
    """The `computer` block of a task."""

    files: Files = ()
    """Written to the workspace first: names with their text, or paths relative to the task file."""
    setup: tuple[Command, ...] = ()
    """Commands that prepare the workspace, each as a list; a plain text is run by `sh -c`."""
    network: Literal["none", "open"] | None = None
    """What the computer can reach; by default what `rollout.computer` says."""
    image: str | None = None
    """Docker image, in the place of that of `rollout.computer`."""
    environ: dict[str, str] = Field(default_factory=dict)
    """Variables set inside, besides those of `rollout.computer`."""
    submission: Submission | None = None
    """How to tell whether there is a valid submission."""
    artifacts: tuple[str, ...] = ("**",)
    """What of the workspace is kept and handed to the grader, as paths and globs."""
    limits: LimitChanges | None = None
    """Limits of this task."""

    def over(self, common: "ComputerBlock | None") -> "ComputerBlock":
        """This block, with what it does not name taken from ``common``; files aside."""
        if common is None:
            return self
        given = {name: getattr(self, name) for name in self.model_fields_set}
        merged = common.model_copy(update=given)
        return merged.model_copy(update={"environ": {**common.environ, **self.environ}})


class AttemptLimits(Section):
    """What one attempt at one task may take. A limit ends the work, which is graded all the same.

    A plain chat answer is one call: `model.target` says how long that may take.
    """

    setup_seconds: float = Field(default=300.0, gt=0)
    """Seconds to start the task's computer and set it up."""
    rollout_seconds: float = Field(default=1800.0, gt=0)
    """Seconds of work. Waiting for a server that is busy or down does not count."""
    grading_seconds: float = Field(default=300.0, gt=0)
    """Seconds for each command that grades."""
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
    """Attempts are sent to a Ray cluster; needs the extra `skillopt-ci[ray]` and the cache."""

    type: Literal["ray"]
    address: str = "auto"
    """The cluster: `auto` finds the one that this machine is part of, `local` starts one of this
    machine alone, `ray://host:port` connects from outside."""
    cpus: float = Field(default=1.0, gt=0)
    """Cores that the cluster sets apart for each attempt. Chat answers mostly wait: 0.1 will do."""
    restarts: int = Field(default=2, ge=0)
    """How often the cluster restarts an attempt whose worker died, before it is made here."""


ExecutorConfig = Annotated[LocalExecutor | RayExecutor, Field(discriminator="type")]


class RolloutConfig(Section):
    """How the target works on tasks. The default is one chat answer for each."""

    solver: SolverConfig = ChatConfig()
    """Who works: a chat answer, an agent with tools, a program of its own."""
    computer: ComputerConfig | None = None
    """Where agents work and their work is graded; null: tasks need no computer."""
    task: ComputerBlock | None = None
    """What stands in the `computer` block of every task that does not say otherwise; `files` as
    paths start at the folder of the configuration."""
    attempts: int = Field(default=1, gt=0)
    """Independent attempts at each task; its score is their mean."""
    nudges: int = Field(default=0, ge=0)
    """How often an agent without a valid submission is told to go on."""
    grade_every_step: bool = False
    """Grade the work after every tool use as well, so that its course can be seen."""
    retries: int = Field(default=2, ge=0)
    """Further tries of an attempt that infrastructure spoilt, with growing pauses."""
    limits: AttemptLimits = AttemptLimits()
    executor: ExecutorConfig = LocalExecutor()
    """Where attempts are run."""
    programs_can_read_secrets: bool = False
    """Run scorers' programs, environments and `unconfined` computers with all our rights: what a
    model steers there can read keys, the token and the Docker socket. Otherwise they are confined
    where that is possible, and elsewhere no pull request is evaluated."""
    events: bool = True
    """Record what happens in each attempt, inside the repository's `.git`, for `trace`."""
