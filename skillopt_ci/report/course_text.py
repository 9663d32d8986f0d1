"""The course of an attempt as text for a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from skillopt_ci.report.figures import plural, score
from skillopt_ci.rollout.events import Course

#: A longer text is shown with its head and tail, unless all of it is asked for.
SHORT = 2_000


def course_lines(course: Course, *, whole: bool = False) -> Iterator[tuple[str, str]]:
    """Headings and texts, in order: who did what. ``whole`` leaves nothing out."""
    yield "attempt", _head(course)
    for event in course.events:
        for heading, text in _told(event):
            yield heading, text if whole else shortened(text, SHORT)
    if course.end is None:
        yield "unfinished", "the record ends here"


def _head(course: Course) -> str:
    return (
        f"task {course.task}, attempt {course.attempt}, stage {course.stage}, "
        f"solver {course.solver}, skill {course.skill_sha256[:12]}"
    )


def _told(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _step(event)
    match event.get("type"):
        case "try_failed":
            yield f"try {int(event.get('retry', 0)) + 1} failed", str(event.get("reason", ""))
        case "work_ended":
            yield "result", _result(event)
        case "attempt_ended":
            yield "outcome", _outcome(event)


def _step(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    match event.get("type"):
        case "asked":
            for message in event.get("messages", ()):
                yield str(message.get("role")), str(message.get("content"))
        case "model_said":
            yield "model", _said(event.get("message", {}))
        case "tool_used":
            status = event.get("exit_code")
            ended = "" if status is None else f" (exit status {status})"
            name = event.get("call", {}).get("name", "tool")
            yield f"{name}{ended}", str(event.get("output", ""))
        case "nudged":
            yield "nudge", str(event.get("text", ""))
        case "told":
            yield str(event.get("kind", "told")), str(event.get("text", ""))
        case "step_graded":
            found = event.get("score", {})
            yield "score so far", f"{score(found.get('soft'))}: {found.get('reason', '')}"


def _said(message: Mapping[str, Any]) -> str:
    calls = (f"→ {one.get('name')} {one.get('arguments')}" for one in message.get("tool_calls", ()))
    return "\n".join(filter(None, (str(message.get("content") or ""), *calls)))


def _result(event: Mapping[str, Any]) -> str:
    response = event.get("response")
    parts = ["as said last" if response is None else str(response)]
    if event.get("limit"):
        parts.append(f"[cut off by the limit of {event['limit']}]")
    if event.get("artifact_bytes"):
        parts.append(f"[left {plural(int(event['artifact_bytes']), 'byte')} of files behind]")
    if event.get("stored"):
        parts.append("[made before, taken from the store]")
    return "\n".join(parts)


def _outcome(event: Mapping[str, Any]) -> str:
    cost = event.get("cost_usd")
    used = f"{plural(int(event.get('calls') or 0), 'call')}, " + plural(
        int(event.get("tokens") or 0), "token"
    )
    priced = "" if not cost else f", ${cost:.4f}"
    return (
        f"{event.get('status')}: solved {score(event.get('hard'))}, partial credit "
        f"{score(event.get('soft'))}. {event.get('reason', '')} ({used}{priced})"
    )


def shortened(text: str, limit: int) -> str:
    """``text``, or about ``limit`` characters of it: its head and its tail."""
    if len(text) <= limit:
        return text
    left_out, half = len(text) - limit, limit // 2
    return f"{text[:half]}\n[… {left_out:,} characters left out …]\n{text[-half:]}"
