"""The score of one answer, and helpers that all scorers share."""

import math
import re
import unicodedata
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from skillopt_ci.aio import siblings
from skillopt_ci.config import scorers as specs
from skillopt_ci.errors import SkilloptError
from skillopt_ci.tasks.task import Task

#: Most characters of a reason, which appears in table cells and in analysts' prompts.
REASON_CHARS = 300
#: Tolerance for rounding when a weighted sum is compared with a threshold.
_ROUNDING = 1e-9
_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})(?P<info>.*)$")
#: Accents joined with their letters (NFC): models write "é" as one character, macOS as two.
composed = partial(unicodedata.normalize, "NFC")
#: The byte order mark and others that nobody sees; joiners are left, which spell words.
INVISIBLE = "\ufeff\u200b\u2060"
#: Without those; spaces and hyphens that do not break, and full-width characters, as ordinary ones.
PLAIN: Mapping[int, int | str] = {
    **{wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F) if chr(wide) not in "，："},
    **dict.fromkeys(map(ord, INVISIBLE), ""),
    **dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f"), " "),
    **dict.fromkeys(map(ord, "\u2010\u2011"), "-"),
    **dict(zip(map(ord, "\u2044٫٬٪"), "/.,%", strict=True)),  # Arabic points, commas and percents
}
LATEX_BOX = re.compile(r"\\(?:boxed|text(?:bf)?|mathrm)\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Score:
    """``hard`` is 1 if solved, ``soft`` is partial credit, ``answer`` was found in the response."""

    hard: Annotated[float, Field(ge=0, le=1)]
    soft: Annotated[float, Field(ge=0, le=1)]
    reason: str
    answer: str


class GraderError(SkilloptError):
    """The scorer failed: the attempt stays unscored and can be graded again."""


class GraderBroke(GraderError):
    """The grader's program failed on this work; it may succeed on other work."""


#: Grades a response to a task; raises :class:`GraderError` if the grader is at fault.
Scorer = Callable[[Task, str], Coroutine[Any, Any, Score]]
#: Asks the judge model one question; raises GraderBroke if it refuses the prompt.
Judge = Callable[[str], Awaitable[str]]
#: In the reason for the 0 of work that makes its grader fail.
FAILS_GRADER = "the grader fails on this work, not on an empty submission"
#: 1 while work is graded again, when a judge must not be quoted but asked anew.
GRADING: ContextVar[int] = ContextVar("grading", default=0)


def scored(solved: bool, reason: str, answer: str, *, soft: float | None = None) -> Score:
    hard = float(solved)
    return Score(hard, hard if soft is None else soft, reason, answer)


def reaches(soft: float, threshold: float) -> bool:
    return soft >= threshold - _ROUNDING


async def blamed(
    work: Callable[[], Awaitable[Score]], empty: Callable[[], Awaitable[Score]], answer: str
) -> Score:
    """The score that ``work`` returns, or 0 if the grader fails because of the submitted work.

    It is to blame if grading fails twice but works on an ``empty`` one. GraderError if both fail.
    """
    try:
        return await work()
    except GraderBroke as error:
        failure = error
    try:
        await empty()
    except GraderBroke as same:
        raise GraderError(
            f"{failure.message}; on an empty submission: {same.message}"
        ) from failure.__cause__
    token = GRADING.set(1)
    try:
        return await work()
    except GraderBroke as again:
        return scored(False, brief(f"{FAILS_GRADER}: {again.message}"), answer)
    finally:
        GRADING.reset(token)


@dataclass(frozen=True, slots=True)
class FallibleScorer:
    """Grades with ``once(task, response, answer)``, which may fail; see :func:`blamed`."""

    spec: specs.AnswerScorer
    once: Callable[[Task, str, str], Awaitable[Score]]

    async def __call__(self, task: Task, response: str) -> Score:
        answer = extract(response, self.spec.answer, self.spec.tag)
        return await blamed(
            lambda: self.once(task, response, answer), lambda: self.score_empty(task), answer
        )

    async def score_empty(self, task: Task) -> Score:
        return await self.once(task, "", "")


async def grade_parts(
    spec: specs.Combination, parts: Sequence[Scorer], task: Task, response: str
) -> Score:
    """Combine the scores of ``parts``; the first grader that fails stops the others."""
    async with siblings() as group:
        running = [group.create_task(part(task, response)) for part in parts]
    return combined(spec, [done.result() for done in running])


def combined(spec: specs.Combination, scores: Sequence[Score]) -> Score:
    answer = scores[0].answer
    match spec:
        case specs.AllScorer():
            cited = [score for score in scores if not score.hard]
            solved, soft = not cited, math.fsum(score.soft for score in scores) / len(scores)
        case specs.AnyScorer():
            best = max(scores, key=lambda score: (score.hard, score.soft))
            solved, answer = bool(best.hard), best.answer
            soft, cited = max(score.soft for score in scores), [best] if solved else []
        case specs.WeightedScorer():
            weighted = zip(spec.weights, scores, strict=True)
            soft = math.fsum(weight * score.soft for weight, score in weighted)
            soft = min(1.0, soft / math.fsum(spec.weights))
            cited = [score for score in scores if score.soft < 1]
            solved = reaches(soft, spec.hard_at)
    return scored(solved, sentence([score.reason for score in cited or scores]), answer, soft=soft)


def brief(text: str, limit: int = REASON_CHARS) -> str:
    # joins the halves of surrogate pairs; one without the other is no text
    line = " ".join(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def last_words(text: str) -> str:
    """The end of ``text``, where programs usually report their error."""
    line = " ".join(text.split())
    return line if len(line) <= REASON_CHARS else f"…{line[1 - REASON_CHARS :]}"


def quote(text: str) -> str:
    return f"'{brief(text, 90)}'"


def mismatch(references: Sequence[str], answer: str) -> str:
    others = len(references) - 1
    named = "1 other" if others == 1 else f"one of {others} others"
    more = f" (or {named})" if others else ""
    got = quote(answer) if answer.strip() else "an empty answer"
    return f"expected {quote(references[0])}{more}, got {got}"


def sentence(parts: Sequence[str]) -> str:
    share = max(20, REASON_CHARS // max(1, len(parts)) - 2)
    return brief("; ".join(brief(part, share) for part in parts))


def extract(response: str, how: specs.AnswerFrom, tag: str = "answer") -> str:
    """The answer in ``response``; without a tag the last line, without a fence the whole text."""
    if how == "tag" and (found := last_tagged(response, tag.strip("<>"))) is not None:
        return found
    if how == "fence" and (found := last_fenced(response)) is not None:
        return found
    if how in ("text", "fence"):
        return response.strip()
    lines = (line.strip() for line in reversed(response.splitlines()))
    # what closes a formula or a fenced block is no answer
    return next((line for line in lines if line not in ("", "\\]", "$$", "```", "~~~")), "")


def program_score(
    program: str, status: int, said: tuple[str, str], answer: str, hard_at: float | None
) -> Score:
    """The score by exit status or, with ``hard_at``, by the last line printed.

    ``said`` is output and errors. Raises :class:`GraderBroke` unless that line is from 0 to 1.
    """
    output, errors = said
    if hard_at is None:
        reason = last_words(errors.strip() or output) or f"exit status {status}"
        return scored(status == 0, reason, answer)
    line = extract(output, "last_line")
    try:
        soft = float(line)
    except ValueError:
        soft = -1.0
    if not 0 <= soft <= 1:
        raise GraderBroke(
            f"{program} printed {quote(line)} where a number from 0 to 1 was expected"
            f" (exit status {status}): {last_words(errors) or 'it wrote no error'}"
        )
    reason = last_words(errors) or f"{program} gave {soft:g}"
    return scored(reaches(soft, hard_at), reason, answer, soft=soft)


def last_tagged(text: str, tag: str) -> str | None:
    """The content of the last complete ``<tag>…</tag>``, in any letter case; None without one."""
    opening, closing = rf"<{re.escape(tag)}\s*>", rf"</{re.escape(tag)}\s*>"
    # The content must not contain the tag: an unclosed draft is not part of the answer.
    pattern = rf"{opening}((?:(?!{opening}|{closing}).)*){closing}"
    contents = re.findall(pattern, text, re.IGNORECASE | re.DOTALL)
    return str(contents[-1]).strip() if contents else None


def last_fenced(text: str) -> str | None:
    """The last fenced block, or None; as in CommonMark, an unclosed one extends to the end."""
    last: list[str] | None = None
    opening: re.Match[str] | None = None
    for line in re.split(r"\r\n?|\n", text):
        fence = _FENCE.match(line)
        if opening is None:
            if fence is not None and (fence["mark"][0] == "~" or "`" not in fence["info"]):
                opening, last = fence, []
            continue
        if fence and fence["mark"].startswith(opening["mark"]) and not fence["info"].strip():
            opening = None
        elif last is not None:
            indented = len(line) - len(line.lstrip(" \t"))
            last.append(line[min(len(opening["indent"]), indented) :])
    return None if last is None else "\n".join(last).strip("\n")


def needs_references(_spec: object, task: Task) -> str | None:
    missing = "the task has no references to compare with (a list of texts under `references`)"
    return None if task.references else missing


def task_data(task: Task) -> dict[str, object]:
    """What external graders read of ``task``, as JSON."""
    return {
        "id": task.id,
        "messages": [{"role": one.role, "content": one.content} for one in task.messages],
        "references": list(task.references),
        "task_type": task.task_type,
        "files": {file.name: file.content for file in task.files},
        "metadata": dict(task.metadata),
    }
