"""Read the attempts that the report shows from this machine's record of events."""

from collections.abc import Iterator

from skillopt_ci.cli.assemble import events_path
from skillopt_ci.cli.reader import RunReader
from skillopt_ci.redaction import Redact
from skillopt_ci.report.html_attempts import Recorded, Trajectory, Turn, recorded, wishes
from skillopt_ci.report.terminal import course_lines, shortened
from skillopt_ci.report.text import score
from skillopt_ci.report.view import RunView
from skillopt_ci.rollout.events import Course, courses, read_events
from skillopt_ci.rollout.types import Status

#: Characters of one text, and of all texts of one attempt.
_TEXT, _ATTEMPT = 1_600, 6_000
#: What a turn is, by its heading in the record; all others are tools.
_KINDS = ("system", "user", "model", "result", "outcome")
_SOLVED = 1 - 1e-9


def recorded_attempts(reader: RunReader, run: RunView, redact: Redact) -> Recorded:
    """The attempts that the sections of the report could show.

    Of other attempts nothing is kept, so that memory does not grow with the record.
    """
    wanted = {(one.stage, one.task, one.skill) for own in wishes(run).values() for one in own}
    count = 0

    def wished() -> Iterator[Trajectory]:
        nonlocal count
        for course in courses(read_events(events_path(reader.ledger, reader.state.run))):
            count += 1
            if (course.stage, course.task, course.skill_sha256) in wanted:
                yield trajectory(course, redact)

    found = recorded(wished())
    return Recorded(found.attempts, count)


def trajectory(course: Course, redact: Redact) -> Trajectory:
    """An attempt as the report shows it, shortened, without the secrets that are known by now."""
    end = course.end or {}
    measured = str(end.get("status", "")) in [one for one in Status if one.measured]
    hard, soft = float(end.get("hard") or 0), float(end.get("soft") or 0)
    return Trajectory(
        task=redact(course.task),
        stage=course.stage,
        attempt=course.attempt,
        skill=course.skill_sha256,
        outcome=_outcome(hard, soft) if measured else _unmeasured(course),
        solved=hard >= _SOLVED if measured else None,
        turns=_bounded(tuple(_turns(course, redact))),
    )


def _outcome(hard: float, soft: float) -> str:
    if hard >= _SOLVED:
        return "solved"
    return f"solved in part ({score(max(hard, soft))})" if hard > 0 or soft > 0 else "failed"


def _unmeasured(course: Course) -> str:
    if course.end is None:
        return "not ended"
    return f"not measured: {str(course.end.get('status')).replace('_', ' ')}"


def _turns(course: Course, redact: Redact) -> Iterator[Turn]:
    """What was said and done. The instructions are the same for all tasks, but for the skill."""
    first, *rest = course_lines(course, whole=True)
    del first
    for heading, text in rest:
        if heading == "system" or (heading, text) == ("result", "as said last"):
            continue
        kind = heading if heading in _KINDS else "tool"
        yield Turn(kind, redact(heading), shortened(redact(text), _TEXT))


def _bounded(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """The first two turns and as many of the last ones as there is room for."""
    room = _ATTEMPT - sum(len(turn.text) for turn in turns[:2])
    last: list[Turn] = []
    for turn in reversed(turns[2:]):
        room -= len(turn.text)
        if room < 0:
            break
        last.insert(0, turn)
    left_out = len(turns) - len(turns[:2]) - len(last)
    gap = (Turn("gap", "", f"{left_out} turns left out"),) if left_out > 0 else ()
    return (*turns[:2], *gap, *last)
