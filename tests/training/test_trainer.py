import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from threading import Thread

import pytest
from command_line import in_process
from training_runs import estimated, train_all

from skillopt_ci.errors import LostRace
from skillopt_ci.model.types import total
from skillopt_ci.progress import Event, Note, Observer, StageFinished, StepStarted
from skillopt_ci.skill.document import sha256
from skillopt_ci.training.final_evaluation import finish
from skillopt_ci.training.plan import sizes_of
from skillopt_ci.training.review_comments import ReviewerNote
from skillopt_ci.training.trainer import Outcome, Upcoming, upcoming
from tests.conftest import BRANCH, CANDIDATE, EPOCH_ENDS, RULES, Checkout, Workshop, tasks


def snapshot(checkout: Checkout) -> dict[str, object]:
    """All that a user can see of a checkout; the index first, before git could refresh it."""
    git = checkout.folder / ".git"
    files = (path for path in checkout.folder.rglob("*") if path.is_file())
    return {
        "index": (git / "index").read_bytes(),
        "files": {
            path: (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode)
            for path in files
            if git not in path.parents
        },
        "HEAD": (git / "HEAD").read_bytes(),
        "HEAD's log": (git / "logs" / "HEAD").read_bytes(),
        "FETCH_HEAD": (git / "FETCH_HEAD").exists(),
        "status": checkout.git("status", "--porcelain=v2", "--show-stash"),
        "stash": checkout.git("stash", "list"),
        "main": checkout.ref("main"),
    }


@pytest.mark.parametrize("head", ["main", "--detach"])
def test_users_checkout_stays_byte_for_byte(workshop, head):
    origin = workshop.origin()
    checkout, other = (workshop.clone(origin, name) for name in ("clone", "other"))
    other.commit("README.md", "something to fetch\n")
    other.git("push", "--quiet", "origin", "main")
    checkout.git("checkout", "--quiet", head)
    checkout.write("stashed.txt", "put away\n")
    checkout.git("stash", "push", "--quiet", "--include-untracked")
    checkout.write("staged.txt", "staged\n")
    checkout.git("add", "staged.txt")
    checkout.write("staged.txt", "and changed again\n")
    checkout.write("skills/SKILL.md", "my own draft\n")
    checkout.write("untracked.txt", "mine\n")
    before = snapshot(checkout)
    assert len(checkout.run("git.base=main")) == 4
    assert snapshot(checkout) == before
    assert checkout.show(BRANCH).startswith("# Items\n")


def test_run_in_pieces_equals_a_run_in_one(workshop):
    whole, pieces = workshop.checkout("whole"), workshop.checkout("pieces")
    whole.run("train.num_epochs=1")
    while pieces.step("train.num_epochs=1") is not None:
        pass
    assert pieces.trees() == whole.trees()


def test_baseline_of_zero_is_not_measured_again(checkout, model_server):
    checkout.step("evaluation.sel_env_num=4")
    assert checkout.history()[0].score_after == 0.0
    checkout.step("evaluation.sel_env_num=4")
    assert checkout.kinds() == ["start", "step", "step"]
    assert model_server.most_answers == 1


def test_empty_skill_can_be_trained(workshop):
    checkout = workshop.checkout(skill="")
    assert checkout.done().decision.stays
    assert checkout.show(BRANCH).strip() == "- Kind a: a number begins with a."
    assert checkout.show(BRANCH, ".skillopt/demo/initial_skill.md") == ""


def test_badge_and_card_tell_the_score_of_the_skill_beside_them(checkout):
    checkout.step()
    day = checkout.git("log", "-1", "--format=%cs", f"{BRANCH}^2")
    badge, card = (
        json.loads(checkout.show(BRANCH, f".skillopt/demo/{name}.json"))
        for name in ("badge", "card")
    )
    told = f"0.25 on 8 tasks, m, {day}"
    assert badge == {"schemaVersion": 1, "label": "skill demo", "message": told, "color": "blue"}
    assert {key: card[key] for key in ("sha256", "score", "n", "test_score", "model", "date")} == {
        "sha256": sha256(checkout.show(BRANCH)),
        "score": 0.25,
        "n": 8,
        "test_score": None,
        "model": "m",
        "date": day,
    }
    checkout.run()
    session = checkout.session()
    with session.ledger.lock():
        asyncio.run(finish(session))
    tested = json.loads(checkout.show(BRANCH, ".skillopt/demo/card.json"))
    message = json.loads(checkout.show(BRANCH, ".skillopt/demo/badge.json"))["message"]
    assert (tested["test_n"], tested["sha256"]) == (8, sha256(checkout.show(BRANCH)))
    assert message.startswith(f"{tested['test_score']:.2f} on 8 test tasks, m, ")


def meanwhile(stage: str, act: Callable[[], object]) -> Observer:
    """Let somebody else act, once, when ``stage`` is finished."""
    others = [Thread(target=act)]

    def observe(event: Event) -> None:
        if isinstance(event, StageFinished) and event.stage == stage and others:
            other = others.pop()
            other.start()
            other.join()

    return observe


def test_second_process_in_the_same_clone_loses_at_once(checkout, model_server):
    with checkout.session().ledger.lock(), pytest.raises(LostRace, match="another skillopt-ci"):
        checkout.step()
    assert model_server.prompts == []


@pytest.fixture
def two(workshop: Workshop) -> tuple[Checkout, Checkout]:
    """Two clones of one remote, whose run has started."""
    origin = workshop.origin()
    mine, theirs = workshop.clone(origin, "mine"), workshop.clone(origin, "theirs")
    mine.step()
    return mine, theirs


@pytest.mark.parametrize("stage", ["rollout", "candidate", "gate"])
def test_slower_clone_loses_the_race_and_overwrites_nothing(two, stage):
    mine, theirs = two
    with pytest.raises(LostRace):
        mine.step(observer=meanwhile(stage, theirs.step))
    winner, proposed = theirs.ref(BRANCH), mine.ref(CANDIDATE)
    assert theirs.state().step == 2
    assert mine.git("ls-remote", "origin", f"refs/heads/{BRANCH}").startswith(winner)
    # the loser goes on, and what both did stays reachable
    outcome = mine.done()
    assert outcome.record.step == 3
    assert mine.contains(winner)
    assert not proposed or mine.git("for-each-ref", "--contains", proposed) != ""
    assert mine.git("ls-remote", "origin", f"refs/heads/{BRANCH}").startswith(outcome.commit)
    assert mine.git("ls-remote", "origin", f"refs/heads/{CANDIDATE}") == ""


@pytest.mark.parametrize(
    ("stage", "proposes"), [("reflect", False), ("reflect", True), ("selection", True)]
)
def test_next_command_is_charged_once_for_what_lost_the_race(two, model_server, stage, proposes):
    mine, theirs = two
    if not proposes:
        model_server.plan = ()
    with pytest.raises(LostRace):
        mine.step(observer=meanwhile(stage, lambda: theirs.step("train.seed=7")))
    for _ in range(2):
        mine.step()
        assert mine.state().usage.calls == len(model_server.prompts)
    assert mine.state().usage == total(mine.state().accounts.values())


def test_a_candidate_that_comes_too_late_is_set_aside_at_its_own_cost(two, model_server):
    mine, theirs = two
    with pytest.raises(LostRace):
        mine.step(observer=meanwhile("update", lambda: theirs.step("train.seed=7")))
    theirs.step()
    mine.step()
    assert mine.kinds() == ["start", "step", "step", "set_aside", "step", "step"]
    assert mine.state().usage.calls == len(model_server.prompts)


def test_run_reloads_after_a_lost_race(two, model_server):
    mine, theirs = two
    outcomes = mine.run(observer=meanwhile("candidate", theirs.step))
    assert [outcome.record.step for outcome in outcomes] == [3, 4]
    assert mine.state().step == 4
    assert mine.contains(theirs.ref(BRANCH))
    assert mine.state().usage.calls == len(model_server.prompts)


@pytest.mark.parametrize("proposes", [True, False])
def test_reviewer_who_pushes_during_a_step_is_not_overwritten(two, model_server, proposes):
    mine, reviewers = two

    def review() -> None:
        reviewers.git("fetch", "--quiet", "origin", f"{BRANCH}:{BRANCH}")
        reviewers.commit("skills/SKILL.md", "# Reviewed\n", branch=BRANCH)
        reviewers.git("push", "--quiet", "origin", BRANCH)

    if not proposes:
        model_server.plan = ()
    stage = "selection" if proposes else "reflect"
    mine.run("train.num_epochs=1", observer=meanwhile(stage, review))
    assert mine.contains(reviewers.ref(BRANCH))
    aside = ["set_aside"] * proposes
    assert mine.kinds() == ["start", "step", "measure", *aside, "step"]
    assert mine.show(BRANCH).startswith("# Reviewed\n")
    # what the work cost that was in vain is counted too
    assert mine.state().usage.calls == len(model_server.prompts)
    assert mine.state().usage == total(mine.state().accounts.values())


# What is done next: a step, or the end of an epoch, by whom the schedule says.

RULE = "- Kind d: a number begins with d."
SCHEDULED = (*EPOCH_ENDS, "schedule.slow_update=scheduled")


def ends(checkout: Checkout) -> list[int]:
    return [entry.epoch for entry in checkout.history() if entry.kind == "slow_update"]


def test_scheduled_leaves_it_to_the_command_which_waits_until_it_is_due(checkout):
    checkout.step(*SCHEDULED)
    tip = checkout.ref(BRANCH)
    assert (checkout.end_epoch(*SCHEDULED), checkout.ref(BRANCH)) == (None, tip)
    checkout.run("train.num_epochs=1", *SCHEDULED)
    assert ends(checkout) == []
    assert estimated(checkout.session("train.num_epochs=1", *SCHEDULED), "step") == {}
    assert (checkout.end_epoch(*SCHEDULED) is not None, ends(checkout)) == (True, [1])


def test_an_end_that_is_due_is_estimated_after_batches_became_smaller(checkout):
    longer = (*SCHEDULED, "train.num_epochs=3")
    for size in (8, 8, 4):
        checkout.step(*longer, f"train.batch_size={size}")
    assert estimated(checkout.session(*longer, "train.batch_size=1"))["slow_update"].high == 4


@pytest.mark.parametrize(("size", "budgets"), [(4, [1]), (2, [3, 1]), (8, [1])])
def test_run_ends_every_epoch_and_compares_with_the_last_end(checkout, size, budgets):
    checkout.run("train.num_epochs=1", *EPOCH_ENDS)
    assert checkout.show(BRANCH, ".skillopt/demo/epochs/01.md") == checkout.show(BRANCH)
    checkout.step(*EPOCH_ENDS)
    rates = ("optimizer.learning_rate=20", "optimizer.min_learning_rate=1")
    checkout.run(f"train.batch_size={size}", *EPOCH_ENDS, *rates, "optimizer.lr_scheduler=linear")
    assert checkout.kinds()[4:] == ["step", *["step" for _ in budgets], "slow_update"]
    assert [checkout.record(4 + n).proposal.edit_budget for n in range(len(budgets))] == budgets
    assert (ends(checkout), checkout.state().boundary) == ([1, 2], 2)
    assert checkout.boundary(2).previous_hard == 0.25


@pytest.mark.parametrize("schedule", ["inline", "scheduled"])
def test_end_in_flight_is_finished_by_whoever_comes_first(checkout, model_server, schedule):
    checkout.run()
    model_server.guidance = RULE
    checkout.stop(epoch_end=True)
    model_server.prompts.clear()
    settings = (*EPOCH_ENDS, f"schedule.slow_update={schedule}", "train.num_epochs=2")
    assert estimated(checkout.session(*settings), "step").keys() == {"selection", "test"}
    checkout.step(*settings)
    assert (ends(checkout), checkout.ref(CANDIDATE)) == ([2], "")
    assert model_server.optimizer_prompts == []


def test_step_in_flight_goes_before_the_end_of_an_epoch(checkout):
    events: list[Event] = []
    for _ in range(2):
        checkout.step(*SCHEDULED)
    checkout.stop(*SCHEDULED)
    assert estimated(checkout.session(*SCHEDULED))["rollout"].high == 4  # of the last step alone
    assert checkout.end_epoch(*SCHEDULED, observer=events.append) is None
    waiting = [event for event in events if isinstance(event, Note) and "waits" in event.text]
    assert len(waiting) == 1
    checkout.step(*EPOCH_ENDS)
    assert checkout.kinds() == ["start", "step", "step", "step"]


def test_reviewers_commit_sets_the_end_in_flight_aside(checkout, model_server):
    checkout.run()
    model_server.guidance = RULE
    checkout.stop(epoch_end=True)
    candidate = checkout.ref(CANDIDATE)
    checkout.commit("skills/SKILL.md", "# Items, reviewed\n", branch=BRANCH)
    checkout.end_epoch()
    assert checkout.kinds()[-3:] == ["measure", "set_aside", "slow_update"]
    assert checkout.contains(candidate)
    assert checkout.show(BRANCH).startswith("# Items, reviewed\n")
    assert RULE in checkout.show(BRANCH)
    assert any("candidate of the end of epoch 2" in subject for subject in checkout.subjects())


def test_no_end_is_done_twice(checkout):
    checkout.run("train.num_epochs=1", *EPOCH_ENDS)
    checkout.commit("skills/SKILL.md", "# Items, reviewed\n", branch=BRANCH)
    assert checkout.end_epoch("train.num_epochs=1") is None


#: Events that a piece of work leaves in the history.
LEFT = {"step": ["step"], "epoch_end": ["slow_update", "step"], "done": []}


def foretold(checkout: Checkout, *overrides: str) -> Upcoming:
    session, history = checkout.session(*overrides), checkout.history()
    sizes = sizes_of(session.config, session.splits, history)
    return upcoming(session.config, sizes, checkout.state(), history)


def test_every_step_does_what_was_foretold(checkout):
    settings = (*EPOCH_ENDS, "train.num_epochs=3")
    checkout.step(*settings)
    works = []
    while (coming := foretold(checkout, *settings)).work != "finish":
        before = len(checkout.kinds())
        # an estimate includes the end of an epoch, which makes calls from the second one on
        compares = "slow_rollout" in estimated(checkout.session(*settings), "step")
        assert compares == ((coming.epoch_end or 0) > 1)
        checkout.step(*settings)
        left = [kind for kind in LEFT[coming.work] if kind != "step" or coming.step is not None]
        assert checkout.kinds()[before:] == left
        works.append(coming.work)
    assert works == ["step", "epoch_end"] * 3
    tip = checkout.ref(BRANCH)
    assert (checkout.step(*settings), checkout.ref(BRANCH)) == (None, tip)
    assert foretold(checkout, *EPOCH_ENDS, "evaluation.eval_test=false").work == "done"


def test_epochs_that_nobody_ended_are_passed_over(checkout, model_server):
    model_server.guidance = RULE
    for _ in range(2):
        checkout.step(*SCHEDULED)
    assert foretold(checkout, *SCHEDULED) == Upcoming("step", 4, 3, 1, scheduled=True)
    checkout.run(*SCHEDULED)
    assert foretold(checkout, *SCHEDULED) == Upcoming("epoch_end", 4, None, 2, scheduled=True)
    checkout.end_epoch(*SCHEDULED)
    assert (ends(checkout), checkout.boundary(2).previous_hard) == ([2], 0.0)  # the initial skill's
    assert (checkout.end_epoch(*SCHEDULED), foretold(checkout, *SCHEDULED).work) == (None, "finish")
    assert in_process(checkout.folder, "replay").returncode == 0  # the first one's end is not lost


@pytest.mark.parametrize("notes", [(), (ReviewerNote("review-7", "wen", "Say what kind d is."),)])
def test_a_run_ends_once_every_selection_task_is_solved(checkout, model_server, notes):
    checkout.commit("skills/SKILL.md", f"# Items\n\n{rules_of('abc')}")
    model_server.plan = [RULES["d"]]
    settings, events = (*EPOCH_ENDS, "evaluation.sel_env_num=4"), list[Event]()
    noted, outcomes = replace(checkout.session(*settings), reviewer_notes=notes), list[Outcome]()
    asyncio.run(train_all(replace(noted, observer=events.append), outcomes.append))
    (outcome,) = outcomes
    assert checkout.kinds() == ["start", "step"]
    assert (outcome.total, checkout.state().current.measurement.score) == (1, 1.0)
    told = [event.text for event in events if isinstance(event, Note)]
    assert told[-1].startswith("All measured selection tasks (4) are solved, so training ends")
    assert told[-1].endswith(" To use all 8 of them, set evaluation.sel_env_num: 0.")
    # nor is the next batch prefetched
    under_it = [prompt for prompt in model_server.prompts if RULES["d"] in prompt]
    assert sum("Stage:" not in prompt for prompt in under_it) == 4
    session = checkout.session(*settings)
    coming = upcoming(
        session.config, sizes_of(session.config, session.splits), checkout.state(), ()
    )
    assert (coming.work, "every selection task is solved" in coming.why) == ("finish", True)
    assert checkout.step("evaluation.sel_env_num=0") is None
    assert checkout.kinds()[2:] == ["measure"]


def test_a_candidate_in_flight_is_no_step_beyond_the_last(checkout, model_server):
    checkout.commit("skills/SKILL.md", f"# Items\n\n{rules_of('abc')}")
    checkout.commit("tasks/selection.jsonl", tasks(100, 3))  # nothing else can be learned from it
    checkout.git("reset", "--hard", "--quiet", "main")
    model_server.plan = [RULES["d"]]
    checkout.stop("evaluation.ties=prefer_shorter")
    assert estimated(checkout.session()).keys() == {"selection", "test"}
    events = list[Event]()
    assert checkout.done(observer=events.append).record.decision.action == "reject"
    (begun,) = (event for event in events if isinstance(event, StepStarted))
    assert (begun.step, begun.total) == (1, 1)


@pytest.mark.parametrize(
    "opening",
    ["evaluation.ties=prefer_shorter", "optimizer.slow_update_gate_with_selection=false"],
)
def test_a_run_goes_on_where_the_skill_can_still_change(checkout, model_server, opening):
    checkout.commit("skills/SKILL.md", f"# Items\n\n{rules_of('abc')}")
    model_server.plan = [RULES["d"]]
    assert len(checkout.run(*EPOCH_ENDS, opening)) == 4


def rules_of(kinds: str) -> str:
    return "".join(f"- {RULES[kind]}\n" for kind in kinds)
