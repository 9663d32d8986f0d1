"""The course of attempts, read back from their events."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Course:
    """One attempt as it was recorded: ``events`` in order, those of all its tries."""

    stage: str
    task: str
    attempt: int
    solver: str = ""
    skill_sha256: str = ""
    events: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def end(self) -> Mapping[str, Any] | None:
        """What came of it; None if it was never over."""
        return self._last("attempt_ended")

    @property
    def work(self) -> Mapping[str, Any] | None:
        """What the work left to grade; None if it left nothing."""
        return self._last("work_ended")

    @property
    def response(self) -> str:
        """The text that was graded."""
        work, said = self.work or {}, self._last("model_said") or {}
        response = work.get("response")
        return str(said.get("message", {}).get("content", "") if response is None else response)

    def _last(self, kind: str) -> Mapping[str, Any] | None:
        return next((one for one in reversed(self.events) if one.get("type") == kind), None)


def courses(events: Iterable[Mapping[str, Any]]) -> Iterator[Course]:
    """The attempts that ``events`` tell of, each when it is over; the unfinished ones last."""
    under_way: dict[tuple[object, object, object], Course] = {}
    for event in events:
        key = (event.get("stage"), event.get("task"), event.get("attempt"))
        if event.get("type") == "attempt_started":
            left = under_way.pop(key, None)
            if left is not None:
                yield left
            under_way[key] = Course(
                str(key[0]),
                str(key[1]),
                int(event.get("attempt") or 0),
                str(event.get("solver", "")),
                str(event.get("skill_sha256", "")),
            )
        course = under_way.get(key)
        if course is None:
            continue
        course.events.append(event)
        if event.get("type") == "attempt_ended":
            yield under_way.pop(key)
    yield from under_way.values()
