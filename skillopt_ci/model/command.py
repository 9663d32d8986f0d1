"""A program as a model: the prompt on its standard input, the answer on its standard output."""

import os
import re
import shutil
from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path

from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import ComputerFailure, ModelSetupError
from skillopt_ci.liveness import scratch_folder
from skillopt_ci.messages import Image, Message, well_formed
from skillopt_ci.model.access import redact, secret_values
from skillopt_ci.model.retry import TransientFailure
from skillopt_ci.model.types import ChatReply, ChatRequest, ModelRefusal, estimated_usage
from skillopt_ci.program import run_program, signal_name, visible_environ

#: A longer output counts as a failed try.
_MOST_OUTPUT_BYTES = 4_000_000
#: Exit statuses of a program that is missing or cannot be started.
CANNOT_RUN = (126, 127)

# How agent CLIs report errors of their servers.
BAD_KEY = re.compile(
    r"invalid (?:x-)?api[ -]?key|incorrect api key|disabled organization"
    r"|api key (?:is )?(?:not valid|invalid|missing|required|expired)|(?:log ?|sign )in again"
    r"|authentication[_ ](?:error|failed|required)|not (?:logged|signed) in|failed to authenticate"
    r"|no authentication information|(?<!line )(?<![\d.,])(?<!\d:)\b40[1-3]\b(?![.,:]\d)"
    r"|unauthori[sz]ed|(?:run|use) (?:the )?'?/login|(?:set an|invalid) auth method|credit balance",
    re.IGNORECASE,
)
BUSY = re.compile(
    r"rate[ _-]?limit|too many requests|overloaded|temporarily (?:blocked|limited)"
    r"|(?<!line )(?<![\d.,])(?<!\d:)\b(?:408|429|50[0234]|52\d)\b(?![.,:]\d)"  # not 12,520, x:520:1
    r"|service unavailable|resource[_ ]exhausted|quota|usage limit|(?:internal )?server[ _]error"
    r"|econnre(?:set|fused)|etimedout|enotfound|eai_again|unable to connect|request timed out"
    r"|connection (?:error|reset|refused|failed|(?:was )?closed)|socket hang up|network error"
    r"|you(?:['’]ve| have)? (?:hit|reached) your (?!step|turn|time)[\w'’ -]{0,30}"  # not a task's
    r"(?:limit|cap|budget)\b|(?:hour|weekly) limit reached|capacity (?:is )?unavailable"
    r"|out of (?:extra usage|(?:usage )?credits)|response (?:stalled mid-stream|stopped arriving)"
    r"|stream (?:disconnected|idle timeout)|fetch failed|at capacity|high demand|temporary error"
    # an answer that broke off, or the page of a proxy
    r"|empty or malformed response|api error: (?:incomplete|un(?:expected|terminated)) .{0,60}json",
    re.IGNORECASE,
)
REFUSED = re.compile(
    r"(?:prompt|input|context)\b.{0,60}\b(?:too long|exceed\w*|maximum)"
    r"|context[ _](?:length|window)|content[ _](?:filter|policy)|usage polic|invalid_prompt"
    r"|safeguards flagged|flagged for possible",
    re.IGNORECASE,
)
WRONG_SETTING = re.compile(
    r"\bmodels?\b.{0,80}\b(?:not (?:found|exist)|is not (?:supported|available))"
    r"|cannot use this model|unknown (?:option|arguments?)\b|unexpected argument"
    r"|root/sudo privileges|(?<!line )(?<!\d:)\b404\b(?!:\d)",
    re.IGNORECASE,
)


class CommandClient:
    """Runs a command once per call; ``{root}`` becomes ``root``. ModelSetupError if missing."""

    def __init__(
        self, section: str, config: ModelRole, root: Path, environ: Mapping[str, str]
    ) -> None:
        self._section, self._config = section, config
        self._environ = config.preset.with_keys(visible_environ(environ, config.variables))
        self._secrets = secret_values(config.variables, environ)
        root = root.resolve()
        program, *others = (
            part.replace("{root}", str(root)).replace("{model}", config.model)
            for part in config.program
        )
        # Paths are relative to the configuration's folder, as everywhere; bare names on the PATH.
        self._arguments = (str(root / program) if "/" in program else program, *others)
        if shutil.which(self._arguments[0], path=self._environ.get("PATH", os.defpath)) is None:
            raise self._not_there("not found")

    async def complete(self, request: ChatRequest) -> ChatReply:
        _require_abilities(self._section, self._config, request)
        with scratch_folder("command") as name:
            workplace = Path(name, "workplace")
            workplace.mkdir()
            for picture, image in _pictures(request.messages).items():
                (workplace / picture).write_bytes(b64decode(image.data))
            try:
                done = await run_program(
                    self._arguments,
                    stdin=rendered(request.messages).encode(),
                    work=workplace,
                    cwd=workplace,
                    output_bytes=_MOST_OUTPUT_BYTES,
                    keeps_home=True,
                    environ=self._environ,
                    timeout=self._config.timeout,
                )
            except TimeoutError as error:
                raise TransientFailure(f"no answer within {self._config.timeout:g} s") from error
            except ComputerFailure as error:
                raise self._not_there(str(error)) from error
        trace = redact(done.err.tail(40_000), self._secrets)
        text = redact(done.stdout, self._secrets).strip()
        shown = [" ".join(one.split())[-300:] for one in (trace, text)]
        said = " | ".join(filter(None, shown)) or "it said nothing"
        if done.signal:
            raise TransientFailure(f"killed by {signal_name(done.signal)}: {said}")
        if done.exit_code in CANNOT_RUN:
            raise self._not_there(f"exit status {done.exit_code}: {said}")
        if done.exit_code:
            self._refuse_setup(said)
            raise TransientFailure(f"exit status {done.exit_code}: {said}")
        if done.out.truncated:
            raise TransientFailure(f"it printed more than {_MOST_OUTPUT_BYTES:,} bytes")
        usage = estimated_usage(request.messages, text)
        return ChatReply(text, "stop", self._config.model, usage, trace.strip())

    def _refuse_setup(self, said: str) -> None:
        """Raise for errors of a known agent CLI that a retry would not fix."""
        config, section = self._config, self._section
        if config.provider == "command" or BUSY.search(said):
            return
        if REFUSED.search(said):
            raise ModelRefusal(f"{config.preset.title} refused the prompt: {said}")
        if BAD_KEY.search(said):
            raise ModelSetupError(
                f"{section}: {config.preset.title} is not logged in: {said}",
                hint="Log in as the user of this machine, or set its key (it sees "
                f"{', '.join(config.variables)}).",
            )
        if WRONG_SETTING.search(said):
            raise ModelSetupError(
                f"{section}: {config.preset.title} cannot work as it is set up: {said}",
                hint=f"Check {section}.model and the version of {config.program[0]}.",
            )

    def _not_there(self, detail: str) -> ModelSetupError:
        return ModelSetupError(
            f"{self._section}.command: {self._config.program[0]!r} cannot be run: {detail}",
            hint="Give a program on the PATH, or one of the repository as {root}/path/to/it; it "
            f"must be executable. Variables that it needs go into {self._section}.env.",
        )


def _require_abilities(section: str, config: ModelRole, request: ChatRequest) -> None:
    """Raise :class:`ModelSetupError` if the provider cannot take the request's images or tools."""
    preset = config.preset
    if not preset.images and any(message.images for message in request.messages):
        raise ModelSetupError(
            f"{section}: {preset.title} does not accept pictures, but the task has some",
            hint="Choose another provider for this role, or leave the pictures out.",
        )
    if not preset.tools and request.tools:
        raise ModelSetupError(
            f"{section}: {preset.title} cannot call tools, but the task needs them",
            hint="Choose a provider that serves a model over HTTP for this role.",
        )


def rendered(messages: Sequence[Message]) -> str:
    system = [message.content for message in messages if message.role == "system"]
    turns = [message for message in messages if message.role != "system"]
    named = (f"{turn.role.capitalize()}:\n{turn.content}" for turn in turns)
    said = [turns[0].content] if len(turns) == 1 else [*named]
    names = _pictures(messages)
    shown = [f"Pictures, as files in the current folder: {', '.join(names)}"] if names else []
    return well_formed("\n\n".join([*system, *said, *shown])) + "\n"


def _pictures(messages: Sequence[Message]) -> dict[str, Image]:
    images = enumerate((image for message in messages for image in message.images), start=1)
    return {f"picture-{n}.{image.media_type.rpartition('/')[2]}": image for n, image in images}
