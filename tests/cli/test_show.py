import io
import json
import os
import re
import stat
from contextlib import redirect_stdout
from itertools import takewhile
from pathlib import Path

import pytest
from command_line import Done, Terminal
from hypothesis import example, given
from hypothesis import strategies as st

from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.read import open_reader, step_places
from skillopt_ci.cli.report import page_evidence
from skillopt_ci.cli.show import print_diff
from skillopt_ci.errors import ExitCode
from skillopt_ci.git.locks import run_lock
from skillopt_ci.report.html_page import build_page
from skillopt_ci.report.terminal import LOG_HEADINGS
from skillopt_ci.training.offline_eval import NamedSkill
from tests.cli.conftest import BRANCH
from tests.conftest import EPOCH_ENDS, Checkout


def test_a_step_is_shown_with_its_diff(cli, trained):
    done = cli(trained, "show", "1")
    assert (done.code, done.out.splitlines()[0]) == (0, "Step 1, epoch 1 (simulated models)")
    parts = ("training tasks", "reasoning", "edit 1", "verdict", "selection tasks", "+++ b/skills/")
    assert [part for part in parts if f"\n{part}" not in done.out] == []
    found = cli(trained, "show", "--json").json  # the last one
    assert found["step"] == 2
    assert found["decision"]["score_before"] is not None
    assert "\x1b" not in done.out


def test_the_run_at_a_glance(cli, trained, git):
    done = cli(trained, "status")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Run quickstart (simulated models)\n")
    assert re.search(r"last step +2 \(epoch 1\)\n", done.out)
    assert re.search(r"(?s)  target +\d+ calls.*    selection +\d+ calls", done.out)
    found = cli(trained, "status", "--json").json
    assert found["commit"] == git(trained, "rev-parse", "skillopt/quickstart")
    assert (found["run"], found["step"], found["simulated"]) == ("quickstart", 2, True)


@pytest.mark.parametrize(
    "options", [(), ("--depth=1",), ("--depth=1", "--single-branch", "--branch=main")]
)
def test_any_clone_without_configuration_or_tasks_will_do(cli, clone, options):
    folder = clone(*options)
    for path in [folder / "skillopt.yaml", *folder.glob("tasks/*")]:
        path.unlink()
    done = cli(folder, "status")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"last step +2", done.out)


def test_reading_leaves_no_trace(cli, done, git):
    before = git(done, "for-each-ref"), git(done, "status", "--porcelain=v2")
    for command in (("status",), ("log",), ("show", "1")):
        assert cli(done, *command).code == 0
    assert (git(done, "for-each-ref"), git(done, "status", "--porcelain=v2")) == before


LEDGER = "skills/ledger/SKILL.md"
MORE = ("-o", "train.num_epochs=2")
ENDS = (*MORE, "-o", "optimizer.use_slow_update=true")
SCHEDULED = (*ENDS, "-o", "schedule.slow_update=scheduled")
TESTED = ("-o", "evaluation.eval_test=true")


@pytest.mark.parametrize(
    ("options", "sentence", "work"),
    [
        ((), "nothing: all epochs are trained", "done"),
        (MORE, "step 3 of 4, by `step` or `run`", "step"),
        (ENDS, "the end of epoch 1, then step 3 of 4, by `step` or `run`", "epoch_end"),
        (ENDS[2:], "the end of epoch 1, by `step` or `run`", "epoch_end"),
        (
            SCHEDULED,
            "step 3 of 4, by `step` or `run`; the end of epoch 1 is due, by `slow-update`",
            "step",
        ),
        (SCHEDULED[2:], "the end of epoch 1, by `slow-update`", "epoch_end"),
        (
            TESTED,
            "the tests and the summary, by `step`, `run` or `finish`; all epochs are trained",
            "finish",
        ),
    ],
)
def test_what_is_next_is_said_where_the_configuration_is(cli, trained, options, sentence, work):
    assert next_said(cli(trained, "status", *options)) == sentence
    assert cli(trained, "status", "--json", *options).json["next"] == work


def test_a_finished_run_has_nothing_next_until_its_skill_changes(cli, ended):
    asked = ("status", *TESTED, *ENDS[2:], "-o", "budget.run.calls=9200")
    left = 9200 - cli(ended, "status", "--json").json["calls"]  # the tests are made
    assert f"all epochs are trained (about {left:,} calls of" in next_said(cli(ended, *asked))
    Checkout(ended).commit("skills/ledger/SKILL.md", "# Brief\n", branch=BRANCH)
    assert "; then the tests and the summary, by `step`" in next_said(cli(ended, *asked))


def test_a_skill_that_was_moved_is_told_as_step_tells_it(cli, done, git):
    git(done, "mv", "skills/ledger", "skills/moved")
    git(done, "commit", "--quiet", "--all", "--message=Move")
    told = next_said(cli(done, "status", "-o", "skill=skills/moved/SKILL.md"))
    assert told.startswith(f"no step until you fix this: Run 'quickstart' trains {LEDGER}, but")
    assert "merge skillopt/quickstart first" in told


def test_without_the_configuration_nothing_is_guessed(cli, done, git):
    git(done, "rm", "--quiet", "skillopt.yaml")
    assert not re.search("^next ", cli(done, "status").out, re.MULTILINE)
    found = cli(done, "status", "--json").json
    assert (found["next"], found["steps"], found["epoch_end_due"]) == (None, None, None)


def test_a_candidate_that_waits_is_in_flight(cli, done, git):
    proposing = ("-o", "model.optimizer.seed=1")  # by which this step has something to propose
    halfway = cli(done, "step", "--until-candidate", *MORE, *proposing)
    assert halfway.code == 0, halfway.err
    commit = git(done, "rev-parse", "skillopt-candidate/quickstart")
    told = cli(done, "status")
    assert f"step 3: its candidate {commit[:10]} waits to be measured\nits proposal " in told.out
    assert next_said(told) == "the verdict on it, by `step` or `run`"
    found = cli(done, "status", "--json", *MORE).json
    assert found["in_flight"] == {"what": "step 3", "commit": commit}
    assert re.match(r" *3 .* in flight", cli(done, "log", "-n", "1").out.splitlines()[-1])
    assert (found["next"], found["steps"]) == ("verdict", 4)
    # a step is proposed again for whatever people commit meanwhile
    for branch in ("main", BRANCH):
        text = Checkout(done).show(branch, LEDGER)
        Checkout(done).commit(LEDGER, f"Be brief.\n\n{text}", branch=branch)
        told = cli(done, "status", *MORE)
        assert f"step 3: its candidate {commit[:10]} will be set aside\n" in told.out
        assert next_said(told).endswith(" changed by hand; then step 3 of 4, by `step` or `run`")
    found = cli(done, "status", "--json", *MORE).json
    assert (found["next"], found["unscored"], "refused" in found) == ("step", True, False)


def test_the_end_of_an_epoch_in_flight_is_told_by_its_number(cli, checkout):
    for _ in range(3):  # the third is of the second epoch
        checkout.step(*EPOCH_ENDS, "schedule.slow_update=scheduled")
    checkout.stop(epoch_end=True)
    folder = checkout.folder
    assert re.search(r"^in flight +end of epoch 1: ", cli(folder, "status").out, re.MULTILINE)
    assert cli(folder, "show", "--epoch", "1", "--json").json["decision"] is None
    assert "<b>End of epoch 1</b>: in flight" in cli(folder, "comment", "--json").json["comment"]


def test_a_process_at_work_in_the_clone_is_told(cli, trained):
    found = cli(trained, "status", "--json").json
    assert (found["at_work"], found["unscored"]) == (False, False)
    with run_lock(trained / ".git", "quickstart"):
        told = cli(trained, "status")
        assert "another skillopt-ci is training this run in this clone now\n" in told.out
        assert cli(trained, "status", "--json").json["at_work"] is True
    assert "at work" not in cli(trained, "status").out


def test_a_skill_of_which_a_step_was_taken_back_is_measured_first(cli, done):
    scored = Checkout(done).show(BRANCH, "skills/ledger/SKILL.md")
    assert cli(done, "revert", "1").code == 0
    assert ", since a part of it was taken back; then " in next_said(cli(done, "status", *MORE))
    found = page_evidence(open_reader(Globals({}, done)))
    assert found.versions[-1].label == "changed since, not scored yet"
    assert "the skill was changed since: `step` or `run` scores it again" in build_page(found)
    Checkout(done).commit("skills/ledger/SKILL.md", scored, branch=BRANCH)  # it is put back
    assert "the skill was changed since" not in cli(done, "status", *MORE).out


def test_a_shallow_clone_does_not_ask_what_base_changed(cli, done, clone):
    Checkout(done).commit(LEDGER, "# Brief\n")
    shallow = clone("--depth=1", "--no-single-branch", of=done)
    done.rename(done.parent / "away")
    assert next_said(cli(shallow, "status", *MORE)) == "step 3 of 4, by `step` or `run`"


def next_said(told: Done) -> str:
    lines = told.out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("next "))
    more = takewhile(lambda line: line.startswith("     "), lines[start + 1 :])
    return " ".join(part.strip() for part in (lines[start].removeprefix("next"), *more))


@pytest.fixture
def long(done: Path) -> Path:
    """A run with 201 events: steps of more digits, long reasons."""
    checkout, file = Checkout(done), ".skillopt/quickstart/history.jsonl"
    start, *_, step = checkout.show(BRANCH, file).splitlines()
    steps = [json.dumps({**json.loads(step), "step": n, "epoch": n // 9}) for n in range(1, 200)]
    asked = {**json.loads(start), "action": "measure_again", "reason": "the scorer changed " * 9}
    checkout.commit(file, "\n".join([start, *steps, json.dumps(asked), ""]), branch=BRANCH)
    return done


def test_events_are_listed_oldest_first_and_only_the_last_if_asked(cli, done):
    checkout, file = Checkout(done), ".skillopt/quickstart/steps/0001.json"
    record = json.loads(checkout.show(BRANCH, file))
    record["decision"]["gate"]["standard_error"] = 1
    checkout.commit(file, json.dumps(record), branch=BRANCH)
    title, heading, *rows = cli(done, "log").out.splitlines()
    assert title == "Run quickstart (simulated models)"
    assert " ".join(heading.split()) == "step epoch before after best edits words verdict"
    assert [row.split()[0] for row in rows] == ["–", "1", "2"]
    assert rows[0].endswith("start: training starts")
    assert rows[1].endswith(" merged, within noise")  # the record says how sure it is
    title, _, row = cli(done, "log", "-n", "1").out.splitlines()
    assert title.endswith(", newest 1 of 3 events")
    assert row.startswith("2 ")
    lines = cli(done, "log", "--json").out.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["start", "step", "step"]


@pytest.mark.parametrize(
    ("width", "left_out"),
    [(width, {"words", "edits", "epoch"}) for width in (40, 60)] + [(80, set()), (120, set())],
)
def test_a_narrow_terminal_gets_fewer_columns(cli, long, monkeypatch, width, left_out):
    monkeypatch.setenv("COLUMNS", str(width))
    _, *lines = cli(long, "log").out.splitlines()
    assert sum(not line.startswith(" ") for line in lines[1:]) == 201  # every event
    assert max(map(len, lines)) <= width
    assert set(LOG_HEADINGS) - set(lines[0].split()) == left_out


LONG = "Write every date as year, month and day with hyphens between, and never with words for it"
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def shown(before: str, after: str, *, columns: int = 80, stream: io.StringIO | None = None) -> str:
    stream = io.StringIO() if stream is None else stream
    settings = Globals({"COLUMNS": str(columns), "TERM": "xterm-256color"}, Path())
    with redirect_stdout(stream):
        print_diff(NamedSkill("initial", before), NamedSkill("current", after), settings)
    return stream.getvalue()


def test_changed_words_stand_in_brackets_and_a_new_line_needs_none():
    told = shown("# Dates\nWrite dates day first.\n", "# Dates\nWrite dates year first.\n")
    assert told.splitlines() == [
        "− initial, 6 words",
        "+ current, 6 words",
        "",
        "  # Dates",
        "− Write dates [-day-] first.",
        "+ Write dates {+year+} first.",
    ]
    assert shown("# Dates\n", f"# Dates\n{LONG[:39]}\n").endswith(f"\n+ {LONG[:39]}\n")
    assert shown("a\n", "a\n") == "The skill is the same in initial and current.\n"


def test_a_terminal_has_colours_and_the_same_words():
    before, after = "Write dates day first.\n", "Write dates year first.\n"
    coloured = shown(before, after, stream=Terminal())
    assert "\x1b[32m+ Write dates {+year+} first." in coloured
    assert "+ Write dates {+year+} first." in _ESCAPE.sub("", coloured).splitlines()


@given(st.text(), st.text())
@example("a\n", "\x1b[2J\n::error::x\n##[error]x\n")
def test_what_a_model_wrote_commands_neither_terminal_nor_runner(before, after):
    lines = shown(before, after, columns=30).splitlines()
    assert all(re.search(r"\x1b|##\[|^\s*::", line) is None for line in lines)


def test_the_run_is_compared_from_its_start_to_now(cli, trained):
    done = cli(trained, "diff")
    assert (done.code, done.err, "\x1b" in done.out) == (0, "", False)
    assert done.out.startswith("− initial, ")
    assert all(len(line) <= 80 for line in done.out.splitlines())
    found = cli(trained, "diff", "--json").json
    assert (found["before"]["name"], found["lines_added"] > 0) == ("initial", True)
    assert found["diff"].startswith("--- a/skills/ledger/SKILL.md\n+++ b/skills/ledger/SKILL.md\n")


def test_versions_are_words_steps_refs_and_files(cli, done, git):
    (done / "mine.md").write_text("# Mine\n", encoding="utf-8")
    last = git(done, "rev-parse", "skillopt/quickstart")
    assert "the same in step 2 and current" in cli(done, "diff", "2", "current").out
    assert f"the same in step 2 and {last}" in cli(done, "diff", "2", last).out
    assert "the same in initial and main" in cli(done, "diff", "initial", "main").out
    assert "+ mine.md, 2 words" in cli(done, "diff", "best", "mine.md").out


def test_steps_that_were_squashed_away_are_told_so(cli, done, git):
    git(done, "merge", "--quiet", "--squash", "skillopt/quickstart")
    git(done, "commit", "--quiet", "-m", "Take it all in")
    git(done, "branch", "--quiet", "-D", "skillopt/quickstart")
    told = cli(done, "diff", "1")
    assert told.code == 2
    assert "not in the history of this clone any more" in told.err
    assert cli(done, "diff").code == 0


KEPT = "skillopt/quickstart:.skillopt/quickstart/best_skill.md"


def test_it_is_written_to_a_file_that_keeps_its_mode(cli, done, tmp_path):
    file = tmp_path / "SKILL.md"
    file.write_text("old", encoding="utf-8")
    file.chmod(0o640)
    result = cli(done, "best", "--output", file)
    assert (result.code, result.out) == (ExitCode.DONE, "")
    assert file.read_text(encoding="utf-8") == cli(done, "best").out == cli(done, "best", "-O-").out
    assert not (done / "-").exists()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_place_that_cannot_be_written_is_named(cli, done):
    for place in ("skillopt.yaml/SKILL.md", "skillopt.yaml/a/SKILL.md", ".git", "/"):
        result = cli(done, "best", "--output", place)
        assert (result.code, "cannot be written: " in result.err) == (ExitCode.USAGE, True)


def test_links_and_pipes_stay_and_the_mode_is_the_users(cli, done, tmp_path):
    for link in ("link", "new"):
        (tmp_path / link).symlink_to(f"far/{link}.md")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "link.md").touch()
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    before = os.umask(0o077)
    try:
        for name in ("link", "new", "pipe", "absent/plain"):
            assert cli(done, "best", "--output", tmp_path / name).code == 0
    finally:
        os.umask(before)
    assert os.read(reader, 100_000) == (text := cli(done, "best").out.encode())
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    assert all((tmp_path / link).is_symlink() for link in ("link", "new"))
    files = [tmp_path / name for name in ("far/link.md", "far/new.md", "absent/plain")]
    assert [file.read_bytes() for file in files] == [text] * 3
    assert [stat.S_IMODE(file.stat().st_mode) for file in files[1:]] == [0o600, 0o600]


def test_programs_get_it_with_its_score(cli, done, git):
    result = cli(done, "best")
    assert (result.code, result.out) == (ExitCode.DONE, git(done, "show", KEPT) + "\n")
    found = cli(done, "best", "--json").json
    facts = {"text": result.out, "run": "quickstart", "tasks": 16, "simulated": True}
    assert found | facts == found


def test_replay_makes_every_verdict_again(cli, finished, fresh, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")  # too few for all columns
    done = cli(finished, "replay")
    assert (done.code, done.err, "replayed" in done.out) == (0, "", True)
    rows = cli(finished, "replay", "--json").json
    assert {"step 1", "step 2", "end of epoch 1"} <= {row["what"] for row in rows}
    assert {(row["replayed"], type(row["tasks"])) for row in rows} == {("the same", int)}
    assert (cli(fresh, "finish").code, "no verdict" in cli(fresh, "replay").out) == (0, True)


def test_replay_finds_a_verdict_that_the_scores_do_not_support(cli, ended, monkeypatch):
    file, lines = (f".skillopt/quickstart/{name}" for name in ("steps/0001.json", "history.jsonl"))
    record = json.loads(Checkout(ended).show(BRANCH, file))
    start, step, *rest = map(json.loads, Checkout(ended).show(BRANCH, lines).splitlines())
    verdict, lost = record["decision"], {"a": 0.5}
    places = step_places(open_reader(Globals({}, ended)))  # trailers have no other action
    monkeypatch.setattr("skillopt_ci.cli.show.step_places", lambda reader: places)
    for losses, changes, outcome in (
        ({}, {"gate": {**verdict["gate"], "standard_error": 0.5}}, "differs: "),
        (lost, {"gate": {**verdict["gate"]}}, "the same"),
        (lost, {"action": "reject", "beats_best": False}, "not replayed: types of task"),
        ({}, {}, "differs: "),
        (lost, {"score_before": 0.01}, "differs: "),
    ):
        verdict.update(changes)
        verdict["gate"]["losses"] = losses
        Checkout(ended).commit(file, json.dumps(record), branch=BRANCH)
        step |= {key: verdict[key] for key in ("action", "score_before")} | {"reason": f"{changes}"}
        step["skill_sha256"] = (step if verdict["action"] != "reject" else start)["skill_sha256"]
        text = "\n".join(map(json.dumps, (start, step, *rest)))
        Checkout(ended).commit(lines, text, branch=BRANCH)
        assert outcome in (found := cli(ended, "replay")).out.splitlines()[2]
    assert found.code == ExitCode.USAGE
    assert "The records do not support the verdict on step 1." in found.err
    told = cli(ended, "replay", "--json").json  # one object, as of every command that fails
    assert (told["error"]["type"], told["exit_code"]) == ("RepositoryError", ExitCode.USAGE)
    assert "differs: " in told["verdicts"][0]["replayed"]
    steps = [one for one in rest if one["kind"] == "step"]
    for left, outcome in (
        ([step | {"score_after": 1}, *rest], "says otherwise"),
        ([step | {"skill_sha256": ""}, *rest], "says otherwise"),
        (rest, "has no line"),
        ([step, *(one for one in rest if one is not steps[-1])], "has no line"),
        ([step, *steps], "has no line"),  # the end of the epoch has none
    ):
        text = "\n".join(map(json.dumps, (start, *left)))
        Checkout(ended).commit(lines, text, branch=BRANCH)
        assert outcome in cli(ended, "replay", "--json").json["verdicts"][0]["replayed"]
