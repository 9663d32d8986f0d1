"""Answered calls in a file, for the cache of another machine.

Such a file is as trustworthy as the place it comes from: an answer in it is taken for what the
model said. It must come from a job of the same workflow run.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillopt_ci.errors import UsageError
from skillopt_ci.messages import ToolCall
from skillopt_ci.model.cache import CallCache, content_of, outcome_of
from skillopt_ci.model.types import Usage
from skillopt_ci.util import write_atomically


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, str_max_length=50_000_000)


_AnyShape = TypeVar("_AnyShape", bound=_Shape)


class _Header(_Shape):
    format: Literal["skillopt-ci answers"] = "skillopt-ci answers"
    version: Literal[1] = 1


class _Reply(_Shape):
    text: str
    finish_reason: str
    model: str
    trace: str
    tool_calls: tuple[ToolCall, ...] = ()


class _Refusal(_Shape):
    refusal: str
    hint: str


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
    """The lines of such a file, its header first; ``further`` ones stand last.

    An answer that is no Unicode text (half of a surrogate pair) is left out.
    """
    lines = [_Header().model_dump_json()]
    for key in dict.fromkeys(keys):
        if (call := cache.get(key)) is None:
            continue
        content = content_of(call.outcome)
        shape = _Refusal if "refusal" in content else _Reply
        try:
            answer = _Answer(
                key=key,
                paid_by=call.paid_by,
                usage=call.outcome.usage,
                reply=shape.model_validate(content, strict=False),
            )
            lines.append(answer.model_dump_json())
        except ValueError:
            continue
    return (*lines, *further)


def _nothing_else(line: str) -> Callable[[], None]:
    raise ValueError(f"unknown kind of line: {line[:40]}")


def import_answers(cache: CallCache, files: Iterable[Path], take: Take = _nothing_else) -> int:
    """Put the answers of ``files`` into ``cache``; return how many lines were taken.

    ``take`` reads lines of other kinds. Where two answer the same call, and where the cache has an
    answer, the first one stands. Raises UsageError that names file and line, before anything is
    taken, if a file is not as it was written.
    """
    return _put(cache, [one for file in files for one in _parsed(_lines(file), file, take)])


def import_answer_lines(
    cache: CallCache, lines: Iterable[str], source: Path, take: Take = _nothing_else
) -> int:
    """The same for the lines of one such file; ``source`` names it in errors."""
    return _put(cache, list(_parsed(lines, source, take)))


def _put(cache: CallCache, entries: list[_Answer | Callable[[], None]]) -> int:
    for entry in entries:
        if isinstance(entry, _Answer):
            outcome = outcome_of(entry.reply.model_dump(), entry.usage)
            cache.put(entry.key, outcome, paid_by=entry.paid_by)
        else:
            entry()
    return len(entries)


def _lines(file: Path) -> list[str]:
    try:
        # only "\n" ends a line: JSON strings may hold other line breaks
        return file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The answers in {file} cannot be read: {error}") from error


def _parsed(lines: Iterable[str], file: Path, take: Take) -> Iterator[_Answer | Callable[[], None]]:
    header, *entries = lines
    _validated(_Header, header, file, 1)
    for number, line in enumerate(entries, start=2):
        if line.startswith('{"key":'):
            yield _validated(_Answer, line, file, number)
        elif line:
            try:
                yield take(line)
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
