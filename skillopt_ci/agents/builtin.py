"""The built-in agent: the target model with tools, in a loop, until it submits."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from pydantic import Field, ValidationError

from skillopt_ci.computer.computer import Capture, CommandResult, Computer, FileRefused
from skillopt_ci.config.base import DescribedSchema, Section
from skillopt_ci.config.rollout import AgentConfig, AttemptLimits
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import ChatClient, ChatReply, ChatRequest, Role, Tool, Usage
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.solver import Workplace, conversation
from skillopt_ci.rollout.types import Asked, Attempt, Limit, ModelSaid, Nudged, Step, ToolUsed
from skillopt_ci.tasks.task import Task

# The built-in agent's tools: what the model is told of them, and how a call is carried out.

SUBMIT = "submit"

#: Files larger than this are for other tools than `read`.
_MOST_FILE_BYTES = 10_000_000

# Models write for bash; an image without it has at least a POSIX shell.
_SHELL = 'if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; else exec sh -c "$1"; fi'


class Shell(Section):
    """Run a command line in a shell that starts in the working folder."""

    command: str = Field(min_length=1)
    """The command line."""


class Read(Section):
    """Read a text file, or some lines of it."""

    path: str = Field(min_length=1)
    """Absolute, or relative to the working folder."""
    start: int = Field(default=1, ge=1)
    """The first line, counted from 1."""
    lines: int = Field(default=500, ge=1)
    """How many lines."""


class Write(Section):
    """Write a text file as a whole; folders above it are made."""

    path: str = Field(min_length=1)
    """Absolute, or relative to the working folder."""
    content: str
    """The whole text of the file."""


class Submit(Section):
    """End the work."""

    answer: str = ""
    """The answer, or one sentence about what was done."""


_ARGUMENTS: Mapping[str, type[Section]] = MappingProxyType(
    {"shell": Shell, "read": Read, "write": Write, SUBMIT: Submit}
)

Arguments = TypeVar("Arguments", bound=Section)


class BadArguments(Exception):
    """A call that cannot be carried out; the message is for the model."""


def tools(names: Sequence[str]) -> tuple[Tool, ...]:
    """Return what a model is told of the tools called ``names``, and of `submit`."""
    return tuple(_tool(name, _ARGUMENTS[name]) for name in (*names, SUBMIT))


def submitted(call: ToolCall) -> str:
    """Return the answer that a call of `submit` hands in; raises :class:`BadArguments`."""
    return _read_arguments(call, Submit).answer


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Carries out calls on ``computer``; without one there is nothing but `submit`."""

    computer: Computer | None
    settings: AgentConfig

    @property
    def names(self) -> tuple[str, ...]:
        """The tools besides `submit`."""
        return () if self.computer is None else self.settings.tools

    async def use(self, call: ToolCall) -> ToolUsed:
        """Carry out ``call``. What is wrong with it is the result, for the model to read.

        Raises :class:`~skillopt_ci.computer.computer.ComputerFailure`.
        """
        try:
            return await self._used(call)
        except (BadArguments, FileRefused) as error:
            return ToolUsed(call, f"Error: {error}")

    async def _used(self, call: ToolCall) -> ToolUsed:
        if call.name == SUBMIT:
            submitted(call)
        if self.computer is None or call.name not in self.names:
            offered = ", ".join((*self.names, SUBMIT))
            raise BadArguments(f"there is no tool {call.name!r}. The tools are {offered}.")
        match call.name:
            case "shell":
                return await self._shell(self.computer, call)
            case "read":
                return ToolUsed(call, await self._read(self.computer, _read_arguments(call, Read)))
            case _:
                return ToolUsed(call, await _write(self.computer, _read_arguments(call, Write)))

    async def _shell(self, computer: Computer, call: ToolCall) -> ToolUsed:
        result = await computer.run(
            ["sh", "-c", _SHELL, "sh", _read_arguments(call, Shell).command],
            timeout=self.settings.command_seconds,
            output_bytes=self.settings.output_bytes,
        )
        shown = self._shortened(_told(result, self.settings.command_seconds))
        return ToolUsed(call, shown, result.exit_code, result.seconds)

    async def _read(self, computer: Computer, wanted: Read) -> str:
        content = await computer.read(wanted.path, max_bytes=_MOST_FILE_BYTES)
        lines = content.decode("utf-8", errors="replace").splitlines(keepends=True)
        first = wanted.start - 1
        chosen = lines[first : first + wanted.lines]
        if len(chosen) == len(lines):
            return self._shortened("".join(chosen)) or "[the file is empty]"
        place = f"[lines {wanted.start} to {first + len(chosen)} of {len(lines)}]"
        return self._shortened(f"{place}\n{''.join(chosen)}")

    def _shortened(self, text: str) -> str:
        kept = Capture(self.settings.output_bytes)
        kept.feed(text.encode("utf-8", errors="replace"))
        return kept.text()


async def _write(computer: Computer, wanted: Write) -> str:
    content = wanted.content.encode("utf-8", errors="replace")
    await computer.write(wanted.path, content)
    return f"{len(content)} bytes written to {wanted.path}"


def _told(result: CommandResult, seconds: float) -> str:
    # No times: the same work must read the same when it is done again.
    ends = [f"exit code {result.exit_code}"]
    if result.timed_out:
        ends.append(f"killed after {seconds:g} s")
    if result.limit:
        ends.append(f"out of {result.limit}")
    parts = [f"[{', '.join(ends)}]", result.stdout]
    if result.stderr:
        parts += ["[standard error]", result.stderr]
    return "\n".join(part.rstrip("\n") for part in parts if part)


def _tool(name: str, arguments: type[Section]) -> Tool:
    schema = arguments.model_json_schema(schema_generator=DescribedSchema)
    properties = {
        key: {fact: value for fact, value in about.items() if fact != "title"}
        for key, about in schema["properties"].items()
    }
    description = " ".join((arguments.__doc__ or "").split())
    parameters = {
        "type": "object",
        "properties": properties,
        "required": schema.get("required", []),
        "additionalProperties": False,
    }
    return Tool(name, description, parameters)


def _read_arguments(call: ToolCall, shape: type[Arguments]) -> Arguments:
    try:
        given = json.loads(call.arguments or "{}")
    except ValueError as error:
        raise BadArguments(f"the arguments of {call.name} are not JSON: {error}") from error
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)
        )
        raise BadArguments(f"wrong arguments of {call.name}: {faults}") from error


Calls = tuple[ToolCall, ...]

_NOT_DONE = "Not carried out: the work was submitted before."


@dataclass(frozen=True, slots=True)
class AgentSolver:
    """Asks the model, carries out its tool calls, and asks again.

    The conversation only ever grows at its end, so that a server can cache what came before.
    """

    client: ChatClient
    prompts: Prompts
    settings: AgentConfig

    @property
    def name(self) -> str:
        """Return the solver's name."""
        return "agent"

    @property
    def needs_computer(self) -> bool:
        """The tools work on one."""
        return True

    def identity(self) -> Mapping[str, object]:
        """Return settings and prompts."""
        return {
            **self.settings.model_dump(mode="json"),
            "prompt": self.prompts.text("agent"),
            "reminder": self.prompts.text("agent_reminder"),
        }

    async def solve(
        self, task: Task, skill: str, place: Workplace
    ) -> AsyncIterator[Step | Attempt]:
        """Work until a submission is accepted, patience is used up, or a limit is reached."""
        toolbox = Toolbox(place.computer, self.settings)
        talk = _Talk([*conversation(task, skill, self.prompts, "agent")])
        reminders, nudges, response = self.settings.reminders, place.nudges, ""
        yield Asked(tuple(talk.messages))
        while (limit := _reached(place.limits, talk)) is None:
            reply = await self._ask(talk, place, toolbox)
            yield talk.said(reply)
            response = reply.text
            if not reply.tool_calls and reminders:
                reminders -= 1
                yield talk.nudged(self.prompts.text("agent_reminder"))
                continue
            work, ending = _until_submission(reply.tool_calls)
            for call in work:
                yield talk.used(await toolbox.use(call))
            if work and not ending:
                continue
            response = (submitted(ending[0]) if ending else "") or reply.text
            objection = await place.check_submission()
            for used in _results(ending, objection or "Submitted."):
                yield talk.used(used)
            if objection is None or not nudges:
                break
            nudges -= 1
            yield talk.nudged(objection, said=bool(ending))
        yield Attempt(
            tuple(talk.messages), response, n_turns=talk.turns, limit=limit, usage=talk.usage
        )

    def first_request(self, task: Task, skill: str, stage: str, attempt: int) -> ChatRequest:
        """The question with which an attempt at ``task`` begins."""
        messages = conversation(task, skill, self.prompts, "agent")
        offered = tools(self.settings.tools)
        return ChatRequest(Role.TARGET, stage, messages, attempt=attempt, tools=offered)

    async def _ask(self, talk: "_Talk", place: Workplace, toolbox: Toolbox) -> ChatReply:
        request = ChatRequest(
            Role.TARGET,
            place.stage,
            tuple(talk.messages),
            attempt=place.attempt,
            tools=tools(toolbox.names),
        )
        return await self.client.complete(request)


@dataclass(slots=True)
class _Talk:
    """The conversation as it grows, and what it has consumed."""

    messages: list[Message]
    turns: int = 0
    usage: Usage = field(default_factory=Usage)

    def said(self, reply: ChatReply) -> ModelSaid:
        message = Message("assistant", reply.text, tool_calls=reply.tool_calls)
        self.messages.append(message)
        self.turns += 1
        self.usage += reply.usage
        return ModelSaid(message, reply.usage)

    def used(self, used: ToolUsed) -> ToolUsed:
        self.messages.append(Message("tool", used.output, tool_call_id=used.call.id))
        return used

    def nudged(self, text: str, *, said: bool = False) -> Nudged:
        """Note a nudge; ``said``: the model has read it as the result of its call."""
        if not said:
            self.messages.append(Message("user", text))
        return Nudged(text)


def _reached(limits: AttemptLimits, talk: _Talk) -> Limit | None:
    if limits.steps is not None and talk.turns >= limits.steps:
        return Limit.STEPS
    if limits.tokens is not None and talk.usage.tokens >= limits.tokens:
        return Limit.TOKENS
    if limits.cost_usd is not None and (talk.usage.cost_usd or 0.0) >= limits.cost_usd:
        return Limit.COST
    return None


def _until_submission(calls: Calls) -> tuple[Calls, Calls]:
    """Divide ``calls`` before the first good submission; the second part is empty without one."""
    for number, call in enumerate(calls):
        if _submits(call):
            return calls[:number], calls[number:]
    return calls, ()


def _submits(call: ToolCall) -> bool:
    try:
        return call.name == SUBMIT and submitted(call) is not None
    except BadArguments:
        return False


def _results(ending: Calls, verdict: str) -> list[ToolUsed]:
    """Return the results of a submission and of the calls after it: each call must have one."""
    return [ToolUsed(call, _NOT_DONE if number else verdict) for number, call in enumerate(ending)]
