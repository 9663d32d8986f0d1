"""The built-in agent: runs the target model with tools in a loop until it submits."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from pydantic import Field, ValidationError

from skillopt_ci.computer.computer import Computer
from skillopt_ci.config.base import DescribedSchema, Section
from skillopt_ci.config.rollout import AgentConfig
from skillopt_ci.errors import FileRefused
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import ChatClient, ChatRequest, Role, Tool
from skillopt_ci.program import Capture, CommandResult
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.limits import Transcript
from skillopt_ci.rollout.solver import Workplace, conversation
from skillopt_ci.rollout.types import Asked, Attempt, ModelSaid, Nudged, Step, ToolUsed
from skillopt_ci.tasks.task import Task

SUBMIT = "submit"

#: `read` refuses larger files.
_MOST_FILE_BYTES = 10_000_000

_NOT_DONE = "Not carried out: the work was submitted before."

# Models expect bash; an image without it has at least a POSIX shell.
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


_SHAPES: dict[str, type[Section]] = {"shell": Shell, "read": Read, "write": Write, SUBMIT: Submit}
Arguments = TypeVar("Arguments", bound=Section)


class BadArguments(Exception):
    """A tool call with bad arguments; the message is for the model."""


def tools(names: Sequence[str]) -> tuple[Tool, ...]:
    """The definitions, for a model, of the tools in ``names`` and of `submit`."""
    found = []
    for name in (*names, SUBMIT):
        arguments = _SHAPES[name]
        schema = arguments.model_json_schema(schema_generator=DescribedSchema)
        parameters = {
            "type": "object",
            "properties": {
                key: {fact: value for fact, value in about.items() if fact != "title"}
                for key, about in schema["properties"].items()
            },
            "required": schema.get("required", []),
            "additionalProperties": False,
        }
        found.append(Tool(name, " ".join((arguments.__doc__ or "").split()), parameters))
    return tuple(found)


def submitted(call: ToolCall) -> str:
    return _read_arguments(call, Submit).answer


def _read_arguments(call: ToolCall, shape: type[Arguments]) -> Arguments:
    try:
        given = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise BadArguments(f"the arguments of {call.name} are not JSON: {error}") from error
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)
        )
        raise BadArguments(f"wrong arguments of {call.name}: {faults}") from error


@dataclass(frozen=True, slots=True)
class Toolbox:
    computer: Computer
    settings: AgentConfig

    async def use(self, call: ToolCall) -> ToolUsed:
        """Run ``call``; an error becomes the result, for the model to read."""
        try:
            if call.name == SUBMIT:
                submitted(call)
            if call.name not in self.settings.tools:
                offered = ", ".join((*self.settings.tools, SUBMIT))
                return ToolUsed(
                    call, f"Error: there is no tool {call.name!r}. The tools are {offered}."
                )
            match call.name:
                case "shell":
                    result = await self.computer.run(
                        ["sh", "-c", _SHELL, "sh", _read_arguments(call, Shell).command],
                        timeout=self.settings.command_seconds,
                        output_bytes=self.settings.output_bytes,
                    )
                    shown = self._shortened(_told(result, self.settings.command_seconds))
                    return ToolUsed(call, shown, result.exit_code, result.seconds)
                case "read":
                    wanted = _read_arguments(call, Read)
                    content = await self.computer.read(wanted.path, max_bytes=_MOST_FILE_BYTES)
                    return ToolUsed(call, self._lines(content, wanted))
                case _:
                    file = _read_arguments(call, Write)
                    content = file.content.encode("utf-8", errors="replace")
                    await self.computer.write(file.path, content)
                    return ToolUsed(call, f"{len(content)} bytes written to {file.path}")
        except (BadArguments, FileRefused) as error:
            return ToolUsed(call, f"Error: {error}")

    def _lines(self, content: bytes, wanted: Read) -> str:
        lines = content.decode("utf-8", errors="replace").splitlines(keepends=True)
        first = wanted.start - 1
        chosen = lines[first : first + wanted.lines]
        if len(chosen) == len(lines):
            return self._shortened("".join(chosen)) or "[the file is empty]"
        place = f"[lines {wanted.start} to {first + len(chosen)} of {len(lines)}]"
        return self._shortened(f"{place}\n{''.join(chosen)}")

    def _shortened(self, text: str) -> str:
        return Capture.of(text, self.settings.output_bytes).text()


def _told(result: CommandResult, seconds: float) -> str:
    # Without times, so that the same work reads the same when repeated.
    ends = (
        f"exit code {result.exit_code}",
        f"killed after {seconds:g} s" if result.timed_out else "",
        f"out of {result.limit}" if result.limit else "",
    )
    errors = ("[standard error]", result.stderr) if result.stderr else ()
    parts = (f"[{', '.join(filter(None, ends))}]", result.stdout, *errors)
    return "\n".join(part.rstrip("\n") for part in parts if part)


@dataclass(frozen=True, slots=True)
class AgentSolver:
    """Alternates model calls and tool calls; servers can cache the common prefix of the prompts."""

    client: ChatClient
    prompts: Prompts
    settings: AgentConfig
    name: ClassVar = "agent"
    needs_computer: ClassVar = True

    def identity(self) -> Mapping[str, object]:
        return {
            **self.settings.model_dump(mode="json"),
            "prompt": self.prompts.texts["agent"],
            "reminder": self.prompts.texts["agent_reminder"],
        }

    async def solve(
        self, task: Task, skill: str, place: Workplace
    ) -> AsyncIterator[Step | Attempt]:
        assert place.computer is not None, "The agent needs a computer"  # noqa: S101
        toolbox = Toolbox(place.computer, self.settings)
        request = self.first_request(task, skill, place.stage, place.attempt)
        talk = Transcript(request.messages)
        reminders, nudges = self.settings.reminders, place.nudges
        yield Asked(talk.opening)
        while True:
            reply = await self.client.complete(replace(request, messages=talk.messages))
            said = Message("assistant", reply.text, tool_calls=reply.tool_calls)
            yield talk.add(ModelSaid(said, reply.usage))
            if not reply.tool_calls and reminders:
                reminders -= 1
                yield talk.add(Nudged(self.prompts.texts["agent_reminder"]))
                continue
            work, ending = _until_submission(reply.tool_calls)
            for call in work:
                yield talk.add(await toolbox.use(call))
            if work and not ending:
                continue
            response = (submitted(ending[0]) if ending else "") or reply.text
            objection = await place.check_submission()
            for number, call in enumerate(ending):  # protocols require a result for each call
                yield talk.add(ToolUsed(call, _NOT_DONE if number else objection or "Submitted."))
            if objection is None or not nudges:
                break
            nudges -= 1
            # After a submission, the model gets the objection as the result of that call.
            yield Nudged(objection) if ending else talk.add(Nudged(objection))
        yield Attempt(talk.messages, response, n_turns=talk.turns, usage=talk.usage)

    def first_request(self, task: Task, skill: str, stage: str, attempt: int) -> ChatRequest:
        return ChatRequest(
            Role.TARGET,
            stage,
            conversation(task, skill, self.prompts, "agent"),
            attempt=attempt,
            tools=tools(self.settings.tools),
        )


def _until_submission(
    calls: tuple[ToolCall, ...],
) -> tuple[tuple[ToolCall, ...], tuple[ToolCall, ...]]:
    """Split ``calls`` before the first valid submission; without one, the second part is empty."""
    for number, call in enumerate(calls):
        if call.name == SUBMIT:
            with suppress(BadArguments):
                submitted(call)
                return calls[:number], calls[number:]
    return calls, ()
