from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from run_views import plain_run

from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.read import open_reader
from skillopt_ci.cli.report import edit_effects, page_evidence, recorded_attempts, trajectory
from skillopt_ci.ledger.records import EditRecord, GateRecord, StepRecord
from skillopt_ci.redaction import HIDDEN, Redactor, unchanged
from skillopt_ci.report.html_attempts import viewer
from skillopt_ci.rollout.events import AttemptTrace

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def course(*events: dict[str, object], status: str = "scored", hard: float = 0.0) -> AttemptTrace:
    end = {"type": "attempt_ended", "status": status, "hard": hard, "soft": hard, "reason": "so"}
    return AttemptTrace("rollout", "task", 0, "chat", "sha", [*events, end])


def said(text: str) -> dict[str, object]:
    return {"type": "model_said", "message": {"content": text}}


def test_the_attempts_of_a_run_are_told_by_step(finished: Path) -> None:
    found = page_evidence(open_reader(Globals({}, finished)))
    shown = viewer(found.run, found.attempts).shown
    assert {one.section for one in shown} == {"", "step-1", "step-2"}
    assert {one.attempt.stage for one in shown} == {"rollout", "selection"}
    step = found.run.steps[0]
    failed = {task.id for task in step.proposal.rollout.tasks if task.failed}
    mine = {one.attempt.task for one in shown if one.section == "step-1"}
    assert failed & mine
    first = next(one for one in shown if one.attempt.skill == step.proposal.skill_before)
    assert first.made_with == "the skill at the start"
    assert first.attempt.turns[-1].kind == "outcome"


def test_test_tasks_are_never_shown(finished: Path) -> None:
    found = page_evidence(open_reader(Globals({}, finished)))
    events = (finished / ".git/skillopt-ci/events/quickstart").glob("*.jsonl")
    lines = (line for file in events for line in file.read_text(encoding="utf-8").splitlines())
    stages = {json.loads(line)["stage"] for line in lines}
    assert any(stage.startswith("test") for stage in stages)
    assert not any(stage.startswith("test") for stage, *_ in found.attempts.attempts)
    assert found.attempts.count > len(found.attempts.attempts)


def test_a_torn_record_is_read_as_far_as_it_goes(done: Path) -> None:
    reader = open_reader(Globals({}, done))
    run = page_evidence(reader).run
    before = recorded_attempts(reader, run, unchanged).count
    newest = max((done / ".git/skillopt-ci/events/quickstart").glob("*.jsonl"))
    newest.write_bytes(newest.read_bytes()[:-40])
    assert recorded_attempts(reader, run, unchanged).count == before  # unfinished, yet begun


@pytest.mark.parametrize(
    ("status", "hard", "solved", "outcome"),
    [
        ("scored", 1.0, True, "solved"),
        ("scored", 0.5, False, "solved in part (0.500)"),
        ("limit", 0.0, False, "failed"),
        ("error", 0.0, None, "not measured: error"),
    ],
)
def test_an_outcome_is_put_into_words(
    status: str, hard: float, solved: bool | None, outcome: str
) -> None:
    found = trajectory(course(status=status, hard=hard), unchanged)
    assert (found.solved, found.outcome) == (solved, outcome)


def test_an_attempt_that_never_ended_is_told_so() -> None:
    left = AttemptTrace("rollout", "task", 0, "chat", "sha", [said("hm")])
    assert trajectory(left, unchanged).outcome == "not ended"


def test_the_instructions_are_left_out_and_the_rest_is_in_order() -> None:
    asked = {
        "type": "asked",
        "messages": [
            {"role": "system", "content": "the skill"},
            {"role": "user", "content": "Do it."},
        ],
    }
    used = {"type": "tool_used", "call": {"name": "bash"}, "output": "ok", "exit_code": 1}
    ended = {"type": "work_ended", "response": None}
    found = trajectory(course(asked, said("I do."), used, ended), unchanged)
    assert [(turn.kind, turn.text) for turn in found.turns[:-1]] == [
        ("user", "Do it."),
        ("model", "I do."),
        ("tool", "ok"),
    ]
    assert found.turns[2].heading == "bash (exit status 1)"


def test_a_long_attempt_keeps_its_beginning_and_its_end() -> None:
    texts = [f"{number} " * 700 for number in range(100, 160)]
    found = trajectory(course(*map(said, texts)), unchanged)
    assert found.size < 6_200
    assert found.turns[0].text.startswith("100 ")
    assert "characters left out" in found.turns[0].text
    assert found.turns[2].kind == "gap"
    assert found.turns[-2].text.startswith("159 ")
    shown = len(found.turns) - 1
    assert found.turns[2].text == f"{61 - shown} turns left out"


def test_secrets_are_hidden_even_where_a_text_is_cut_in_them() -> None:
    secret = "sk-4f9aB27xQz81LmPw"
    redact = Redactor([secret])
    for offset in range(780, 805):
        text = "x" * offset + secret + "y" * 2_000
        found = trajectory(course(said(text)), redact)
        assert "sk-4f" not in found.turns[0].text
    assert HIDDEN in trajectory(course(said(secret)), redact).turns[0].text


def test_the_file_has_the_attempts(cli: Cli, done: Path) -> None:
    assert cli(done, "report", "-q").code == 0
    page = (done / "skillopt-report.html").read_text(encoding="utf-8")
    assert page.count('class="trajectory"') > 5
    events = done / ".git/skillopt-ci/events"
    for file in events.glob("*/*"):
        file.unlink()
    assert cli(done, "report", "-q").code == 0
    page = (done / "skillopt-report.html").read_text(encoding="utf-8")
    assert 'class="trajectory"' not in page
    assert "no attempt is on record" in page


def step(number: int, content: str, gain: float) -> StepRecord:
    record = plain_run(number).steps[-1]
    edit = EditRecord(op="append", content=content, status="applied_append")
    gate = GateRecord(
        policy="paired", planned=40, compared=40, difference=gain, standard_error=0.05
    )
    assert record.decision is not None
    return record.model_copy(
        update={
            "proposal": record.proposal.model_copy(update={"edits": (edit,)}),
            "decision": record.decision.model_copy(update={"gate": gate}),
        }
    )


def test_an_edit_that_gained_is_believed_to_help_and_more_so_with_time() -> None:
    steps = [step(number, "Be brief.", 0.1) for number in range(1, 7)]
    found = edit_effects(steps)[1, 0]
    assert [step for step, _ in found] == [2, 3, 4, 5, 6]
    assert all(effect.helpful > 0.5 for _, effect in found)
    spreads = [effect.sd for _, effect in found]
    assert spreads == sorted(spreads, reverse=True)


def test_edits_are_told_apart() -> None:
    found = edit_effects([step(1, "Good.", 0.2), step(2, "Bad.", -0.2)])
    assert found[1, 0][-1][1].mean > 0 > found[2, 0][-1][1].mean


def test_without_comparisons_nothing_is_believed() -> None:
    assert edit_effects([]) == {}
    assert edit_effects(plain_run(2).steps) == {}


def test_a_long_run_is_told_by_its_newest_steps() -> None:
    steps = [step(number, f"Rule {number}.", 0.1) for number in range(1, 141)]
    found = edit_effects(steps)
    assert (140, 0) in found
    assert (1, 0) not in found
    assert len(found) == 120
