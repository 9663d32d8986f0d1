from collections.abc import Mapping

import pytest

from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger.folder import RunFolder, document, line
from skillopt_ci.ledger.records import HistoryEntry, Measurement, Snapshot, State

FOLDER = RunFolder("demo")
ENTRY = HistoryEntry(
    kind="start", step=0, epoch=0, action="start", reason="a “reason”\nof two lines"
)


def state() -> State:
    snapshot = Snapshot(
        sha256="a", step=0, origin="initial", measurement=Measurement(hard=0, soft=0, score=0)
    )
    return State(
        run="demo",
        skill="SKILL.md",
        step=0,
        epoch=0,
        current=snapshot,
        best=snapshot,
        measured_under="f",
        config_sha256="c",
    )


def test_every_file_is_in_the_run_s_own_folder():
    paths = [FOLDER.state, FOLDER.history, FOLDER.best_skill, FOLDER.initial_skill, FOLDER.step(7)]
    assert all(path.startswith(".skillopt/demo/") for path in paths)
    assert FOLDER.step(7) == ".skillopt/demo/steps/0007.json"


def test_github_is_told_that_the_folder_is_generated():
    assert FOLDER.furniture()[".skillopt/.gitattributes"] == "** linguist-generated=true\n"


def test_a_record_reads_back_as_it_was_written():
    files = {FOLDER.state: document(state())}
    assert FOLDER.read_state(files.get) == state()


def test_history_is_one_line_per_event_oldest_first():
    second = ENTRY.model_copy(update={"kind": "step", "step": 1})
    text = line(ENTRY) + line(second)
    assert text.count("\n") == 2
    assert FOLDER.read_history({FOLDER.history: text}.get) == (ENTRY, second)


def test_what_is_not_there_has_not_happened():
    nothing: Mapping[str, str] = {}
    assert FOLDER.read_state(nothing.get) is None
    assert FOLDER.read_step(nothing.get, 1) is None
    assert FOLDER.read_history(nothing.get) == ()


def test_a_line_that_is_no_event_is_named():
    files = {FOLDER.history: line(ENTRY) + '{"kind": "start"}\n'}
    with pytest.raises(RepositoryError, match=r"history\.jsonl:2 .*: step: Field required") as told:
        FOLDER.read_history(files.get)
    assert "git log -- .skillopt/demo/history.jsonl`" in told.value.hint


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("<<<<<<< HEAD", "the file"),
        (document(state()).replace('"run"', '"invented"'), "run"),
        (document(state()).replace('"step": 0', '"step": "x"'), "step"),
    ],
)
def test_a_state_of_another_making_is_refused_by_its_key(text, part):
    with pytest.raises(RepositoryError, match=rf"state\.json .* not a record .*{part}"):
        FOLDER.read_state({FOLDER.state: text}.get)


def test_a_text_is_read_once_for_each_kind_of_record():
    files = {FOLDER.history: line(ENTRY)}
    (first,), (again,) = FOLDER.read_history(files.get), FOLDER.read_history(dict(files).get)
    assert again is first
    with pytest.raises(RepositoryError, match="is not a record"):
        FOLDER.read_state({FOLDER.state: line(ENTRY)}.get)
    (other,) = FOLDER.read_history({FOLDER.history: line(ENTRY).replace("two", "three")}.get)
    assert other.reason == "a “reason”\nof three lines"
