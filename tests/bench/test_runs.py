"""A whole run of ours on a small world, with HTTP and without, and what is read out of it."""

import json
import urllib.request
from typing import Any

import pytest

from bench.outcome import Outcome, Trial, judged, refuse_misunderstood
from bench.serving import served
from bench.systems.ours import run_command, run_inside, trials
from bench.world.world import INITIAL_SKILL, make_world

MARKERS = ("<!-- SLOW_UPDATE_START -->", "<!-- SLOW_UPDATE_END -->")

#: A single step.
QUICK: dict[str, Any] = {"train": {"num_epochs": 1, "batch_size": 80}}


@pytest.fixture(scope="module")
def inside(tmp_path_factory) -> Outcome:
    return run_inside(3, tmp_path_factory.mktemp("inside"), QUICK)


@pytest.mark.end_to_end
def test_over_http_and_in_process_a_run_is_the_same(tmp_path, inside):
    command = run_command(3, tmp_path, QUICK)
    assert command.calls == inside.calls
    assert (command.true, command.curve) == (inside.true, inside.curve)
    assert command.timed.rounds > 0


@pytest.mark.integration
def test_the_world_understands_every_request_of_a_run(inside):
    assert {"target/train", "target/selection", "optimizer/analyst"} <= set(inside.calls)
    assert not {"failed", "optimizer/unknown"} & set(inside.calls)


@pytest.mark.integration
def test_the_run_is_judged_by_its_own_history(inside):
    assert inside.accepted + inside.rejected >= 1
    assert inside.start == make_world(3).true_score(INITIAL_SKILL)
    assert inside.curve[0] == (40, inside.start)
    assert sum(inside.calls.values()) == inside.curve[-1][0]


@pytest.mark.integration
def test_the_server_counts_answers_and_traces_them():
    world = make_world(2)
    task = world.splits["selection"][0]
    body = {"model": "target", "messages": [{"role": "user", "content": task.prompt}]}
    with served(2, 0.0) as server:
        request = urllib.request.Request(
            f"{server.base_url}/chat/completions", json.dumps(body).encode()
        )
        with urllib.request.urlopen(request) as reply:
            answered = json.load(reply)
        stats, trace = server.stats(), server.trace()
    assert "<answer>" in answered["choices"][0]["message"]["content"]
    assert stats["calls"] == {"target/selection": 1}
    assert answered["usage"]["total_tokens"] == stats["tokens"]["target/selection"]
    assert [phase for phase, _, _ in trace] == ["target/selection"]
    assert trace[0][1] <= trace[0][2]


def test_trials_are_the_candidates_that_the_target_reads_differently():
    first, placed = INITIAL_SKILL, f"{INITIAL_SKILL}\n{MARKERS[0]}\n{MARKERS[1]}\n"
    texts = {"a": first, "b": placed, "c": f"{first}more", "d": f"{first}most"}

    def entry(candidate: str | None, skill: str, action: str, score: float | None = 0.5):
        told = {"candidate_sha256": candidate, "skill_sha256": skill}
        return {**told, "action": action, "score_after": score}

    history = [
        entry(None, "a", "start"),
        entry("b", "b", "force_accept"),
        entry("c", "b", "reject"),
        entry("c", "b", "reject", None),
        entry("c", "c", "accept"),
        entry("d", "d", "force_accept"),
    ]
    assert trials(history, texts) == [
        Trial(placed, texts["c"], accepted=False),
        Trial(placed, texts["c"], accepted=True),
        Trial(texts["c"], texts["d"], accepted=True, gated=False),
    ]


def test_verdicts_are_held_against_the_truth():
    world = make_world(2)
    helpful, harmful = (
        next(rule.text for rule in world.rules.values() if getattr(rule, kind))
        for kind in ("helpful", "harmful")
    )
    trials = [
        Trial("", helpful, accepted=True),
        Trial("", harmful, accepted=True),
        Trial(helpful, helpful + "!", accepted=True),
        Trial("", helpful, accepted=False),
        Trial("", harmful, accepted=False),
        Trial("", harmful, accepted=True, gated=False),
    ]
    stats = {"calls": {"target/train": 3, "target/test": 9, "optimizer/merge": 1}, "tokens": {}}
    outcome = judged(world, "x", helpful, trials, stats, 1.0)
    assert (outcome.accepted, outcome.worse_accepted) == (3, 2)
    assert (outcome.rejected, outcome.better_rejected) == (2, 1)
    assert (outcome.ungated, outcome.worse_ungated) == (1, 1)
    assert outcome.true == world.true_score(helpful)
    assert (outcome.paid, outcome.target_calls) == (4, 3)


@pytest.mark.parametrize("phase", ["failed", "optimizer/unknown"])
def test_a_run_that_the_world_did_not_understand_proves_nothing(phase):
    refuse_misunderstood({"calls": {"target/train": 3}})
    with pytest.raises(ValueError, match="did not understand"):
        refuse_misunderstood({"calls": {phase: 1}})
