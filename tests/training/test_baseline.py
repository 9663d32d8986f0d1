"""What is said of the first measurement: everything solved, nothing, or only errors."""

from dataclasses import replace
from typing import Any

import pytest
from records import state_of

from skillopt_ci.errors import ExitCode, NothingToLearn
from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.ledger.records import Snapshot
from skillopt_ci.skill.document import sha256
from skillopt_ci.training import baseline, trainer
from skillopt_ci.training.gate import no_score_is_higher
from skillopt_ci.training.review_comments import ReviewerNote
from skillopt_ci.training.state import ScoredCheckout
from tests.conftest import BRANCH, SKILL, tasks

FOUR = "evaluation.sel_env_num=4"
NOTE = ReviewerNote(id="review-1", author="ada", text="Be brief.")


def measured(solved: int, of: int, errors: tuple[str, ...] = ()) -> Measurement:
    tasks = {f"s{number}": (float(number < solved),) * 2 for number in range(of)}
    score = solved / of if of else 0.0
    return Measurement(hard=score, soft=score, score=score, tasks=tasks, errors=errors)


def snapshot(measurement: Measurement) -> Snapshot:
    return Snapshot(sha256="a" * 64, step=0, origin="initial", measurement=measurement)


def standing(measurement: Measurement, **changes: Any) -> ScoredCheckout:
    return ScoredCheckout("0" * 40, None, "#", state_of(snapshot(measurement), **changes), ())


def test_all_solved_is_nothing_to_learn_and_says_what_to_do(checkout):
    with pytest.raises(NothingToLearn, match=r"selection tasks \(4\) are solved") as refusal:
        trainer.next_work(checkout.session(FOUR), standing(measured(4, 4)), None)
    assert refusal.value.exit_code is ExitCode.NOTHING_TO_DO
    hint = refusal.value.hint or ""
    assert hint.startswith("Put harder tasks")
    assert hint.endswith(" To use all 8 of them, set evaluation.sel_env_num: 0.")


def test_what_was_not_measured_is_not_called_solved(checkout):
    six = checkout.session("evaluation.sel_env_num=6")
    message = r"all measured selection tasks \(4; 2 were not measured\) are solved"
    with pytest.raises(NothingToLearn, match=message):
        trainer.next_work(six, standing(measured(4, 4, errors=("s8", "s9"))), None)


@pytest.mark.parametrize(
    "measurement",
    [measured(3, 4), measured(0, 4), measured(0, 0, errors=("s1", "s2"))],
    ids=["one unsolved", "none solved", "errors only"],
)
def test_anything_else_is_trained_on(checkout, measurement):
    assert trainer.next_work(checkout.session(FOUR), standing(measurement), None)


def test_a_reviewer_who_asks_for_something_is_heard(checkout):
    session = replace(checkout.session(FOUR), reviewer_notes=(NOTE,))
    assert trainer.next_work(session, standing(measured(4, 4)), None)
    with pytest.raises(NothingToLearn):
        trainer.next_work(session, standing(measured(4, 4), heard_notes=(NOTE.id,)), None)


@pytest.mark.parametrize(
    ("override", "strict"),
    [
        ("evaluation.ties=reject", True),
        ("evaluation.ties=prefer_shorter", False),
        ("evaluation.use_gate=false", False),
        ("evaluation.use_semantic_density=true", False),
        ("optimizer.use_skill_aware_reflection=true", False),
    ],
)
def test_only_where_a_higher_score_is_the_only_way_in(checkout, override, strict):
    config = checkout.session(override).config
    assert no_score_is_higher(config, snapshot(measured(4, 4))) is strict


def test_a_mean_that_rounding_keeps_below_one_is_one(checkout):
    thirds = measured(3, 3).model_copy(update={"score": sum([1 / 3] * 3) - 1e-12})
    assert no_score_is_higher(checkout.session().config, snapshot(thirds))


@pytest.mark.parametrize(
    ("measurement", "level", "text"),
    [
        (measured(39, 40), "warning", "scores 0.975 before any training"),
        (measured(19, 20), "warning", f"scores {baseline.NEARLY:.3f} before any training"),
        (measured(0, 4), "info", "No selection task was solved"),
        (measured(4, 4), "", ""),  # said elsewhere
        (measured(2, 4), "", ""),
        (measured(0, 2).model_copy(update={"tasks": {"s0": (0.0, 0.25)}}), "", ""),
        (measured(18, 20), "", ""),
        (measured(0, 0, errors=("s1",)), "", ""),
    ],
)
def test_the_first_impression(measurement, level, text):
    note = baseline.first_impression(measurement)
    assert (note.level if note else "") == level
    assert text in (note.text if note else "")


@pytest.mark.parametrize(("answered", "told"), [("no item", True), ("a", False)])
def test_empty_answers_are_told_if_all_are(checkout, model_server, answered, told):
    truly, heard = model_server.answer, []
    model_server.answer = lambda *said: truly(*said) if said[1].endswith(answered) else ""
    checkout.step(FOUR, observer=heard.append)
    assert ("All 4 answers" in str(heard)) is told is ("max_output_tokens" in str(heard))


WITH_TWO_RULES = "# Items\n\n- Kind a: a number begins with a.\n- Kind b: a number begins with b.\n"


def test_reviewers_commit_is_adopted_and_measured(checkout):
    checkout.step()
    theirs = checkout.commit(SKILL, WITH_TWO_RULES, branch=BRANCH)
    outcome = checkout.done()
    assert checkout.kinds() == ["start", "step", "measure", "step"]
    assert checkout.contains(theirs)
    assert outcome.decision.score_before == 0.5
    assert outcome.record.proposal.skill_before == sha256(WITH_TWO_RULES)
    measured = checkout.history()[2]
    assert (measured.score_before, measured.score_after) == (0.25, 0.5)
    assert "changed by hand" in measured.reason
    assert checkout.state().best.origin == "edited by hand"


def test_reviewers_commit_to_another_file_needs_no_measurement(checkout):
    checkout.step()
    checkout.commit("README.md", "about\n", branch=BRANCH)
    checkout.step()
    assert checkout.kinds() == ["start", "step", "step"]
    assert checkout.show(BRANCH, "README.md") == "about\n"


OTHER_TARGET = "model.target.temperature=0.5"


@pytest.mark.parametrize(
    "change",
    [
        "tasks",
        "scorer.type=normalized",
        OTHER_TARGET,
        "evaluation.gate_metric=soft",
        "evaluation.use_semantic_density=true",
    ],
)
def test_change_of_what_scores_depend_on_has_the_skill_measured_again(checkout, change):
    checkout.step()
    old = checkout.state().measured_under
    if change == "tasks":
        checkout.write("tasks/selection.jsonl", tasks(100, 4))
    checkout.step(*([] if change == "tasks" else [change]))
    assert checkout.kinds() == ["start", "step", "measure", "step"]
    assert checkout.state().measured_under != old
    decision = checkout.record(2).decision
    assert decision.measured_under == checkout.state().measured_under


def test_best_skill_outlives_a_change_for_the_worse_and_is_scored_again(checkout, model_server):
    checkout.step()
    best = checkout.show(BRANCH)
    # unsolved tasks that cannot be measured raise the mean, but are no gain
    lost, words = (500, "no"), "Words.\n"
    model_server.trouble = lambda text: lost if words in text and text[-6:] == "kind b" else None
    for worse in (best + words, "# Nothing\n"):
        checkout.commit(SKILL, worse, branch=BRANCH)
        checkout.step("train.num_epochs=1", "evaluation.max_error_rate=0.9")
        assert checkout.state().best.sha256 == sha256(best), worse
    assert checkout.show(BRANCH, ".skillopt/demo/best_skill.md") == best
    model_server.prompts.clear()
    checkout.step(OTHER_TARGET)
    assert "measure" in checkout.kinds()[-2:]
    again = [prompt for prompt in model_server.prompts if prompt.endswith("Item 100 of kind a")]
    assert sum("# Nothing" in prompt for prompt in again) >= 1
    assert sum("Kind a:" in prompt and "# Items" in prompt for prompt in again) == 1
    assert checkout.state().best.measurement.score == 0.25
