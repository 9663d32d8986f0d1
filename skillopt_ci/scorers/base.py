"""The verdict on one answer, and the shape of everything that gives one."""

import copy
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from skillopt_ci.config.scorers import AnswerFrom, AnswerScorer
from skillopt_ci.errors import SkilloptError
from skillopt_ci.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Score:
    """``hard`` is 1 for solved and 0 otherwise, ``soft`` is partial credit from 0 to 1.

    ``reason`` says in words why; ``answer`` is what was taken out of the response.
    """

    hard: float
    soft: float
    reason: str
    answer: str


class GraderError(SkilloptError):
    """The scorer itself failed: the attempt stays unscored and can be graded again."""


class GraderBroke(GraderError):
    """The grader's program failed on this work; whether on any other too is not known yet."""


class Scorer(Protocol):
    """Grades responses to tasks."""

    async def score(self, task: Task, response: str) -> Score:
        """Grade ``response``; raises :class:`GraderError` when the grader is at fault."""
        ...


class Judge(Protocol):
    """Asks the judge model one question and returns its text."""

    async def __call__(self, prompt: str) -> str:
        """Answer ``prompt``; may raise the model layer's errors."""
        ...


# Reasons in words: one line, short, the telling part kept.

#: Longest reason, in characters: it stands in a table cell and in an analyst's prompt.
REASON_CHARS = 300
_QUOTE_CHARS = 90


def one_line(text: str, limit: int = REASON_CHARS) -> str:
    """``text`` on one line of at most ``limit`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def last_words(text: str, limit: int = REASON_CHARS) -> str:
    """The end of ``text`` on one line: where programs say what went wrong."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"…{line[1 - limit :]}"


def quote(text: str) -> str:
    """``text`` in quotes on one line, shortened if long."""
    return f"'{one_line(text, _QUOTE_CHARS)}'"


def mismatch(references: Sequence[str], answer: str) -> str:
    """What was expected and what was got."""
    others = len(references) - 1
    more = f" (or one of {others} others)" if others > 1 else " (or 1 other)" if others else ""
    got = quote(answer) if answer.strip() else "an empty answer"
    return f"expected {quote(references[0])}{more}, got {got}"


def sentence(parts: Sequence[str]) -> str:
    """Several reasons as one, each with a fair share of the room."""
    share = max(20, REASON_CHARS // max(1, len(parts)) - 2)
    return one_line("; ".join(one_line(part, share) for part in parts))


# Taking the answer out of a response.

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})(?P<info>.*)$")


def extract(response: str, how: AnswerFrom, tag: str = "answer") -> str:
    """The answer inside ``response``.

    ``tag`` and ``fence`` fall back to the last non-empty line when the response has none; an
    answer that is there but empty stays empty.
    """
    found: str | None
    match how:
        case "text":
            return response.strip()
        case "last_line":
            found = None
        case "tag":
            found = last_tagged(response, tag)
        case "fence":
            found = last_fenced(response)
    return last_line(response) if found is None else found


def last_tagged(text: str, tag: str) -> str | None:
    """Content of the last complete ``<tag>…</tag>``, in any letter case; None without one."""
    opening, closing = rf"<{re.escape(tag)}\s*>", rf"</{re.escape(tag)}\s*>"
    # The content holds no further tag: a draft that was never closed is not part of the answer.
    pattern = rf"{opening}((?:(?!{opening}|{closing}).)*){closing}"
    contents = re.findall(pattern, text, re.IGNORECASE | re.DOTALL)
    return str(contents[-1]).strip() if contents else None


def last_line(text: str) -> str:
    """The last line that is not blank, trimmed; empty if all are."""
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


def last_fenced(text: str) -> str | None:
    """Content of the last block between fences of backticks or tildes; None without one.

    A block that is never closed reaches to the end of the text, as in CommonMark; fences may be
    indented, as they are in lists, and their indentation is taken off the content.
    """
    last: list[str] | None = None
    opening: re.Match[str] | None = None
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if opening is None:
            if fence is not None and _opens(fence):
                opening, last = fence, []
        elif fence is not None and _closes(fence, opening):
            opening = None
        elif last is not None:
            last.append(_dedented(line, len(opening["indent"])))
    return None if last is None else "\n".join(last).strip("\n")


def _opens(fence: re.Match[str]) -> bool:
    return fence["mark"][0] == "~" or "`" not in fence["info"]


def _closes(fence: re.Match[str], opening: re.Match[str]) -> bool:
    return fence["mark"].startswith(opening["mark"]) and not fence["info"].strip()


def _dedented(line: str, width: int) -> str:
    return line[min(width, len(line) - len(line.lstrip(" \t"))) :]


# What all families of scorers share.

Spec = TypeVar("Spec", bound=AnswerScorer)

#: Sums of weights and of shares reach a threshold up to rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class AnswerGrader(Generic[Spec]):
    """A scorer that needs nothing but the answer and the task."""

    spec: Spec
    grade: Callable[[Spec, Task, str], Score]
    check: Callable[[Spec, Task], str | None]

    async def score(self, task: Task, response: str) -> Score:
        """Grade the answer inside ``response``; a task without what it takes is a grader error."""
        if fault := self.check(self.spec, task):
            raise GraderError(f"task {task.id!r} cannot be graded: {fault}")
        answer = extract(response, self.spec.answer, self.spec.tag)
        return self.grade(self.spec, task, answer)


async def blamed(
    work: Callable[[], Awaitable[Score]], empty: Callable[[], Awaitable[Score]], answer: str
) -> Score:
    """The score that ``work`` gives, or 0 if the work made the grader fail.

    That is so if the grader fails on it, does not fail on an empty submission (``empty``), and then
    fails on it once more. Raises :class:`GraderError` when the grader fails on both.
    """
    try:
        return await work()
    except GraderBroke as error:
        failure = error
    try:
        await empty()
    except GraderBroke as same:
        message = f"{failure.message}; on an empty submission: {same.message}"
        raise GraderError(message) from failure.__cause__
    try:
        return await work()
    except GraderBroke as again:
        reason = f"the grader fails on this work, not on an empty submission: {again.message}"
        return verdict(False, one_line(reason), answer)


def verdict(solved: bool, reason: str, answer: str, *, soft: float | None = None) -> Score:
    """A score with ``hard`` from ``solved``, and ``soft`` the same unless it is given."""
    hard = float(solved)
    return Score(hard, hard if soft is None else soft, reason, answer)


def reaches(soft: float, threshold: float) -> bool:
    """Whether ``soft`` is at least ``threshold``, rounding errors aside."""
    return soft >= threshold - _ROUNDING


def needs_references(_spec: object, task: Task) -> str | None:
    """Why a scorer that compares with references cannot grade ``task``; None if it can."""
    return (
        None
        if task.references
        else "the task has no references to compare with (a list of texts under `references`)"
    )


# A task as plain data, for graders that are not ours.


def task_data(task: Task) -> dict[str, object]:
    """A JSON-like copy of ``task``: what a grader does to it stays with the grader."""
    return {
        "id": task.id,
        "messages": [
            {"role": message.role, "content": message.content} for message in task.messages
        ],
        "references": list(task.references),
        "task_type": task.task_type,
        "files": {file.name: file.content for file in task.files},
        "metadata": copy.deepcopy(dict(task.metadata)),
    }
