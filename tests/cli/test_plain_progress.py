import io
from collections.abc import Iterable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.cli.progress import NotesOnly, PlainProgress
from skillopt_ci.progress import Event, Note, StageAdvanced, StageFinished, StageStarted


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def written(steps: Iterable[tuple[float, Event]]) -> list[str]:
    stream, clock = io.StringIO(), Clock()
    progress = PlainProgress(stream, clock)
    for seconds, event in steps:
        clock.now += seconds
        progress(event)
    return stream.getvalue().split("\n")[:-1]


def test_a_stage_writes_its_start_and_its_end() -> None:
    steps = [(0, StageStarted("rollout", 3)), (31, StageFinished("rollout", "0.5 n=3"))]
    assert written(steps) == ["· rollout     3 to do", "✓ rollout     0.5 n=3 (31 s)"]


def test_between_them_there_is_at_most_one_line_in_ten_seconds() -> None:
    steps: list[tuple[float, Event]] = [(0, StageStarted("rollout", 100))]
    steps += [(1, StageAdvanced("rollout", f"t{i}")) for i in range(1, 25)]
    assert written(steps)[1:] == [
        "· rollout     10 of 100 after 10 s: t10",
        "· rollout     20 of 100 after 20 s: t20",
    ]


def test_notes_are_written_at_once() -> None:
    steps = [(0, Note("going on with step 3")), (0, Note("no price set", "warning"))]
    assert written(steps) == ["· going on with step 3", "! warning: no price set"]


events: st.SearchStrategy[Event] = st.one_of(
    st.builds(StageStarted, st.text(), st.integers(0, 9)),
    st.builds(StageAdvanced, st.text(), st.text()),
    st.builds(StageFinished, st.text(), st.text()),
    st.builds(Note, st.text(), st.sampled_from(["info", "warning"])),
)


@given(st.lists(st.tuples(st.floats(0, 30), events)))
def test_whatever_comes_each_line_is_one_line_and_no_command(
    steps: list[tuple[float, Event]],
) -> None:
    lines = written(steps)
    assert len(lines) <= len(steps)
    assert all(line[:2] in {"· ", "✓ ", "! "} and line.isprintable() for line in lines)


class Closed(io.StringIO):
    """A log that nobody takes; it knows how often somebody tried."""

    tried = 0

    def write(self, text: str) -> int:
        self.tried += 1
        raise BrokenPipeError


def test_a_log_that_nobody_takes_stops_nothing() -> None:
    stages, notes = Closed(), Closed()
    progress, noting = PlainProgress(stages, Clock()), NotesOnly(notes, quiet=False)
    for _ in range(2):
        progress(StageStarted("rollout"))
        noting(Note("hello"))
    assert (stages.tried, notes.tried) == (2, 2)


def test_notes_only_leaves_progress_out() -> None:
    assert list(noted(quiet=False)) == ["· hello", "! warning: careful"]


def test_quiet_leaves_warnings() -> None:
    assert list(noted(quiet=True)) == ["! warning: careful"]


def noted(*, quiet: bool) -> Iterator[str]:
    stream = io.StringIO()
    observer = NotesOnly(stream, quiet=quiet)
    for event in (StageStarted("a"), Note("hello"), Note("careful", "warning"), StageFinished("a")):
        observer(event)
    yield from stream.getvalue().splitlines()
