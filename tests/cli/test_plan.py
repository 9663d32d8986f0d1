import re
from collections import Counter
from typing import Any

import pytest
import simulated_modes  # noqa: F401 - teaches the simulated optimizer

from skillopt_ci.cli.init import make_repository


def machine(name: str) -> tuple[str, str]:
    return "-o", f"cache.path=.git/{name}.sqlite"


def test_plan_prints_a_matrix_or_a_sentence_for_people(cli, fresh):
    planned = {"phase": "measure", "step": 1, "attempts": 16, "matrix": {"shard": ["1/2", "2/2"]}}
    assert cli(fresh, "plan", "--shards", "2", "--json").json == planned
    done = cli(fresh, "rollout", "--shard", "1/4")
    assert done.out.startswith("4 attempts, 4 answers in answers.jsonl. Used 4 calls")
    assert (fresh / "answers.jsonl").is_file()
    cli(fresh, "step")
    done = cli(fresh, "plan", "--shards", "3")
    assert done.out == "8 attempts to roll out the batch of step 2, in 3 shards: 1/3, 2/3, 3/3\n"


def test_plan_after_the_last_step_is_empty(cli, done):
    planned = cli(done, "plan", "--json")
    assert planned.code == 3
    assert (planned.json["phase"], planned.json["matrix"]) == ("", {"shard": []})
    assert planned.json["error"]["message"] == "Nothing left to do: all epochs are trained."
    assert cli(done, "rollout", "--shard", "1/1").code == 3


def test_step_takes_over_what_the_shards_were_answered(cli, fresh):
    for number in (1, 2):
        shard = f"{number}/2"
        file = f".git/answers-{number}.jsonl"
        told = cli(fresh, "rollout", "--shard", shard, "-O", file, "--json", *machine(shard[0]))
        assert (told.json["shard"], told.json["answers"], told.json["errors"]) == (shard, 8, 0)
    files = [word for n in (1, 2) for word in ("--rollouts", f".git/answers-{n}.jsonl")]
    done = cli(fresh, "step", *files, "--json", "-v", *machine("last"))
    assert done.code == 0
    assert done.json["step"] == 1


def test_half_a_step_leaves_a_candidate_to_measure(cli, fresh):
    half = cli(fresh, "step", "--until-candidate", "--json")
    assert (half.code, half.json["kind"], half.json["step"]) == (0, "candidate", 1)
    assert cli(fresh, "plan", "--json").json["phase"] == "evaluation"
    assert cli(fresh, "step", "--until-candidate").out.startswith("Step 1: the candidate ")
    assert cli(fresh, "step", "--json", "-v").json["step"] == 1


def test_notes_are_read_from_a_file(cli, fresh, git):
    note = '{"id": "issue-1", "author": "wen", "text": "Write dates as ISO says."}'
    (fresh / "notes.json").write_text(f'{{"version": 1, "notes": [{note}]}}', encoding="utf-8")
    assert cli(fresh, "step", "--notes", "notes.json").code == 0
    assert '"issue-1"' in git(fresh, "show", "skillopt/quickstart:.skillopt/quickstart/state.json")
    assert cli(fresh, "step", "--notes", "gone.json").code == 2


EVERYTHING = (
    *("-o", "train.num_epochs=2", "-o", "optimizer.use_slow_update=true"),
    *("-o", "optimizer.use_meta_skill=true", "-o", "evaluation.eval_test=true"),
)


def calls(accounts: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """Calls by role and stage; the parts of the final test as one."""
    found: Counter[tuple[str, str]] = Counter()
    for one in accounts:
        found[one["role"], one["stage"].split()[0]] += one["calls"]
    return found


def require_within(rest: dict[str, Any], made: Counter[tuple[str, str]]) -> None:
    foreseen = {(one["role"], one["stage"]): one["calls"] for one in rest["stages"]}
    assert made.keys() <= foreseen.keys()
    for key, count in foreseen.items():
        assert count["least"] <= made[key] <= count["most"], key
    assert rest["calls"]["least"] <= made.total() <= rest["calls"]["most"]


def test_a_run_makes_the_calls_that_were_foreseen_whenever_one_asks(cli, fresh):
    before = cli(fresh, "estimate", "--json", *EVERYTHING).json
    assert cli(fresh, "step", "-q", *EVERYTHING).code == 0
    status = cli(fresh, "status", "--json").json
    assert status["tokens"] / 4 < before["step"]["tokens"]["likely"] < status["tokens"] * 4
    first = calls(status["accounts"])
    require_within(before["step"], first)
    between = cli(fresh, "estimate", "--json", *EVERYTHING).json
    # of a candidate in flight, only the evaluation is left
    assert cli(fresh, "step", "-q", "--until-candidate", *EVERYTHING).code == 0
    left = cli(fresh, "estimate", "--json", *EVERYTHING).json["step"]["stages"]
    assert left == [one for one in between["step"]["stages"] if one["stage"] == "selection"]
    assert cli(fresh, "run", "-q", *EVERYTHING).code == 0
    made = calls(cli(fresh, "status", "--json").json["accounts"])
    require_within(before["rest"], made)
    require_within(between["rest"], made - first)
    # what is exact is exact: attempts of the first epoch, and the first measurement
    by_stage = {one["stage"]: one["calls"] for one in before["step"]["stages"]}
    assert by_stage["rollout"]["likely"] == first["target", "rollout"]
    # sizes come from the run's own calls once there are some, if need be of another stage
    assumed = {one["stage"]: one for one in before["rest"]["stages"]}
    assert not any(one["measured"] for one in assumed.values())
    sized = {one["stage"]: one for one in between["rest"]["stages"]}
    assert {"rollout", "slow_rollout", "test"} <= {one for one in sized if sized[one]["measured"]}
    before, after = (each["slow_update"]["prompt_tokens_per_call"] for each in (assumed, sized))
    assert after < before / 3  # simulated answers are short


#: Options that do not meddle with each other share a run.
CONFIGS = {
    "as it is": (),
    "no evidence": ("gradient.evidence=0", "train.batch_size=8", "train.accumulation=2"),
    "small minibatches, rewrite": (
        *("gradient.minibatch_size=4", "optimizer.use_slow_update=false"),
        "optimizer.skill_update_mode=rewrite_from_suggestions",
    ),
    "attempts, measured to the end": ("rollout.attempts=2", "evaluation.gate.early_stop=false"),
}


@pytest.mark.integration
@pytest.mark.parametrize("name", CONFIGS)
def test_the_likely_calls_of_a_run_are_those_that_it_makes(cli, tmp_path, name):
    folder = tmp_path / "run"
    make_repository(folder)
    # what a run makes depends on its proposals
    seeded = (*CONFIGS[name], "train.num_epochs=2", "model.optimizer.seed=3")
    options = [word for one in seeded for word in ("-o", one)]
    rest = cli(folder, "estimate", "--json", *options).json["rest"]
    assert cli(folder, "run", "-q", *options).code == 0
    made = calls(cli(folder, "status", "--json", *options).json["accounts"])
    require_within(rest, made)
    assert rest["calls"]["likely"] == pytest.approx(made.total(), rel=0.15)


def test_nothing_changes_and_nothing_is_asked(cli, untrained, monkeypatch):
    done = cli(untrained, "estimate")
    assert done.code == 0
    for words in ("Next step", "run, up to step 2", "simulated, costs nothing", "Simulated "):
        assert words in done.out
    assert cli(untrained, "status").code == 2  # the run has not started
    whole = cli(untrained, "estimate", "--json", "-o", "train.batch_size=1000").json
    assert whole["epoch"]["calls"] == whole["step"]["calls"]  # one step, and the start
    monkeypatch.setenv("COLUMNS", "36")
    rows = cli(untrained, "estimate").out.splitlines()
    assert ["stage", "calls", "cost"] in [one.split() for one in rows]
    assert all(one.endswith("  $0.00") for one in rows if one.startswith(("rollout ", "likely ")))


def test_a_price_that_nobody_knows_is_called_unknown(cli, untrained, finished):
    role = "{provider: openai, model: in-no-table, base_url: 'http://127.0.0.1:9/v1'}"
    more = ("-o", "train.num_epochs=2", "-o", f"model.target={role}")
    # nor do the free steps of a simulated model tell it
    assert cli(finished, "estimate", "--json", *more).json["step"]["cost_usd"] is None
    options = ("-o", f"model.target={role}", "-o", f"model.optimizer={role}")
    found = cli(untrained, "estimate", "--json", *options).json
    assert found["rest"]["cost_usd"] is None
    assert found["prices"]["target"]["source"] == "unknown"
    # no work is judged: there is no price of a judge to set
    said = cli(untrained, "estimate", *options).out
    assert ("no price known; set `price` of" in said, "price of the judge" in said) == (True, False)


def test_money_is_calls_times_sizes_times_price(cli, untrained):
    price = "{input: 1000000, output: 0}"
    role = f"{{provider: simulated, model: s, price: {price}}}"
    paid = role.replace("simulated", "openai")
    options = ("-o", f"model.target={paid}", "-o", f"model.optimizer={role}")
    step = cli(untrained, "estimate", "--json", *options).json["step"]
    target = [one for one in step["stages"] if one["role"] == "target"]
    for one in target:
        assert one["cost_usd_per_call"] == pytest.approx(one["prompt_tokens_per_call"])
    expected = sum(one["calls"]["likely"] * one["prompt_tokens_per_call"] for one in target)
    assert step["cost_usd"]["likely"] == pytest.approx(expected)


def test_a_run_at_its_end_has_nothing_left(cli, trained, finished, done):
    found = cli(trained, "estimate", "--json").json
    assert (found["step"]["stages"], found["rest"]["stages"]) == ([], [])
    assert cli(trained, "estimate").out == "Nothing is left to do, and nothing to pay for.\n"
    tested = ("-o", "evaluation.eval_test=true")
    assert cli(finished, "estimate", "--json", *tested).json["rest"]["stages"] == []
    more = cli(finished, "estimate", "--json", *tested, "-o", "train.num_epochs=2").json
    last = more["rest"]["stages"][-1]  # the initial skill has its test score
    assert (last["stage"], last["calls"]) == ("test", {"least": 0, "likely": 16, "most": 32})
    # nor without ends of epochs
    assert cli(done, "finish", "-q", *tested).code == 0
    assert cli(done, "estimate", "--json", *tested).json["rest"]["stages"] == []


def test_a_budget_that_will_not_do_is_a_warning(cli, untrained):
    done = cli(untrained, "estimate", "-o", "budget.step.calls=3", "-o", "budget.run.tokens=10")
    assert done.code == 0
    assert "budget.step.calls is 3 and will likely break off the step" in done.err
    assert "budget.run.tokens is 10 and will end the run early" in done.err
    begins = re.compile(r" +at most in budget ")
    mosts = [begins.sub("", line).split() for line in done.out.splitlines() if begins.match(line)]
    assert len(mosts) == 3
    assert {tokens for _, tokens, _ in mosts} == {"10"}  # the step's limit counts for each step
    assert all(int(calls) > 3 for calls, _, _ in mosts)
    # confirmation only uses what is left
    more = ("-o", "evaluation.confirm=1", "-o", "gradient.analysts=1")
    rest = cli(untrained, "estimate", "--json", *more).json["rest"]
    fresh = sum(one["calls"]["likely"] for one in rest["stages"] if one["stage"] == "confirmation")
    left = rest["calls"]["likely"] - fresh
    told = cli(untrained, "estimate", *more, "-o", f"budget.run.calls={left}").err
    assert (told, fresh > 0) == ("", True)
