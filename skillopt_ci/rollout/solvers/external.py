"""Other people's agents: the skill installed where they look, their program run on the computer."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skillopt_ci.computer.computer import CommandResult, Computer, FileRefused
from skillopt_ci.config.rollout import AttemptLimits, ExternalSettings
from skillopt_ci.errors import UsageError
from skillopt_ci.messages import Message, fenced
from skillopt_ci.model.budget import cost_usd
from skillopt_ci.model.keys import redact, secret_values
from skillopt_ci.model.types import Usage
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.allowance import Allowance, LimitReached
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.solvers.agent_command import (
    MOST_ARGUMENT_BYTES,
    agent_command,
    agent_environ,
    visible_names,
)
from skillopt_ci.rollout.solvers.agent_failure import failure, waiting_for_server
from skillopt_ci.rollout.solvers.agents import AGENTS, READERS, AgentFacts
from skillopt_ci.rollout.solvers.skill_files import SkillFolder, install, place_of
from skillopt_ci.rollout.solvers.streams.account import Account
from skillopt_ci.rollout.steps import AgentError, Asked, Attempt, Limit, ModelSaid, Step, Told
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import Task

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

    settings: ExternalSettings
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
        where = place_of(self.folder, skill, self.facts, self.settings.skill_as) if read else ""
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

    def _read(self, result: CommandResult) -> Account:
        return READERS[self._speaks](redact(result.stdout, self._secrets))

    @property
    def _speaks(self) -> str:
        if self.settings.output != "auto":
            return self.settings.output
        return "text" if self.settings.agent == "command" else self.settings.agent

    def _limit(self, result: CommandResult, account: Account) -> Limit | None:
        if result.timed_out:
            return Limit.TIME
        ran_out = result.exit_code == self.facts.turns_status
        return Limit.STEPS if ran_out else account.limit

    def _refuse_failure(self, result: CommandResult, account: Account) -> None:
        if result.exit_code == 0 and account.response is not None and not account.error:
            return
        if result.exit_code == 0 and not account.error and not self._silent(account):
            raise AgentError(f"{self.name} ended without an answer")
        errors = redact(result.stderr, self._secrets)
        raise self._failure(
            result, account, account.error or account.trouble or errors or self._unread(result)
        )

    def _refuse_waiting(self, result: CommandResult, account: Account) -> None:
        """Raise if time ran out while the model's server was in trouble, or never answered."""
        told = account.trouble or waiting_for_server(redact(result.stderr, self._secrets))
        if told or self._silent(account):
            caught = self._failure(result, account, told or "its time was over")
            if not isinstance(caught, AgentError):
                raise caught

    def _failure(self, result: CommandResult, account: Account, told: str) -> Exception:
        program = (*self.settings.command, self.facts.program)[0]
        worked, silent = account.turns > 0, self._silent(account)
        return failure(self.name, program, result.exit_code, told, worked=worked, silent=silent)

    def _silent(self, account: Account) -> bool:
        return self._speaks != "text" and not account.turns

    def _unread(self, result: CommandResult) -> str:
        """Return what stands on standard output where it is no stream of events."""
        events = any(line.startswith("{") for line in result.stdout.splitlines())
        return "" if events else redact(result.stdout, self._secrets)

    @property
    def _secrets(self) -> tuple[str, ...]:
        return secret_values(visible_names(self.facts, self.settings), self.environ)

    def _usage(self, account: Account, prompt: str) -> Usage:
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
    allowance = Allowance(limits)
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


def _estimate(account: Account, prompt: str) -> Usage:
    said = sum(len(message.content) for message in account.messages)
    return Usage(
        calls=max(1, account.turns),
        prompt_tokens=-(-len(prompt) // _CHARACTERS_PER_TOKEN),
        completion_tokens=-(-said // _CHARACTERS_PER_TOKEN),
        cost_usd=None,
        estimated=True,
    )
