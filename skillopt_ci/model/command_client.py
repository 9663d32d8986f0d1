"""A program as a model: the prompt on its standard input, the answer on its standard output."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from skillopt_ci.chat import Message
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.client import ChatReply, ChatRequest
from skillopt_ci.model.keys import redact, secrets_of
from skillopt_ci.model.openai_reply import cost_usd, estimated_usage, well_formed
from skillopt_ci.model.transient import TransientFailure
from skillopt_ci.program import Ended, run_program, signal_name, tail, visible
from skillopt_ci.settings.model import ModelRole

#: Longer answers are no answers.
_MOST_OUTPUT_BYTES = 4_000_000
_TRACE_BYTES = 40_000
_SHOWN = 300
_CANNOT_RUN = (126, 127)


class CommandClient:
    """Answers a role's requests by running its command, one process per call, one try.

    ``section`` (``model.target``) names the role in messages, ``root`` is what ``{root}`` stands
    for. Raises :class:`ModelSetupError` if the program is not there.
    """

    def __init__(
        self, section: str, config: ModelRole, root: Path, environ: Mapping[str, str]
    ) -> None:
        self._section = section
        self._config = config
        self._environ = visible(environ, config.env)
        self._secrets = secrets_of(config, environ)
        self._arguments = _arguments(config.command, root.resolve())
        if shutil.which(self._arguments[0], path=self._environ.get("PATH", os.defpath)) is None:
            raise self._not_there("not found")

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``; its messages are put to the program as one text."""
        with TemporaryDirectory(prefix="skillopt-command-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            ended = await self._run(folder, rendered(request.messages))
            trace = redact(tail(ended.errors, _TRACE_BYTES), self._secrets)
            self._refuse_failure(ended, trace)
            text = redact(tail(ended.output, _MOST_OUTPUT_BYTES), self._secrets).strip()
        usage = estimated_usage(request, text)
        priced = replace(usage, cost_usd=cost_usd(usage, self._config.price))
        return ChatReply(text, "stop", self._config.model, priced, trace.strip())

    async def _run(self, folder: Path, prompt: str) -> Ended:
        stdin, workplace = folder / "stdin", folder / "workplace"
        stdin.write_text(prompt, encoding="utf-8", newline="")
        workplace.mkdir()
        try:
            return await run_program(
                self._arguments,
                stdin=stdin,
                folder=folder,
                cwd=workplace,
                environ=self._environ,
                timeout=self._config.timeout,
            )
        except TimeoutError as error:
            raise TransientFailure(f"no answer within {self._config.timeout:g} s") from error
        except (OSError, ValueError) as error:
            raise self._not_there(str(error)) from error

    def _refuse_failure(self, ended: Ended, trace: str) -> None:
        said = " ".join(trace.split())[-_SHOWN:] or "it wrote nothing to standard error"
        if ended.status in _CANNOT_RUN:
            raise self._not_there(f"exit status {ended.status}: {said}")
        if ended.status < 0:
            raise TransientFailure(f"killed by {signal_name(ended.status)}: {said}")
        if ended.status > 0:
            raise TransientFailure(f"exit status {ended.status}: {said}")
        if ended.output.stat().st_size > _MOST_OUTPUT_BYTES:
            raise TransientFailure(f"it printed more than {_MOST_OUTPUT_BYTES:,} bytes")

    def _not_there(self, detail: str) -> ModelSetupError:
        return ModelSetupError(
            f"{self._section}.command: {self._config.command[0]!r} cannot be run: {detail}",
            hint="Give a program on the PATH, or one of the repository as {root}/path/to/it; it "
            f"must be executable. Variables that it needs go into {self._section}.env.",
        )


def rendered(messages: Sequence[Message]) -> str:
    """The messages as one text: the system prompt, then the turns, named if there are several."""
    system = [message.content for message in messages if message.role == "system"]
    turns = [message for message in messages if message.role != "system"]
    named = (f"{turn.role.capitalize()}:\n{turn.content}" for turn in turns)
    said = [turns[0].content] if len(turns) == 1 else [*named]
    return well_formed("\n\n".join([*system, *said])) + "\n"


def _arguments(command: Sequence[str], root: Path) -> tuple[str, ...]:
    program, *others = (part.replace("{root}", str(root)) for part in command)
    # A path is meant from the configuration's folder, as everywhere; a bare name from the PATH.
    return (str(root / program) if "/" in program else program, *others)
