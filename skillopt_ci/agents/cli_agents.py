"""Other people's agents: the skill installed where they look, their program run on the computer."""

import hashlib
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Literal

from skillopt_ci.agents import streams
from skillopt_ci.agents.streams import AgentTranscript, Reader
from skillopt_ci.computer.computer import CommandResult, Computer, FileRefused
from skillopt_ci.config.rollout import AttemptLimits, ExternalConfig
from skillopt_ci.errors import ModelSetupError, SkillError, UsageError
from skillopt_ci.messages import Message, fenced
from skillopt_ci.model.budget import cost_usd
from skillopt_ci.model.keys import redact, secret_values
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable, Usage
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.limits import LimitReached, LimitTracker
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.types import AgentError, Asked, Attempt, Limit, ModelSaid, Step, Told
from skillopt_ci.skill.document import body, frontmatter
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import Task

# What is known of other people's agents: how each is run, and where it looks for skills.


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
        "claude-code": streams.read_claude_code,
        "codex": streams.read_codex,
        "copilot": streams.read_copilot,
        "cursor": streams.read_cursor,
        "gemini": streams.read_gemini,
        "text": streams.read_plain,
    }
)


# The command line that runs an agent on one task, and the variables that it sees.

#: The kernel refuses a longer single argument (Linux: 32 pages of 4 KiB).
MOST_ARGUMENT_BYTES = 131_000

_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """Arguments and standard input of one run."""

    arguments: tuple[str, ...]
    stdin: str = ""


def agent_command(
    facts: AgentFacts, settings: ExternalConfig, root: Path, prompt: str, limits: AttemptLimits
) -> AgentCommand:
    """Return how the agent is told ``prompt``; limits that it knows itself are handed on."""
    if settings.agent == "command":
        return _own_command(settings, root, prompt)
    started = settings.command or (facts.program,)
    options = (
        *_option(facts.model_option, settings.model),
        *_option(facts.turns_option, limits.steps),
        *_option(facts.cost_option, limits.cost_usd),
    )
    arguments = (*_placed(started, root), *facts.arguments, *options, *settings.arguments)
    if facts.prompt == "argument":
        return AgentCommand((*arguments, *filter(None, [facts.prompt_option]), prompt))
    return AgentCommand((*arguments, *filter(None, [facts.last_argument])), prompt)


def agent_program(facts: AgentFacts, settings: ExternalConfig, root: Path) -> str:
    """Return the program that is started."""
    return _placed(settings.command, root)[0] if settings.command else facts.program


def agent_environ(
    facts: AgentFacts, settings: ExternalConfig, root: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that the agent sees besides those of its computer.

    A program that is named by its full path finds its neighbours: `node` beside `claude`.
    """
    names = visible_names(facts, settings)
    passed_on = {name: environ[name] for name in names if environ.get(name)}
    for name, other in facts.same_key.items():
        if other in passed_on:
            passed_on.setdefault(name, passed_on[other])
    started = agent_program(facts, settings, root)
    folder = str(PurePosixPath(started).parent)
    path = {"PATH": f"{folder}:{_USUAL_PATH}"} if started.startswith("/") else {}
    return {**path, **facts.environ, **passed_on}


def visible_names(facts: AgentFacts, settings: ExternalConfig) -> tuple[str, ...]:
    """Return the names of our variables that the agent may see."""
    return facts.keys if settings.env is None else settings.env


def _own_command(settings: ExternalConfig, root: Path, prompt: str) -> AgentCommand:
    filled = tuple(
        # The prompt last: nothing inside it is a placeholder.
        part.replace("{model}", settings.model).replace("{prompt}", prompt)
        for part in _placed(settings.command, root)
    )
    takes_prompt = any("{prompt}" in part for part in settings.command)
    return AgentCommand(filled, "" if takes_prompt else prompt)


def _placed(command: tuple[str, ...], root: Path) -> tuple[str, ...]:
    return tuple(part.replace("{root}", str(root)) for part in command)


def _option(name: str, value: object) -> tuple[str, ...]:
    return (name, str(value)) if name and value not in (None, "") else ()


# What an agent's program that failed means: set up wrong, a server in trouble, or the agent.

_CANNOT_RUN = (126, 127)
_SHOWN = 500

_BAD_KEY = re.compile(
    r"invalid (?:x-)?api[ -]?key|incorrect api key|api key (?:is )?(?:not valid|missing|required)"
    r"|authentication[_ ](?:error|failed|required)|not (?:logged|signed) in|(?:run|use) /login"
    r"|no authentication information|\b40[13]\b|unauthori[sz]ed|failed to authenticate"
    r"|(?:set an|invalid) auth method",
    re.IGNORECASE,
)
_BUSY = re.compile(
    r"rate[ _-]?limit|too many requests|overloaded|\b(?:429|500|502|503|504|529)\b"
    r"|service unavailable|resource[_ ]exhausted|quota|usage limit|(?:internal )?server[ _]error"
    r"|econnre(?:set|fused)|etimedout|enotfound|eai_again|connection (?:error|reset|refused)"
    r"|stream disconnected|network error|fetch failed|high demand|temporary error",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"(?:prompt|input|context)\b.{0,60}\b(?:too long|exceed\w*|maximum)"
    r"|context[ _](?:length|window)|content[ _](?:filter|policy)|usage polic|invalid_prompt",
    re.IGNORECASE,
)
_WRONG_SETTING = re.compile(
    r"\b404\b|\bmodels?\b.{0,80}\bnot (?:found|exist)|unknown (?:option|arguments?)\b"
    r"|unexpected argument|root/sudo privileges",
    re.IGNORECASE,
)
_WAITING = re.compile(r"Attempt \d+ failed(?: with status \d+)?\.[^\n]*")


def agent_failure(
    agent: str, program: str, status: int, told: str, *, worked: bool, silent: bool = False
) -> Exception:
    """Return what to raise for a program that ended with ``status`` and said ``told``.

    ``worked``: it has answered or used a tool before. Then a program that could not be found is
    one of the agent's own. ``silent``: it would have told of answers, and there was none, so that
    neither the model nor the skill can be the cause, unless the server refuses the prompt itself.
    """
    said = " ".join(told.split())[-_SHOWN:] or "it said nothing"
    if status in _CANNOT_RUN and not worked:
        return _cannot_run(program, said)
    if _BUSY.search(said):
        return ModelUnavailable(f"{agent} gave up (exit status {status}): {said}")
    known = None if worked else _not_begun(agent, said)
    if known is None and silent:
        return ModelUnavailable(
            f"{agent} ended with exit status {status} before its model had answered: {said}"
        )
    return known or AgentError(f"{agent} ended with exit status {status}: {said}")


def waiting_for_server(stderr: str) -> str:
    """Return what an agent that tells of it on standard error last said of asking again."""
    told = _WAITING.findall(stderr)
    return told[-1] if told else ""


def _not_begun(agent: str, said: str) -> Exception | None:
    if _REFUSED.search(said):
        return ModelRefusal(f"{agent}'s server refused the prompt: {said}")
    if _BAD_KEY.search(said):
        return _no_key(agent, said)
    return _set_up_wrong(agent, said) if _WRONG_SETTING.search(said) else None


def _cannot_run(program: str, said: str) -> ModelSetupError:
    return ModelSetupError(
        f"rollout.solver: {program!r} cannot be run on the task's computer: {said}",
        hint="Install it there. In a sandbox, name the folder that it is installed in under "
        "`rollout.computer.readable`, and its full path as `rollout.solver.command`.",
    )


def _no_key(agent: str, said: str) -> ModelSetupError:
    return ModelSetupError(
        f"rollout.solver: {agent} has no valid key: {said}",
        hint="Set the variable that holds its key; `rollout.solver.env` names those it may see."
        " It needs `rollout.computer.network: open` as well.",
    )


def _set_up_wrong(agent: str, said: str) -> ModelSetupError:
    as_root = "root/sudo" in said
    return ModelSetupError(
        f"rollout.solver: {agent} cannot work as it is set up: {said}",
        hint="Run it in a sandbox, where it is not root, or set `rollout.computer.environ: "
        "{IS_SANDBOX: '1'}` if this machine may be lost."
        if as_root
        else "`model`, `command` and `arguments` of `rollout.solver` say how it is run.",
    )


# The skill as files on an agent's computer: where the agent looks, with the files beside it.

#: A skill's folder is for people and models to read; anything larger is a mistake.
MOST_FILES = 500
MOST_BYTES = 20_000_000

_NAME = re.compile(r"^name:[ \t]*[\"']?([^\"'\n#]+)", re.MULTILINE)
_FIXED_PLACES: Mapping[str, str] = {
    "agents": "AGENTS.md",
    "claude": "CLAUDE.md",
    "gemini": "GEMINI.md",
}


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file beside a SKILL.md; ``name`` is relative to its folder."""

    name: str
    content: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """What belongs to the document under training; ``document`` is its own file's name."""

    document: str
    folder: str = ""
    files: tuple[SkillFile, ...] = ()

    @property
    def sha256(self) -> str:
        """Fingerprint of the files beside the document."""
        digest = hashlib.sha256()
        for file in self.files:
            head = f"{file.name}\0{file.executable}\0{len(file.content)}\0"
            digest.update(head.encode() + file.content)
        return digest.hexdigest()


def read_skill_folder(path: Path) -> SkillFolder:
    """Read what lies beside the skill document ``path``, if that is a SKILL.md in its own folder.

    Symbolic links and hidden files are left out. Raises
    :class:`~skillopt_ci.errors.SkillError` for more than an agent could read, and for what we
    cannot read.
    """
    alone = path.name != "SKILL.md" or (path.parent / ".git").exists()
    if alone or not path.parent.is_dir():
        return SkillFolder(path.name, path.parent.name)
    try:
        files = tuple(sorted(_files_beside(path), key=lambda file: file.name))
    except OSError as error:
        raise SkillError(f"a file beside the skill cannot be read: {error}", file=path) from error
    return SkillFolder(path.name, path.parent.name, files)


def skill_path(folder: SkillFolder, skill: str, facts: AgentFacts, skill_as: str) -> str:
    """Return the path in the workspace where an agent finds ``skill``."""
    kind = skill_as
    if kind == "auto":
        kind = "skill" if folder.document == "SKILL.md" else facts.instructions
    if kind == "skill":
        kind = f"{facts.skills}/{{name}}/SKILL.md"
    return _FIXED_PLACES.get(kind, kind).replace("{name}", skill_name(folder, skill))


def skill_name(folder: SkillFolder, skill: str) -> str:
    """Return the skill's name as the Agent Skills format has it: lower case, digits, dashes."""
    named = _NAME.search(frontmatter(skill))
    plain = re.sub(r"[^a-z0-9]+", "-", (named[1] if named else folder.folder).lower()).strip("-")
    return plain[:64].strip("-") or "skill"


async def install(computer: Computer, place: str, skill: str, folder: SkillFolder) -> None:
    """Write ``skill`` to ``place``, and beside a SKILL.md the files that belong to it.

    What stands there is overwritten. Raises :class:`~skillopt_ci.computer.computer.FileRefused`.
    """
    path = PurePosixPath(place)
    await computer.write(place, _as_file(path, skill, folder).encode("utf-8"))
    if path.name == "SKILL.md":
        for file in folder.files:
            beside = str(path.parent / file.name)
            await computer.write(beside, file.content, executable=file.executable)


def _as_file(path: PurePosixPath, skill: str, folder: SkillFolder) -> str:
    if path.name == "SKILL.md":
        return skill if frontmatter(skill) else _with_frontmatter(skill, folder)
    # Instructions have no front matter; Cursor's rules have one of their own.
    head = "---\nalwaysApply: true\n---\n\n" if path.suffix == ".mdc" else ""
    return head + body(skill)


def _with_frontmatter(skill: str, folder: SkillFolder) -> str:
    name = skill_name(folder, skill)
    about = "What has been learned about the tasks in this workspace. Read it before any of them."
    return f"---\nname: {name}\ndescription: {about}\n---\n\n{skill}"


def _files_beside(document: Path) -> Iterator[SkillFile]:
    size = 0
    for number, path in enumerate(_plain_files(document.parent), start=1):
        content = b"" if path == document else path.read_bytes()
        size += len(content)
        if number > MOST_FILES or size > MOST_BYTES:
            raise SkillError(
                f"the folder {document.parent} holds more than {MOST_FILES} files "
                f"or {MOST_BYTES:,} bytes beside the skill",
                hint="An agent is given the whole folder: move elsewhere what is no part of it.",
            )
        if path != document:
            name = path.relative_to(document.parent).as_posix()
            yield SkillFile(name, content, os.access(path, os.X_OK))


def _plain_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir():
            yield from _plain_files(path)
        elif path.is_file():
            yield path


#: A longer stream loses its middle.
_OUTPUT_BYTES = 16_000_000
_TRACE_CHARS = 40_000

#: The program is stopped so much sooner than the attempt that its account can still be read.
_MARGIN_SECONDS = 5.0

_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class ExternalSolver:
    """Runs an agent once for each attempt, and reads its account of what it did.

    ``folder`` is what lies beside the skill document, ``environ`` the environment out of which the
    agent sees what the settings name.
    """

    settings: ExternalConfig
    prompts: Prompts
    folder: SkillFolder
    root: Path
    environ: Mapping[str, str]

    @property
    def name(self) -> str:
        """Return the agent's name."""
        return self.settings.agent

    @property
    def needs_computer(self) -> bool:
        """The agent runs on it."""
        return True

    @property
    def facts(self) -> AgentFacts:
        """What is known of the agent."""
        return AGENTS[self.settings.agent]

    def identity(self) -> Mapping[str, object]:
        """Return settings, prompt and the fingerprint of the files beside the skill."""
        return {
            **self.settings.model_dump(mode="json", exclude={"price"}),
            "prompt": self.prompts.text("external"),
            "folder": self.folder.sha256,
        }

    async def solve(
        self, task: Task, skill: str, place: Workplace
    ) -> AsyncIterator[Step | Attempt]:
        """Install the skill, run the agent, tell its steps, and return its answer.

        Raises AgentError when it fails or gives no answer, ModelSetupError when it cannot be run
        or has no valid key, ModelRefusal when its server will not take the prompt, and
        ModelUnavailable when its server is at fault or it ends before its model has answered.
        """
        computer = _computer(place, task)
        read = as_read(skill).strip()
        where = skill_path(self.folder, skill, self.facts, self.settings.skill_as) if read else ""
        prompt = f"{self.prompts.with_skill('external', where)}\n\n# Task\n\n{_put(task)}\n"
        asked = (*_shown(where, read), Message("user", prompt))
        yield Asked(asked)
        if read:
            await self._install(computer, where, as_read(skill))
        result = await self._run(computer, prompt, place)
        account = self._read(result)
        steps, exceeded = _within(place.limits, account.steps)
        for step in steps:
            yield step
        limit = self._limit(result, account) or exceeded
        if result.timed_out:
            self._refuse_waiting(result, account)
        elif limit is None:
            self._refuse_failure(result, account)
        yield Attempt(
            (*asked, *account.messages),
            account.response or "",
            n_turns=max(1, account.turns),
            trace="\n".join(s.text for s in account.steps if isinstance(s, Told))[-_TRACE_CHARS:],
            limit=limit,
            usage=self._usage(account, prompt),
        )

    async def _install(self, computer: Computer, where: str, skill: str) -> None:
        try:
            await install(computer, where, skill, self.folder)
        except FileRefused as error:
            raise UsageError(
                f"the skill cannot be written to {where} on the task's computer: {error.message}",
                hint="Choose another place with `rollout.solver.skill_as`.",
            ) from error

    async def _run(self, computer: Computer, prompt: str, place: Workplace) -> CommandResult:
        command = agent_command(self.facts, self.settings, self.root, prompt, place.limits)
        if max(len(part.encode()) for part in command.arguments) > MOST_ARGUMENT_BYTES:
            raise UsageError(
                f"the prompt is too long for an argument of {command.arguments[0]!r}",
                hint="Put long texts into files of the task's computer.",
            )
        allowed = place.limits.rollout_seconds
        return await computer.run(
            command.arguments,
            stdin=command.stdin.encode("utf-8", errors="replace"),
            timeout=allowed - min(_MARGIN_SECONDS, allowed / 20),
            environ=agent_environ(self.facts, self.settings, self.root, self.environ),
            output_bytes=_OUTPUT_BYTES,
        )

    def _read(self, result: CommandResult) -> AgentTranscript:
        return READERS[self._speaks](redact(result.stdout, self._secrets))

    @property
    def _speaks(self) -> str:
        if self.settings.output != "auto":
            return self.settings.output
        return "text" if self.settings.agent == "command" else self.settings.agent

    def _limit(self, result: CommandResult, account: AgentTranscript) -> Limit | None:
        if result.timed_out:
            return Limit.TIME
        ran_out = result.exit_code == self.facts.turns_status
        return Limit.STEPS if ran_out else account.limit

    def _refuse_failure(self, result: CommandResult, account: AgentTranscript) -> None:
        if result.exit_code == 0 and account.response is not None and not account.error:
            return
        if result.exit_code == 0 and not account.error and not self._silent(account):
            raise AgentError(f"{self.name} ended without an answer")
        errors = redact(result.stderr, self._secrets)
        raise self._failure(
            result, account, account.error or account.trouble or errors or self._unread(result)
        )

    def _refuse_waiting(self, result: CommandResult, account: AgentTranscript) -> None:
        """Raise if time ran out while the model's server was in trouble, or never answered."""
        told = account.trouble or waiting_for_server(redact(result.stderr, self._secrets))
        if told or self._silent(account):
            caught = self._failure(result, account, told or "its time was over")
            if not isinstance(caught, AgentError):
                raise caught

    def _failure(self, result: CommandResult, account: AgentTranscript, told: str) -> Exception:
        program = (*self.settings.command, self.facts.program)[0]
        worked, silent = account.turns > 0, self._silent(account)
        return agent_failure(
            self.name, program, result.exit_code, told, worked=worked, silent=silent
        )

    def _silent(self, account: AgentTranscript) -> bool:
        return self._speaks != "text" and not account.turns

    def _unread(self, result: CommandResult) -> str:
        """Return what stands on standard output where it is no stream of events."""
        events = any(line.startswith("{") for line in result.stdout.splitlines())
        return "" if events else redact(result.stdout, self._secrets)

    @property
    def _secrets(self) -> tuple[str, ...]:
        return secret_values(visible_names(self.facts, self.settings), self.environ)

    def _usage(self, account: AgentTranscript, prompt: str) -> Usage:
        told = account.usage or _estimate(account, prompt)
        # Some count the whole run as one.
        usage = replace(told, calls=max(told.calls, account.turns))
        if usage.cost_usd is None and self.settings.price is not None:
            return replace(usage, cost_usd=cost_usd(usage, self.settings.price))
        return usage


def _within(limits: AttemptLimits, steps: Sequence[Step]) -> tuple[Sequence[Step], Limit | None]:
    """Return the steps that ``limits`` admit, and the limit that the others exceed, if any do.

    They lie behind and are paid for: all that is left is to say so.
    """
    allowance = LimitTracker(limits)
    for number, step in enumerate(steps):
        if isinstance(step, ModelSaid):
            try:
                allowance.admit()
            except LimitReached as reached:
                return steps[:number], reached.limit
            allowance.charge(step.usage)
    return steps, None


def _computer(place: Workplace, task: Task) -> Computer:
    if place.computer is None:
        raise UsageError(
            f"task {task.id!r}: an external agent needs a computer to work on",
            hint="Set `rollout.computer`, for instance to `{type: sandbox, network: open}`.",
        )
    return place.computer


def _shown(where: str, skill: str) -> tuple[Message, ...]:
    """Return the skill as the message that stands for the file that the agent is given."""
    return (Message("system", f"The file {where}:\n\n{skill}"),) if skill else ()


def _put(task: Task) -> str:
    """Return the task as one text: turns by name if there are several, then its files."""
    several = len(task.messages) > 1
    turns = [
        f"{m.role.capitalize()}:\n{m.content}" if several else m.content for m in task.messages
    ]
    files = [f"File {file.name}:\n{fenced(file.content)}" for file in task.files]
    return "\n\n".join([*turns, *files])


def _estimate(account: AgentTranscript, prompt: str) -> Usage:
    said = sum(len(message.content) for message in account.messages)
    return Usage(
        calls=max(1, account.turns),
        prompt_tokens=-(-len(prompt) // _CHARACTERS_PER_TOKEN),
        completion_tokens=-(-said // _CHARACTERS_PER_TOKEN),
        cost_usd=None,
        estimated=True,
    )
