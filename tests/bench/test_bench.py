"""The comparison with other systems runs, and its world is one in which there is much to learn."""

import json
import subprocess
import sys

import pytest

from bench.figures import summary, table
from bench.grid import COUNT, worlds
from bench.outcome import Outcome, Trial, judged, refuse_misunderstood
from bench.serving import ROOT
from bench.world.world import INITIAL_SKILL, Parameters, make_world

#: A single step, and a world of few tasks.
QUICK = {"train": {"num_epochs": 1, "batch_size": 16}}
SMALL = {"train": 16, "selection": 8, "test": 16}


@pytest.mark.end_to_end
def test_verdicts_of_our_own_runs_and_of_an_earlier_report_make_one_table(tmp_path):
    first = ("--without-others", "--seeds", 1, "--ours", f"quick={json.dumps(QUICK)}", "--http")
    first += ("--world", json.dumps(SMALL))
    for words in (first, ("--reuse", tmp_path / "verdicts.json", "--without-ours")):
        command = [sys.executable, "-m", "bench.verdicts", "--out", tmp_path, *words]
        program = [*map(str, command)]
        done = subprocess.run(program, check=False, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        if words is first:
            (run,) = json.loads((tmp_path / "verdicts.json").read_text())["runs"]
            assert (run["system"], run["seed"]) == ("quick", 0)
            assert run["start"] == make_world(0, Parameters(**SMALL)).true_score(INITIAL_SKILL)
            assert {"target/train", "target/selection", "optimizer/analyst"} <= set(run["calls"])
            refuse_misunderstood(run)
            earlier = {"runs": [{**run, "system": name} for name in ("skillopt", "gepa")]}
            (tmp_path / "verdicts.json").write_text(json.dumps(earlier))
    assert done.stdout.splitlines()[1].split()[:2] == ["skillopt", "1"]


def test_verdicts_are_held_against_the_truth():
    world = make_world(2)
    rules = world.rules.values()
    helpful = next(rule.text for rule in rules if rule.helpful)
    harmful = next(rule.text for rule in rules if rule.harmful)
    trials = [
        Trial("", helpful, accepted=True),
        Trial("", harmful, accepted=True),
        Trial("", helpful, accepted=False),
        Trial("", harmful, accepted=False),
        Trial("", harmful, accepted=True, gated=False),
    ]
    stats = {"calls": {"target/train": 3, "target/test": 9, "optimizer/merge": 1}, "tokens": {}}
    outcome = judged(world, "x", helpful, trials, stats, 1.0)
    assert isinstance(outcome, Outcome)
    assert (outcome.accepted, outcome.worse_accepted) == (2, 1)
    assert (outcome.rejected, outcome.better_rejected) == (2, 1)
    assert (outcome.ungated, outcome.worse_ungated) == (1, 1)
    assert outcome.true == world.true_score(helpful)
    assert (outcome.paid, outcome.target_calls) == (4, 3)
    found = summary([outcome], None)
    assert (found.false_accepts, found.false_rejects) == (0.5, 0.5)
    head, row = table([found]).splitlines()
    assert len(head) == len(row)


@pytest.mark.parametrize("phase", ["failed", "optimizer/unknown"])
def test_a_run_that_the_world_did_not_understand_proves_nothing(phase):
    with pytest.raises(ValueError, match="did not understand"):
        refuse_misunderstood({"calls": {phase: 1}})


def test_there_is_much_to_learn_and_nothing_is_ever_certain():
    for seed in range(4):
        world = make_world(seed)
        assert world.rules == make_world(seed).rules != make_world(seed + 1).rules
        assert 0.2 < world.true_score(INITIAL_SKILL) < 0.35
        assert 0.82 < world.true_score(world.best_skill()) <= 0.95
    assert len(worlds(2)) == COUNT
