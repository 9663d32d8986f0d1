"""Answered calls in a file, for the cache of another machine.

Such a file is as trustworthy as the place it comes from: an answer in it is taken for what the
model said. It must come from a job of the same workflow run.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillopt_ci.atomic_file import write_atomically
from skillopt_ci.chat import ToolCall
from skillopt_ci.errors import UsageError
from skillopt_ci.model.cache import CachedCall, CallCache
from skillopt_ci.model.client import ChatReply, ModelRefusal, Usage

_Count = Annotated[int, Field(ge=0)]
_Text = Annotated[str, Field(max_length=50_000_000)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


_AnyShape = TypeVar("_AnyShape", bound=_Shape)


class _Header(_Shape):
    format: Literal["skillopt-ci answers"] = "skillopt-ci answers"
    version: Literal[1] = 1


class _Usage(_Shape):
    calls: _Count
    prompt_tokens: _Count
    completion_tokens: _Count
    cached_tokens: _Count
    reasoning_tokens: _Count
    cost_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    estimated: bool


class _ToolCall(_Shape):
    id: _Text
    name: _Text
    arguments: _Text


class _Reply(_Shape):
    text: _Text
    finish_reason: _Text
    model: _Text
    trace: _Text
    tool_calls: list[_ToolCall] = []


class _Refusal(_Shape):
    refusal: _Text
    hint: _Text


class _Answer(_Shape):
    key: str = Field(pattern=r"^[0-9a-f]{64}$")
    paid_by: str = Field(max_length=1_000)
    usage: _Usage
    reply: _Reply | _Refusal


def export_answers(cache: CallCache, keys: Iterable[str], file: Path) -> int:
    """Write the answers with these keys to ``file``, all or nothing; return how many there are.

    Raises UsageError if the file cannot be written.
    """
    known = ((key, cache.get(key)) for key in dict.fromkeys(keys))
    lines = [_line(key, call) for key, call in known if call is not None and _is_text(call)]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, "\n".join([_Header().model_dump_json(), *lines, ""]))
    return len(lines)


def import_answers(cache: CallCache, files: Iterable[Path]) -> int:
    """Put the answers of ``files`` into ``cache``; return how many there are.

    Where two answer the same call, and where the cache has an answer, the first one stands. Raises
    UsageError that names file and line, before anything is taken, if a file is not as it was
    written.
    """
    answers = [answer for file in files for answer in _read(file)]
    for answer in answers:
        cache.put(answer.key, _outcome(answer), paid_by=answer.paid_by)
    return len(answers)


def _is_text(call: CachedCall) -> bool:
    """Whether the answer can be written as UTF-8; half of a surrogate pair cannot."""
    outcome = call.outcome
    texts = (
        (outcome.message, outcome.hint)
        if isinstance(outcome, ModelRefusal)
        else (
            outcome.text,
            outcome.finish_reason,
            outcome.model,
            outcome.trace,
            *(part for call in outcome.tool_calls for part in (call.id, call.name, call.arguments)),
        )
    )
    return not any("\ud800" <= letter <= "\udfff" for text in texts for letter in text)


def _line(key: str, call: CachedCall) -> str:
    outcome = call.outcome
    reply: _Reply | _Refusal
    if isinstance(outcome, ModelRefusal):
        reply = _Refusal(refusal=outcome.message, hint=outcome.hint)
    else:
        reply = _Reply(
            text=outcome.text,
            finish_reason=outcome.finish_reason,
            model=outcome.model,
            trace=outcome.trace,
            tool_calls=[_ToolCall(**asdict(call)) for call in outcome.tool_calls],
        )
    usage = _Usage(**asdict(outcome.usage))
    return _Answer(key=key, paid_by=call.paid_by, usage=usage, reply=reply).model_dump_json()


def _outcome(answer: _Answer) -> ChatReply | ModelRefusal:
    usage = Usage(**answer.usage.model_dump())
    if isinstance(answer.reply, _Refusal):
        return ModelRefusal(answer.reply.refusal, hint=answer.reply.hint, usage=usage)
    reply = answer.reply
    return ChatReply(
        text=reply.text,
        finish_reason=reply.finish_reason,
        model=reply.model,
        usage=usage,
        trace=reply.trace,
        tool_calls=tuple(ToolCall(**call.model_dump()) for call in reply.tool_calls),
    )


def _read(file: Path) -> Iterator[_Answer]:
    try:
        # only "\n" ends a line: JSON strings may hold other line breaks
        header, *lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The answers in {file} cannot be read: {error}") from error
    _validated(_Header, header, file, 1)
    for number, line in enumerate(lines, start=2):
        if line:
            yield _validated(_Answer, line, file, number)


def _validated(shape: type[_AnyShape], line: str, file: Path, number: int) -> _AnyShape:
    try:
        return shape.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{file}:{number}: no answer of a rollout: {where}: {first['msg']}",
            hint="Leave this file out: what it lacks is asked again.",
        ) from error
