"""Stale batches: attempted under the skill before the latest verdict, in real repositories."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.ledger.folder import RunFolder
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.regions import as_read, reading
from skillopt_ci.training.prefetch_plan import look_ahead
from tests.conftest import BRANCH, EPOCH_ENDS
from tests.training.test_foresight import (
    IDS,
    LIKELY,
    NONE,
    SETTINGS,
    SURE,
    WIDE,
    attempted,
    batch,
    decided,
    lost_in,
    task_of,
)

if TYPE_CHECKING:
    from tests.conftest import Checkout, ModelServer, Workshop

STALE = "train.staleness=1"
FORMER = RunFolder("demo").former_skill


def skill_before(checkout: Checkout, step: int) -> str:
    """The text that a step started from, as its record names it."""
    name = checkout.record(step).proposal.skill_before
    commits = checkout.git("rev-list", BRANCH).split("\n")
    texts = (checkout.show(commit) for commit in commits)
    return next(text for text in texts if sha256(text) == name)


@pytest.mark.parametrize("overrides", SETTINGS, ids=IDS)
@pytest.mark.parametrize("reach", [SURE, LIKELY])
def test_what_is_made_early_changes_no_verdict(
    workshop: Workshop, overrides: tuple[str, ...], reach: str
) -> None:
    plain, ahead, server = workshop.checkout("plain"), workshop.checkout("ahead"), workshop.server
    plain.run(NONE, WIDE, STALE, *overrides)
    needed = sorted(server.prompts)
    server.prompts.clear()
    ahead.run(reach, WIDE, STALE, *overrides)
    assert ahead.show(BRANCH) == plain.show(BRANCH)
    steps = range(1, ahead.state().step + 1)
    assert [decided(ahead.record(one)) for one in steps] == [
        decided(plain.record(one)) for one in steps
    ]
    vain = len(server.prompts) - len(needed)
    assert vain == lost_in(ahead.state())
    assert reach == LIKELY or (vain == 0 and ahead.trees() == plain.trees())


def test_steps_one_by_one_come_to_the_same_as_a_run(workshop: Workshop) -> None:
    single, whole = workshop.checkout("single"), workshop.checkout("whole")
    while single.step(STALE, *EPOCH_ENDS) is not None:
        pass
    whole.run(STALE, *EPOCH_ENDS)
    assert single.trees() == whole.trees()


def test_a_batch_meets_the_skill_before_the_latest_verdict(
    checkout: Checkout, model_server: ModelServer
) -> None:
    """After a merge that is the text before it, after a rejection the current one."""
    done = checkout.run(STALE, NONE)
    changed = [one.record.merged for one in done]
    assert True in changed[:-1]
    assert False in changed[:-1]
    started = [skill_before(checkout, one.record.step) for one in done]
    texts = [started[0], *started]
    for number, one in enumerate(done, start=1):
        proposal = one.record.proposal
        assert proposal.attempted_under == sha256(texts[number - 1])
        assert bool(proposal.skill_attempted) == (number > 1 and changed[number - 2])
        asked = attempted(model_server.prompts)
        for task in batch(checkout, number):
            assert any(
                as_read(texts[number - 1]).strip() in prompt and task_of(prompt) == task
                for prompt in asked
            )


def test_analysts_are_told_what_changed_since_and_only_then(
    workshop: Workshop,
) -> None:
    stale, fresh, server = workshop.checkout("stale"), workshop.checkout("fresh"), workshop.server
    fresh.run(NONE)
    assert not any("## Last Change" in prompt for prompt in server.optimizer_prompts)
    server.prompts.clear()
    server.optimizer_prompts.clear()
    done = stale.run(STALE, NONE)
    second = next(one for one in done if one.record.proposal.skill_attempted)
    added = set(skill_before(stale, second.record.step).split("\n")) - set(
        skill_before(stale, second.record.step - 1).split("\n")
    )
    told = [prompt for prompt in server.optimizer_prompts if "## Last Change" in prompt]
    assert told
    assert added
    assert any(all(f"\n+{line}\n" in prompt for line in added) for prompt in told)
    assert all("[former skill, see above]" in prompt for prompt in told)


def test_an_empty_skill_is_the_one_before_the_first_change(checkout: Checkout) -> None:
    checkout.write("skills/SKILL.md", "")
    checkout.git("commit", "--quiet", "--all", "--message", "Begin with nothing")
    checkout.step(STALE)
    assert checkout.record(1).merged
    checkout.step(STALE)
    assert checkout.record(2).proposal.attempted_under == sha256("")


def test_a_change_by_hand_is_attempted_as_it_is(checkout: Checkout) -> None:
    checkout.step(STALE)
    assert checkout.record(1).merged
    text = checkout.show(BRANCH) + "\n- A line by hand.\n"
    checkout.commit("skills/SKILL.md", text, BRANCH)
    checkout.step(STALE)
    proposal = checkout.record(2).proposal
    assert (proposal.skill_attempted, proposal.skill_before) == ("", sha256(text))


def test_the_text_before_is_kept_only_where_it_is_needed(workshop: Workshop) -> None:
    fresh, stale = workshop.checkout("fresh"), workshop.checkout("stale")
    fresh.run()
    stale.run(STALE)
    assert FORMER not in fresh.git("ls-tree", "-r", "--name-only", BRANCH).split("\n")
    assert FORMER in stale.git("ls-tree", "-r", "--name-only", BRANCH).split("\n")


@pytest.mark.parametrize(
    "settings", [(), EPOCH_ENDS, ("optimizer.use_skill_aware_reflection=true",)]
)
def test_the_next_batch_is_foreseen_to_the_attempt(
    workshop: Workshop, settings: tuple[str, ...]
) -> None:
    checkout, foreseen = workshop.checkout(), 0
    while True:
        outlook = look_ahead(checkout.session(STALE, *settings))
        outcome = checkout.step(STALE, *settings)
        if outcome is None:
            break
        if outlook is not None and outlook.phase == "rollout":
            proposal = checkout.record(outcome.record.step).proposal
            made = {(one.id, one.attempt) for one in proposal.rollout.tasks}
            assert {(one.task.id, one.attempt) for one in outlook.attempts} == made
            texts = {sha256(one.skill) for one in outlook.attempts}
            assert texts == {proposal.attempted_under}
            foreseen += 1
    assert foreseen > 1
    assert workshop.server.most_answers == 1


def test_the_next_batch_is_attempted_while_an_analyst_thinks(
    checkout: Checkout, model_server: ModelServer
) -> None:
    """Whatever the verdict: nothing is lost, although only what is sure is made early."""
    held, early = list[bool](), threading.Semaphore(0)
    items, one_analyst = batch(checkout, 2), threading.Lock()

    def trouble(prompt: str) -> None:
        if task_of(prompt) in items and "Stage:" not in prompt:
            early.release()
        elif "Stage: analyst" in prompt and one_analyst.acquire(blocking=False):
            held.append(all(early.acquire(timeout=30) for _ in items))

    model_server.trouble = trouble
    checkout.run(SURE, WIDE, STALE)
    assert held == [True]
    assert lost_in(checkout.state()) == 0


def test_a_candidate_is_measured_while_it_is_committed(
    checkout: Checkout, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first candidate is held back until one of its attempts has come."""
    propose, held, asked = Ledger.propose, list[bool](), list[str]()
    came = threading.Condition()

    def trouble(prompt: str) -> None:
        with came:
            if "Stage:" not in prompt:
                asked.append(prompt)
            came.notify_all()

    def slow(ledger: Ledger, commit: str) -> None:
        if not held:
            text = reading(ledger.read(commit, "skills/SKILL.md") or "").strip()
            with came:
                held.append(came.wait_for(lambda: any(text in one for one in asked), 30))
        propose(ledger, commit)

    monkeypatch.setattr(Ledger, "propose", slow)
    model_server.trouble = trouble
    checkout.run(SURE)
    assert held == [True]
