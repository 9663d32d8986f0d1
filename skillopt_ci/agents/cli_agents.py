"""Agent CLIs: install the skill where the agent looks for it and run its program."""

import asyncio
import re
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import ClassVar

from skillopt_ci.agents.skill_files import SkillFolder
from skillopt_ci.agents.streams import READERS, AgentTranscript
from skillopt_ci.aio import off_the_clock
from skillopt_ci.computer.computer import SEARCH_PATH, Computer
from skillopt_ci.config.models import PROVIDERS, ModelRole
from skillopt_ci.config.rollout import AttemptLimits, ExternalConfig
from skillopt_ci.errors import FileRefused, ModelSetupError, UsageError
from skillopt_ci.messages import Message
from skillopt_ci.model.access import redact, secret_values
from skillopt_ci.model.budget import tariff_of
from skillopt_ci.model.command import BAD_KEY, BUSY, CANNOT_RUN, REFUSED, WRONG_SETTING
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable, Usage, estimated_usage
from skillopt_ci.program import Capture, CommandResult
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.limits import LimitTracker
from skillopt_ci.rollout.solver import Workplace, task_text
from skillopt_ci.rollout.types import AgentError, Asked, Attempt, Limit, ModelSaid, Step, Told
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import Task

#: Linux refuses a longer single argument (32 pages of 4 KiB).
MOST_ARGUMENT_BYTES = 131_000

#: A longer stream loses its middle.
_OUTPUT_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """How to run an agent, and where it looks for skills.

    ``arguments`` run it once, non-interactively and with all permissions, since the computer
    confines it. The prompt goes to standard input.
    ``skills`` is the agent's skills folder in a repository, ``instructions`` the file that it
    always reads. One of the variables in ``keys`` must be set; ``passed_on`` are other variables
    that it may see; ``environ`` is set in addition. ``turns_status`` is the exit status for the
    agent's own limit of turns.
    """

    program: str = ""
    arguments: tuple[str, ...] = ()
    instructions: str = "AGENTS.md"
    skills: str = ".agents/skills"
    keys: tuple[str, ...] = ()
    passed_on: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    last_argument: str = ""
    turns_option: str = ""
    cost_option: str = ""
    turns_status: int | None = None


AGENTS: Mapping[str, AgentFacts] = {
    "claude-code": AgentFacts(
        program="claude",
        arguments=(
            *("-p", "--output-format", "stream-json", "--verbose"),
            *("--permission-mode", "bypassPermissions"),
        ),
        skills=".claude/skills",
        instructions="CLAUDE.md",
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        passed_on=("ANTHROPIC_BASE_URL",),
        environ={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        turns_option="--max-turns",
        cost_option="--max-budget-usd",
    ),
    "codex": AgentFacts(
        program="codex",
        arguments=(
            *("exec", "--json", "--skip-git-repo-check"),
            "--dangerously-bypass-approvals-and-sandbox",
        ),
        last_argument="-",
        keys=("CODEX_API_KEY", "OPENAI_API_KEY"),
    ),
    "copilot": AgentFacts(
        program="copilot",
        arguments=("--output-format", "json", "--allow-all", "--no-ask-user"),
        skills=".github/skills",
        # GH_TOKEN and GITHUB_TOKEN work too, but grant more than an agent should get by
        # default. A self-hosted server may need no key, only its URL.
        keys=(
            *("COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"),
            *("COPILOT_PROVIDER_BEARER_TOKEN", "COPILOT_PROVIDER_BASE_URL"),
        ),
        passed_on=(
            *("COPILOT_PROVIDER_TYPE", "COPILOT_PROVIDER_WIRE_API"),
            "COPILOT_PROVIDER_MODEL_ID",
        ),
        environ={"COPILOT_AUTO_UPDATE": "false"},
    ),
    "cursor": AgentFacts(
        program="cursor-agent",
        arguments=("-p", "--output-format", "stream-json", "--force", "--trust"),
        skills=".cursor/skills",
        keys=("CURSOR_API_KEY",),
    ),
    "gemini": AgentFacts(
        program="gemini",
        arguments=("--output-format", "stream-json", "--approval-mode=yolo"),
        skills=".gemini/skills",
        instructions="GEMINI.md",
        # On Vertex AI, the machine's own account may suffice.
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"),
        passed_on=("GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
        turns_status=53,
        # Otherwise Gemini disables skills and tools in a folder that is not trusted.
        environ={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
    ),
    # Any other program.
    "command": AgentFacts(),
}

#: What the agent says on standard error about retrying its server.
_WAITING = re.compile(r"Attempt \d+ failed(?: with status \d+)?\.[^\n]*")


def visible_names(settings: ExternalConfig) -> tuple[str, ...]:
    facts = AGENTS[settings.agent]
    return (*facts.keys, *facts.passed_on) if settings.env is None else settings.env


def lacks_key(settings: ExternalConfig, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that could hold a known agent's key, if none of them is set."""
    if settings.agent == "command":
        return ()
    passed_on = AGENTS[settings.agent].passed_on
    names = tuple(name for name in visible_names(settings) if name not in passed_on)
    return () if any(map(environ.get, names)) else names or ("rollout.solver.env",)


def agent_program(settings: ExternalConfig, root: Path) -> str:
    return (*_placed(settings.command, root), AGENTS[settings.agent].program)[0]


def agent_environ(
    settings: ExternalConfig, root: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    """The variables that the agent sees in addition to those of its computer."""
    passed_on = {name: environ[name] for name in visible_names(settings) if environ.get(name)}
    program = PurePosixPath(agent_program(settings, root))
    path = {"PATH": f"{program.parent}:{SEARCH_PATH}"} if program.is_absolute() else {}
    own = AGENTS[settings.agent].environ
    return {**path, **own, **PROVIDERS[settings.agent].with_keys(passed_on)}


def _agent_command(
    settings: ExternalConfig, root: Path, prompt: str, limits: AttemptLimits
) -> tuple[tuple[str, ...], str]:
    facts, command = AGENTS[settings.agent], _placed(settings.command, root)
    if settings.agent == "command":
        # The prompt is filled in last, so that placeholders in it stay as they are.
        filled = tuple(
            part.replace("{model}", settings.model).replace("{prompt}", prompt) for part in command
        )
        return filled, "" if any("{prompt}" in part for part in settings.command) else prompt
    arguments = [*(command or (facts.program,)), *facts.arguments]
    for option, value in (
        ("--model", settings.model or None),
        (facts.turns_option, limits.steps),
        (facts.cost_option, limits.cost_usd),
    ):
        arguments += [option, str(value)] if option and value is not None else []
    arguments += settings.arguments
    return (*arguments, *filter(None, [facts.last_argument])), prompt


def _placed(command: tuple[str, ...], root: Path) -> tuple[str, ...]:
    return tuple(part.replace("{root}", str(root)) for part in command)


def agent_failure(
    agent: str,
    program: str,
    status: int,
    told: str,
    *,
    worked: bool,
    silent: bool = False,
    keys: tuple[str, ...] = (),
) -> Exception:
    """The exception for a program that ended with ``status`` and printed ``told``.

    ``worked``: it answered or used a tool before, so a "not found" is the work's own fault.
    ``silent``: its stream would show answers but has none, so neither model nor skill is the cause.
    ``keys``: the variables that may hold its key, if none is set.
    """
    said = " ".join(told.split())[-500:] or "it said nothing"
    if status in CANNOT_RUN and not worked:
        return ModelSetupError(
            f"rollout.solver: {program!r} cannot be run on the task's computer: {said}",
            hint="Install it there. In a sandbox, name the folder that it is installed in under "
            "`rollout.computer.readable`, and its full path as `rollout.solver.command`.",
        )
    # A server's answer to an agent without a key may look like a broken connection.
    if BUSY.search(re.sub("(?i)stream disconnected", "", said) if keys and silent else said):
        return ModelUnavailable(f"{agent} gave up (exit status {status}): {said}")
    if not worked and REFUSED.search(said):
        return ModelRefusal(f"{agent}'s server refused the prompt: {said}")
    if not worked and BAD_KEY.search(said):
        return ModelSetupError(
            f"rollout.solver: {agent} has no valid key or no credit: {said}",
            hint="Set the variable that holds its key; `rollout.solver.env` names those it may see."
            " It needs `rollout.computer.network: open` as well.",
        )
    if not worked and WRONG_SETTING.search(said):
        return ModelSetupError(
            f"rollout.solver: {agent} cannot work as it is set up: {said}",
            hint="Run it in a sandbox, where it is not root, or set `rollout.computer.environ: "
            "{IS_SANDBOX: '1'}` if this machine is disposable."
            if "root/sudo" in said
            else "`model`, `command` and `arguments` of `rollout.solver` say how it is run.",
        )
    if keys and silent:
        return ModelSetupError(
            f"rollout.solver: {agent} has no key: none of {', '.join(keys)} is set, and it ended "
            f"before its model had answered: {said}",
            hint="Set one of them; `rollout.solver.env` names what it may see.",
        )
    ended = f"{agent} ended with exit status {status}"
    if not worked and silent:
        return ModelUnavailable(f"{ended} before its model had answered: {said}")
    return AgentError(f"{ended}: {said}")


@dataclass(frozen=True, slots=True)
class ExternalSolver:
    settings: ExternalConfig
    prompts: Prompts
    folder: SkillFolder
    root: Path
    environ: Mapping[str, str]
    needs_computer: ClassVar = True

    @property
    def name(self) -> str:
        return self.settings.agent

    def identity(self) -> Mapping[str, object]:
        return {
            **self.settings.model_dump(mode="json", exclude={"price"}),
            "prompt": self.prompts.texts["external"],
            "folder": self.folder.sha256,
        }

    async def solve(
        self, task: Task, skill: str, place: Workplace
    ) -> AsyncIterator[Step | Attempt]:
        """Run the agent once. Raises the exceptions of :func:`agent_failure`, and UsageError."""
        computer, facts = place.computer, AGENTS[self.settings.agent]
        assert computer is not None  # noqa: S101 - it says that it needs one
        read, places = as_read(skill), (facts.skills, facts.instructions)
        where = self.folder.path_for(read.strip(), self.settings.skill_as, *places)
        prompt = f"{self.prompts.with_skill('external', where)}\n\n# Task\n\n{task_text(task)}\n"
        asked: tuple[Message, ...] = (Message("user", prompt),)
        if where:
            asked = (Message("system", f"The file {where}:\n\n{read.strip()}"), *asked)
        yield Asked(asked)
        with off_the_clock():  # the program has its own timeout; then its output is read
            try:
                for one in task.images:
                    await computer.write(one.name, b64decode(one.image.data))
                if where:
                    await self.folder.install(computer, where, read)
            except FileRefused as error:
                raise UsageError(
                    f"the skill or a picture of the task cannot be written to {error.message}",
                    hint="Choose another place for the skill with `rollout.solver.skill_as`.",
                ) from error
            result = await self._run(computer, prompt, place)
            # In a thread: a long stream must not cost other attempts their time.
            transcript = await asyncio.to_thread(READERS[self.settings.format], result.stdout)
        steps, limit = _within(place.limits, transcript.steps)
        for step in steps:
            yield step
        own = Limit.STEPS if result.exit_code == facts.turns_status else transcript.limit
        limit = Limit.TIME if result.timed_out else own or limit
        failure = self._failure(result, transcript, limit)
        worked = failure is None or transcript.turns or transcript.usage
        usage = self._usage(transcript, prompt) if worked else Usage()
        # most agents tell only at the end what they used
        limit = limit or LimitTracker(place.limits, spent=[usage]).reached
        told = "\n".join(step.text for step in transcript.steps if isinstance(step, Told))
        yield Attempt(
            (*asked, *transcript.messages),
            transcript.response or "",
            n_turns=max(1, transcript.turns),
            trace=told[-40_000:],
            limit=limit,
            usage=usage,
        )
        if failure is not None:
            raise failure

    async def _run(self, computer: Computer, prompt: str, place: Workplace) -> CommandResult:
        arguments, stdin = _agent_command(self.settings, self.root, prompt, place.limits)
        if max(len(part.encode()) for part in arguments) > MOST_ARGUMENT_BYTES:
            raise UsageError(
                f"the prompt is too long for an argument of {arguments[0]!r}",
                hint="Put long texts into files of the task's computer.",
            )
        result = await computer.run(
            arguments,
            stdin=stdin.encode("utf-8", errors="replace"),
            timeout=place.limits.rollout_seconds,
            environ=agent_environ(self.settings, self.root, self.environ),
            output_bytes=_OUTPUT_BYTES,
        )
        secrets = secret_values(visible_names(self.settings), self.environ)
        out, err = (Capture.of(redact(text, secrets)) for text in (result.stdout, result.stderr))
        return replace(result, out=out, err=err)

    def _failure(
        self, result: CommandResult, transcript: AgentTranscript, limit: Limit | None
    ) -> Exception | None:
        """None if the agent answered, or reached a limit while its server worked."""
        silent = self.settings.format != "text" and not transcript.turns
        error, trouble = transcript.error, transcript.trouble
        if result.timed_out:
            told = trouble or next(reversed(_WAITING.findall(result.stderr)), "")
            if not told and not silent:
                return None
            told = told or "its time was over"
        elif limit is not None or (
            result.exit_code == 0 and transcript.response is not None and not error
        ):
            return None
        elif result.exit_code == 0 and not error and not silent:
            return AgentError(f"{self.name} ended without an answer")
        else:
            streams = "\n{" in f"\n{result.stdout}"
            told = error or trouble or result.stderr or ("" if streams else result.stdout)
            if result.limit:
                told = f"{told} (it reached the computer's limit of {result.limit})"
        failure = agent_failure(
            *(self.name, agent_program(self.settings, self.root), result.exit_code, told),
            worked=transcript.turns > 0 and not BAD_KEY.search(error),
            silent=silent,
            keys=lacks_key(self.settings, self.environ),
        )
        return None if result.timed_out and isinstance(failure, AgentError) else failure

    def _usage(self, transcript: AgentTranscript, prompt: str) -> Usage:
        told = transcript.usage or estimated_usage(
            [Message("user", prompt)], "".join(one.content for one in transcript.messages)
        )
        # Some agents report the whole run as one call.
        usage = replace(told, calls=max(told.calls, transcript.turns))
        if usage.cost_usd is None and (self.settings.price is not None or transcript.model):
            paid = ModelRole(
                provider="anthropic", model=transcript.model or "m", price=self.settings.price
            )
            return replace(usage, cost_usd=tariff_of(paid).cost_usd(usage))
        return usage


def _within(limits: AttemptLimits, steps: list[Step]) -> tuple[list[Step], Limit | None]:
    tracker = LimitTracker(limits)
    for number, step in enumerate(steps):
        if isinstance(step, ModelSaid):
            if tracker.reached is not None:
                return steps[:number], tracker.reached
            tracker.steps += 1
            tracker.spent.append(step.usage)
    return steps, None
