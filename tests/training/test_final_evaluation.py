import asyncio
import json
import math

import pytest

from skillopt_ci.errors import TooManyErrors, UsageError
from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.ledger.folder import RunFolder, document
from skillopt_ci.ledger.records import HistoryEntry, Snapshot
from skillopt_ci.ledger.summary import Summary
from skillopt_ci.model.types import Usage
from skillopt_ci.progress import Event, Note, Observer, StageFinished, silent
from skillopt_ci.skill.document import sha256
from skillopt_ci.stats import t_quantile
from skillopt_ci.training.final_evaluation import FinishOutcome, beats, epoch_summaries, finish
from tests.conftest import BRANCH, Checkout, ModelServer, tasks

FOLDER = RunFolder("demo")
PLAIN = ("optimizer.use_slow_update=false", "optimizer.use_meta_skill=false")
TEST_ITEMS = [f"Item {number} " for number in range(200, 208)]


def end(checkout: Checkout, *overrides: str, observer: Observer = silent) -> FinishOutcome | None:
    session = checkout.session(*PLAIN, *overrides, observer=observer)
    with session.ledger.lock():
        return asyncio.run(finish(session))


def count_tests(server: ModelServer) -> int:
    return sum(any(item in prompt for item in TEST_ITEMS) for prompt in server.prompts)


def test_the_badge_gives_no_model_the_score_of_another(checkout):
    checkout.step()
    end(checkout)
    assert "test tasks" in checkout.show(BRANCH, FOLDER.badge)
    checkout.step("model.target.model=another")
    assert "test tasks" not in checkout.show(BRANCH, FOLDER.badge)


def test_a_limit_of_steps_does_not_keep_the_run_from_its_tests(checkout):
    checkout.step()
    assert end(checkout, "budget.step.calls=9").summary.tested


@pytest.mark.parametrize(("split", "test"), [("test", True), ("selection", False)])
def test_tasks_that_were_trained_on_decide_nothing_without_a_warning(checkout, split, test):
    for offset, size in ((300, 8), (0, 8), (300, 1)):  # in the epochs 1, 2 and, by its size, 1
        checkout.write("tasks/train.jsonl", tasks(offset))
        checkout.step(f"train.batch_size={size}")
    checkout.write(f"tasks/{split}.jsonl", tasks(0))
    events: list[Event] = []
    end(checkout, observer=events.append)
    told = [one.text for one in events if isinstance(one, Note) and one.level == "warning"]
    assert any(f"Training used 8 of 8 {split} tasks" in text for text in told)
    assert ("used 8 test tasks" in checkout.git("log", "-1", "--format=%B", BRANCH)) is test


def test_tests_are_told_by_the_score_that_the_commit_has(checkout):
    partly = ("scorer={type: anls, answer: tag}", "evaluation.gate_metric=soft")
    checkout.step(*partly)
    events: list[Event] = []
    end(checkout, *partly, observer=events.append)
    told = [one.summary for one in events if isinstance(one, StageFinished) and "test" in one.stage]
    assert sorted(text[:5] for text in told) == ["0.000", "0.250"]
    assert checkout.subjects()[-1] == "Finish training: 0.000 → 0.250 on 8 test tasks"


def test_an_epoch_has_its_steps_by_outcome_and_the_score_at_its_end():
    entry = HistoryEntry(kind="step", step=1, epoch=1, action="reject")
    other = entry.model_copy(update={"score_after": 0.5, "step": 2, "best_score": 0.6})
    again = other.model_copy(update={"kind": "measure", "best_score": 0.4})  # on another scale
    (epoch,) = epoch_summaries([entry, other, again])
    assert (epoch.rejects, epoch.skips, epoch.best_score) == (1, 1, 0.6)


def test_three_skills_are_tested_and_compared(checkout, model_server):
    checkout.run(*PLAIN)
    before, outcome = checkout.ref(BRANCH), end(checkout)
    found = outcome.summary
    scores = [one.test and one.test.hard for one in (found.initial, found.best, found.last)]
    assert scores == [0.0, 0.5, 0.5]
    assert found.best.interval[0] < 0.5 < found.best.interval[1]
    assert (found.best_gain.mean, len(found.best_gain.fixed)) == (0.5, 4)
    assert found == Summary.model_validate_json(checkout.show(BRANCH, FOLDER.summary))
    # steps are counted epoch by epoch, calls by stage
    told = [(one.epoch, one.steps, one.accepts + one.rejects + one.skips) for one in found.epochs]
    assert told == [(1, 2, 2), (2, 2, 2)]
    assert [one.best_score for one in found.epochs] == [
        max(entry.best_score or 0 for entry in checkout.history() if entry.epoch == epoch)
        for epoch in (1, 2)
    ]
    total = sum((used for used in found.stages.values()), Usage())
    assert total.calls == found.usage.calls == checkout.state().usage.calls
    assert total.tokens == found.usage.tokens
    assert found.stages["test"].calls == 16
    # the end is one commit in the training log
    assert checkout.git("rev-parse", f"{BRANCH}^@") == before
    assert checkout.subjects()[-1] == "Finish training: 0.000 → 0.500 on 8 test tasks"
    changed = checkout.git("diff", "--name-only", before, outcome.checkout.commit).split("\n")
    assert {*changed} == {FOLDER.history, FOLDER.state, FOLDER.summary, FOLDER.badge, FOLDER.card}
    assert checkout.kinds()[-1] == "finish"
    # a second time changes nothing
    model_server.prompts.clear()
    assert end(checkout, "cache.enabled=false") is None
    assert (checkout.ref(BRANCH), model_server.prompts) == (outcome.checkout.commit, [])
    # unless the test tasks are others
    again = end(checkout, "evaluation.test_env_num=4").summary
    assert again.best.test.n == 4


def test_the_gain_s_error_is_over_clusters_where_test_tasks_have_them(checkout):
    rows = [json.loads(line) for line in tasks(200).splitlines()]
    rows = [{**one, "metadata": {"cluster": one["id"][0]}} for one in rows]
    checkout.write("tasks/test.jsonl", "\n".join(map(json.dumps, rows)))
    checkout.run(*PLAIN)
    found = end(checkout).summary.best_gain
    # two of four kinds are solved: their deviations from 1/2 sum up to 1, 1, -1 and -1
    assert (found.mean, found.n, found.clusters) == (0.5, 8, 4)
    assert found.standard_error == pytest.approx(math.sqrt(4 / 3 * 4) / 8)
    half = t_quantile(0.95, 3) * math.sqrt(4 / 3 * 4) / 8
    assert f"+0.500 ± {half:.3f} (95 %) on 8 test tasks" in checkout.git("log", "-1", BRANCH)


@pytest.mark.parametrize("room", [False, True], ids=["equal", "room for guidance"])
def test_texts_that_read_the_same_are_tested_once(checkout, model_server, room):
    model_server.plan = ()
    checkout.run(*PLAIN, f"optimizer.use_slow_update={room}", "train.num_epochs=1")
    found = end(checkout, "cache.enabled=false").summary
    assert (found.initial.sha256 != found.last.sha256) == room
    assert found.initial.test == found.best.test == found.last.test
    assert count_tests(model_server) == 8


def test_a_run_that_went_on_is_finished_again(checkout, model_server):
    checkout.run(*PLAIN, "train.num_epochs=1")
    first = end(checkout, "train.num_epochs=1").summary
    checkout.run(*PLAIN)
    model_server.prompts.clear()
    second = end(checkout, "cache.enabled=false").summary
    assert (first.step, second.step) == (2, 4)
    assert second.initial.test == first.initial.test
    assert count_tests(model_server) == 8


@pytest.mark.parametrize(("metric", "first"), [("hard", "0.000"), ("soft", "–")])  # – on no scale
def test_without_a_test_there_is_still_a_summary(checkout, model_server, metric, first):
    checkout.run(*PLAIN)
    found = end(checkout, "evaluation.eval_test=false", f"evaluation.gate_metric={metric}").summary
    assert (found.tested, found.tested_under, found.best.score) == ((), "", 0.5)
    assert count_tests(model_server) == 0
    assert checkout.subjects()[-1] == f"Finish training: {first} → 0.500 on the selection tasks"


def test_the_initial_skill_has_a_score_on_the_new_scale_if_it_is_the_best(checkout, model_server):
    model_server.plan = ()
    checkout.step(*PLAIN)
    best = end(checkout, "evaluation.eval_test=false", "evaluation.gate_metric=soft").summary.best
    assert (best.step, best.origin) == (0, "initial")  # not the step after which it was measured
    checkout.commit("skills/SKILL.md", "# No better\n", branch=BRANCH)
    found = end(checkout, "evaluation.eval_test=false", "evaluation.gate_metric=hard").summary
    assert (found.initial.score, found.last.sha256 == found.best.sha256) == (0.0, False)


def test_a_candidate_in_flight_comes_first(checkout):
    checkout.stop(*PLAIN)
    with pytest.raises(UsageError, match="in flight"):
        end(checkout)


def test_a_candidate_set_aside_after_the_end_does_not_end_the_run_again(checkout, model_server):
    checkout.step(*PLAIN)
    checkout.stop(*PLAIN)
    left = checkout.ref("skillopt-candidate/demo")
    # the same, as another machine proposed it
    words = checkout.git("log", "-1", "--format=%B", left)
    other = checkout.git("commit-tree", f"{left}^{{tree}}", "-p", f"{left}^", "-m", f"{words}\n")
    checkout.run(*PLAIN)
    end(checkout)
    checkout.git("update-ref", "refs/heads/skillopt-candidate/demo", other)
    model_server.prompts.clear()
    assert checkout.step(*PLAIN) is None
    assert end(checkout) is None
    assert (checkout.kinds()[-2:], model_server.prompts) == (["finish", "set_aside"], [])
    again = end(checkout, "evaluation.test_env_num=4")
    assert again.summary.stages["set aside"] == checkout.history()[-2].usage


def test_a_test_that_failed_is_taken_up_again(workshop):
    twin, checkout = workshop.checkout("twin"), workshop.checkout()
    twin.run(*PLAIN)
    end(twin)
    checkout.run(*PLAIN)
    workshop.server.trouble = lambda prompt: (500, "down") if "Item 20" in prompt else None
    with pytest.raises(TooManyErrors):
        end(checkout)
    assert checkout.kinds()[-1] == "step"
    workshop.server.trouble = lambda prompt: None
    end(checkout)
    assert checkout.trees() == twin.trees()


@pytest.mark.parametrize("tested", [True, False])
def test_a_last_skill_that_scored_higher_becomes_the_best(checkout, tested):
    checkout.run(*PLAIN)
    state = checkout.state()
    lower = state.best.measurement.model_copy(update={"score": 0.25})
    best = state.best.model_copy(update={"measurement": lower, "sha256": "other"})
    checkout.commit(FOLDER.state, document(state.model_copy(update={"best": best})), branch=BRANCH)
    found = end(checkout, f"evaluation.eval_test={tested}").summary
    best = state.current.sha256 if tested else "other"
    assert (found.promoted, found.best.sha256) == (tested, best)
    assert checkout.history()[-1].action == ("promote" if tested else "finish")
    assert sha256(checkout.show(BRANCH, FOLDER.best_skill)) == state.current.sha256


@pytest.mark.parametrize(
    ("last", "best", "expected"),
    [(0.5, 0.4, True), (0.5, 0.5, False), (0.4, 0.5, False), (0.1 + 0.2, 0.3, False)],
)
def test_only_a_strictly_higher_score_is_better(last, best, expected):
    assert beats(_snapshot(last), _snapshot(best)) is expected


def test_scores_on_other_tasks_do_not_compare():
    assert not beats(_snapshot(0.9, "a", "b"), _snapshot(0.1, "a"))


def _snapshot(score: float, *tasks: str) -> Snapshot:
    scores = dict.fromkeys(tasks, (score, score))
    measurement = Measurement(hard=score, soft=score, score=score, tasks=scores)
    return Snapshot(sha256="x", step=1, origin="step 1", measurement=measurement)
