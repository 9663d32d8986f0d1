"""Answered calls in a file, for the cache of another machine.

Such a file is as trustworthy as the place it comes from: an answer in it is taken for what the
model said. It must come from a job of the same workflow run.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillopt_ci.errors import UsageError
from skillopt_ci.messages import ToolCall
from skillopt_ci.model.cache import CachedCall, CallCache
from skillopt_ci.model.types import ChatReply, ModelRefusal, Usage
from skillopt_ci.util import write_atomically

_Text = Annotated[str, Field(max_length=50_000_000)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


_AnyShape = TypeVar("_AnyShape", bound=_Shape)


class _Header(_Shape):
    format: Literal["skillopt-ci answers"] = "skillopt-ci answers"
    version: Literal[1] = 1


class _ToolCall(_Shape):
    id: _Text
    name: _Text
    arguments: _Text
    state: _Text = ""


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
    usage: Usage
    reply: _Reply | _Refusal


#: Reads a line that is no answer, and returns what takes it in; raises ValueError.
Take = Callable[[str], Callable[[], None]]


def export_answers(
    cache: CallCache, keys: Iterable[str], file: Path, further: Iterable[str] = ()
) -> int:
    """Write the answers with these keys to ``file``, all or nothing; return how many there are.

    ``further`` are lines of other kinds, which follow. Raises UsageError if the file cannot be
    written.
    """
    lines = answer_lines(cache, keys, further)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, "\n".join([*lines, ""]))
    return len(lines) - 1


def answer_lines(
    cache: CallCache, keys: Iterable[str], further: Iterable[str] = ()
) -> tuple[str, ...]:
    """The lines of such a file, its header first; ``further`` ones stand last."""
    known = ((key, cache.get(key)) for key in dict.fromkeys(keys))
    lines = [_line(key, call) for key, call in known if call is not None and _is_text(call)]
    return (_Header().model_dump_json(), *lines, *further)


def _nothing_else(line: str) -> Callable[[], None]:
    raise ValueError(f"unknown kind of line: {line[:40]}")


def import_answers(cache: CallCache, files: Iterable[Path], take: Take = _nothing_else) -> int:
    """Put the answers of ``files`` into ``cache``; return how many lines were taken.

    ``take`` reads lines of other kinds. Where two answer the same call, and where the cache has an
    answer, the first one stands. Raises UsageError that names file and line, before anything is
    taken, if a file is not as it was written.
    """
    return _take_in(cache, [one for file in files for one in _read(file, take)])


def import_answer_lines(
    cache: CallCache, lines: Iterable[str], source: Path, take: Take = _nothing_else
) -> int:
    """The same for the lines of one such file; ``source`` names it in errors."""
    return _take_in(cache, list(_parsed(lines, source, take)))


def _take_in(cache: CallCache, found: Sequence["_Answer | Callable[[], None]"]) -> int:
    for one in found:
        if isinstance(one, _Answer):
            cache.put(one.key, _outcome(one), paid_by=one.paid_by)
        else:
            one()
    return len(found)


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
            *(
                part
                for call in outcome.tool_calls
                for part in (call.id, call.name, call.arguments, call.state)
            ),
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
    return _Answer(
        key=key, paid_by=call.paid_by, usage=outcome.usage, reply=reply
    ).model_dump_json()


def _outcome(answer: _Answer) -> ChatReply | ModelRefusal:
    usage = answer.usage
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


def _read(file: Path, take: Take) -> Iterator[_Answer | Callable[[], None]]:
    try:
        # only "\n" ends a line: JSON strings may hold other line breaks
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The answers in {file} cannot be read: {error}") from error
    yield from _parsed(lines, file, take)


def _parsed(
    content: Iterable[str], file: Path, take: Take
) -> Iterator[_Answer | Callable[[], None]]:
    header, *lines = content
    _validated(_Header, header, file, 1)
    for number, line in enumerate(lines, start=2):
        if line.startswith('{"key":'):
            yield _validated(_Answer, line, file, number)
        elif line:
            yield _taken(take, line, file, number)


def _taken(take: Take, line: str, file: Path, number: int) -> Callable[[], None]:
    try:
        return take(line)
    except ValueError as error:
        raise _no_answer(file, number, str(error).splitlines()[0]) from error


def _validated(shape: type[_AnyShape], line: str, file: Path, number: int) -> _AnyShape:
    try:
        return shape.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise _no_answer(file, number, f"{where}: {first['msg']}") from error


def _no_answer(file: Path, number: int, why: str) -> UsageError:
    return UsageError(
        f"{file}:{number}: no answer of a rollout: {why}",
        hint="Leave this file out: what it lacks is asked again.",
    )
