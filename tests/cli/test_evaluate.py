import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import in_process, overrides

from skillopt_ci.git.process import Git

SKILL = "skills/ledger/SKILL.md"
OF_TWO_TESTS = ("eval", "skills/SKILL.md", "--json", "-o", "evaluation.test_env_num=2")


def test_initial_and_best_are_compared_on_the_test_tasks(cli, trained):
    lines = cli(trained, "eval").out.splitlines()
    assert lines[0] == "test tasks (simulated models)"
    assert [line.split()[-1] for line in lines[2:4]] == ["initial", "best"]
    assert re.match(r"best minus initial, on the same 16 tasks: [+-]0\.\d{3} ± .*95 %", lines[4])
    assert re.match(r"\d+ fixed, \d+ broken\.$", lines[5])


@pytest.mark.parametrize(("split", "tasks"), [("train", 16), ("selection", 16), ("all", 48)])
def test_any_split_can_be_measured(cli, trained, split, tasks):
    found = cli(trained, "eval", "best", "--split", split, "--json").json
    (skill,) = found["skills"]
    assert (skill["name"], skill["tasks"]) == ("best", tasks)
    assert found["difference"] is None


def test_a_split_without_tasks_is_refused(cli, fresh, edit):
    edit(fresh / "skillopt.yaml", "  test: tasks/test.jsonl", "  # none")
    done = cli(fresh, "eval", "main")
    assert done.code == 2
    assert "names no test tasks" in done.err


def test_a_long_name_leaves_room_for_the_scores(cli, trained, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    line = cli(trained, "eval", f"main:{SKILL}").out.splitlines()[2]
    assert re.match(r"0\.\d{3} \[0\.\d\d, 0\.\d\d\] n=16  0\.\d{3}  main", line)


def test_json_says_how_sure_it_is_and_whether_anything_is_missing(cli, trained):
    found = cli(trained, "eval", "initial", "best", "--json").json
    first, skill = found["skills"]
    assert found["difference"]["hard"] == pytest.approx(skill["hard"] - first["hard"])
    assert (found["split"], found["simulated"], first["tasks"]) == ("test", True, 16)
    low, high = skill["hard_estimate"]["interval"]
    assert low < skill["hard"] < high or skill["hard"] in (low, high)
    assert (skill["complete"], skill["error_table"], skill["missing"]) == (True, [], [])
    assert skill["pessimistic"]["hard"] == pytest.approx(skill["hard"])
    assert sum(kind["tasks"] for kind in skill["by_type"].values()) == 16
    low, high = found["difference"]["interval"]
    assert low <= found["difference"]["hard"] <= high


def test_no_skill_at_all_is_an_arm_of_its_own(cli, trained):
    lines = cli(trained, "eval", "--baseline", "none").out.splitlines()
    assert [line[32:] for line in lines[2:5]] == ["no skill", "initial", "best"]
    assert lines[5].startswith("best minus initial, on the same 16 tasks: ")
    assert lines[7].startswith("best minus no skill, on the same 16 tasks: +")
    assert lines[9].startswith("Used ")
    found = cli(trained, "eval", "best", "--baseline", "none", "--json").json
    (best,), none = found["skills"], found["baseline"]
    assert (none["name"], none["tasks"], found["difference"]) == ("no skill", 16, None)
    assert found["worth"]["hard"] == pytest.approx(best["hard"] - none["hard"])


def test_several_attempts_say_how_often_a_task_is_solved_at_all(cli, trained):
    thrice = ("-o", "rollout.attempts=3")
    found = cli(trained, "eval", "best", "--json", *thrice).json["skills"][0]
    assert (found["tasks"], found["attempts"]) == (16, 48)
    assert list(found["pass_at"]) == ["1", "2", "3"]
    assert found["pass_at"]["1"] == pytest.approx(found["hard"])
    assert found["pass_hat"]["3"] <= found["pass_at"]["1"] <= found["pass_at"]["3"]
    assert "best: solved at least once (pass@k): 1: 0." in cli(trained, "eval", "best", *thrice).out


def test_verbose_adds_the_lengths_of_conversations(cli, trained):
    line = "best: messages in a conversation: 3, 3, 3 (quartiles)"
    told = cli(trained, "-v", "eval", "best").out
    assert line in told
    assert "  payment\n" in told  # and the task types
    assert line not in cli(trained, "eval", "best").out


def test_the_same_scorer_gives_the_same_scores(cli, trained):
    done = cli(trained, "-q", "rescore")
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r"\d+ attempts: solved ([\d.]+) then, \1 now; 0 changed\.\n", done.out)


def test_another_scorer_is_tried_without_any_call_or_commit(cli, done, monkeypatch):
    before = cli(done, "status", "--json").json["commit"]
    (done / "lenient.yaml").write_text("type: regex\npattern: ''\n", encoding="utf-8")
    found = cli(done, "rescore", "--scorer", "lenient.yaml", "--stage", "selection", "--json").json
    assert (found["calls"], {one["stage"] for one in found["attempts"]}) == (0, {"selection"})
    assert all(one["after"]["hard"] == 1.0 for one in found["attempts"])
    assert any(one["before"]["hard"] == 0.0 for one in found["attempts"])
    assert cli(done, "status", "--json").json["commit"] == before
    monkeypatch.setenv("COLUMNS", "40")
    assert re.search("now +why", cli(done, "rescore", "--scorer", "lenient.yaml").out)
    (done / "partial.yaml").write_text("type: f1\n", encoding="utf-8")
    told = cli(done, "rescore", "--scorer", "partial.yaml", "--stage", "selection").out
    assert re.search(r"then, [\d.]+ \(soft 0\.\d+\) now; [1-9]\d* changed\.\n", told)


def test_without_a_scorer_or_a_record_there_is_nothing_to_grade(cli, fresh):
    (fresh / "odd.yaml").write_text("- type: exact\n", encoding="utf-8")
    (fresh / "listed.yaml").write_text('type: computer\ncommand: ["true"]\n', encoding="utf-8")
    computer = "rollout.computer={type: unconfined}"
    for words, said in (
        ((), "No attempt is recorded"),
        (("--scorer", "odd.yaml"), "expected a scorer"),
        (("--scorer", "listed.yaml", "-o", computer), "No attempt is recorded"),
        (("--stage", "nope"), "No attempt of stage 'nope' is recorded"),
    ):
        told = cli(fresh, "rescore", *words)
        assert (told.code, said in told.err) == (2, True)


def first_task(folder: Path, split: str = "train") -> str:
    line = (folder / f"tasks/{split}.jsonl").read_text(encoding="utf-8").splitlines()[0]
    return str(json.loads(line)["id"])


def test_an_attempt_is_shown_from_question_to_outcome_and_found_by_its_stage(cli, trained):
    task = first_task(trained)
    done = cli(trained, "trace", task, "--stage", "rollout")
    assert (done.code, done.err, done.out.split()[-2:]) == (0, "", ["cost", "$0.00)"])
    headings = [line for line in done.out.splitlines() if line and not line.startswith(" ")]
    assert headings == ["attempt", "system", "user", "model", "result", "outcome"]
    assert f"task {task}, attempt 0, stage rollout, solver chat" in done.out
    events = cli(trained, "trace", task, "--json").json
    assert [event["type"] for event in events][-1] == "attempt_ended"
    assert {event["run"] for event in events} == {"quickstart"}
    assert events[1]["messages"][0]["content"]
    task = first_task(trained, "selection")
    assert "stage selection" in cli(trained, "trace", task, "--stage", "selection").out
    assert "Recorded attempts: selection 0" in cli(trained, "trace", task, "--attempt", "77").err


def test_the_skill_can_be_chosen(cli, fresh):
    # a run of its own: in the shared one other tests may have attempted the task since
    assert cli(fresh, "-q", "run").code == 0
    task = first_task(fresh, "selection")
    history = "skillopt/quickstart:.skillopt/quickstart/history.jsonl"
    start = Git(fresh).run("show", history).text.splitlines()[0]
    first = json.loads(start)["skill_sha256"]
    asked = ("trace", task, "--stage", "selection", "--skill")
    assert f"skill {first[:12]}" in cli(fresh, *asked, first[:8]).out
    assert f"skill {first[:12]}" not in cli(fresh, *asked, "").out
    assert cli(fresh, *asked, "0" * 64).code == 2


def test_events_can_be_switched_off(cli, fresh):
    assert cli(fresh, "-q", "step", "-o", "rollout.events=false").code == 0
    assert cli(fresh, "trace", first_task(fresh)).code == 2


def test_calibrate_says_how_often_the_gate_errs(cli, trained, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    done = cli(trained, "calibrate", "--draws", "3", "-o", "rollout.attempts=2")
    price = r"6 attempts at each selection task: about 96 calls, [\d,]+ tokens, cost \$0\.00; .*"
    assert re.search(price, done.err)
    assert "on 16 selection tasks (simulated models): each attempted 6 times" in done.out
    assert "Of 6 comparisons of the skill with itself the gate took" in done.out
    table = "comparisons (worse, better: by 0.1) tasks equal worse better 16 "
    assert f"Skills accepted in 600 simulated {table}" in " ".join(done.out.split())
    told = cli(trained, "calibrate", "--draws", "2", "--effect", "0.9").out
    assert "(worse, better: by 0.9, or to a score of 0 or 1)" in " ".join(told.split())


def test_calibrate_json_is_one_object_and_can_be_repeated(cli, fresh):
    words = ("calibrate", "initial", "--effect", "0.3", "--json")
    found, again = (cli(fresh, *words).json for _ in range(2))
    assert again.pop("usage")["calls"] == 0 < found.pop("usage")["calls"]
    assert again == found
    assert found | {"tasks": 16, "draws": 4, "effect": 0.3, "same_compared": 12} == found
    assert [one["tasks"] for one in found["rates"]] == [16, 32, 64]
    assert all(one["worse"] <= one["same"] <= one["better"] for one in found["rates"])
    assert found["undecided"] == found["same_accepted"] == found["rates"][0]["same"] == 0


def test_calibrate_simulates_as_many_attempts_as_a_comparison_makes(cli, trained):
    def better(attempts: int) -> float:
        words = ("calibrate", "--draws", "2", "--json", "-o", f"rollout.attempts={attempts}")
        return cli(trained, *words).json["rates"][0]["better"]

    assert better(1) < 0.9 < better(16)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("nothing like it", "No attempt solved any task"), (".", "no edit can score higher")],
)
def test_calibrate_explains_tasks_that_tell_nothing(cli, done, pattern, said):
    scorer = f"scorer={{type: regex, pattern: '{pattern}'}}"
    told = cli(done, "calibrate", "--draws", "2", "-o", scorer)
    assert told.code == 0, told.err
    assert said in told.out
    assert "simulated comparisons" not in told.out


def test_an_evaluation_that_measured_nothing_says_so_in_json(checkout, model_server):
    model_server.trouble = lambda prompt: (500, "down")
    done = in_process(checkout.folder, *OF_TWO_TESTS)
    assert done.returncode == 5
    (skill,) = json.loads(done.stdout).get("skills", [{}])
    assert skill.get("errors") == 2


def test_the_evaluation_of_one_skill_has_the_scores_of_its_tasks_in_json(checkout, model_server):
    done = in_process(checkout.folder, *OF_TWO_TESTS)
    assert done.returncode == 0, done.stderr
    asked = {prompt.rsplit("Item ", 1)[1] for prompt in model_server.prompts}
    names = {f"{item.split()[-1]}{item.split()[0]}" for item in asked}
    assert len(names) == 2
    assert [name for name in names if f'"{name}"' not in done.stdout] == []


def test_the_end_of_a_retried_attempt_belongs_to_its_last_try(checkout):
    mark = checkout.folder / "tried"
    settings = overrides(
        "evaluation.test_env_num=1",
        'rollout.solver={type: scripted, commands: ["true"], answer: a200}',
        "rollout.computer={type: unconfined}",
        "rollout.programs_can_read_secrets=true",  # the first try leaves a mark outside
        f'rollout.task={{setup: ["test -e {mark} || {{ touch {mark}; exit 1; }}"]}}',
    )
    assert in_process(checkout.folder, "eval", "skills/SKILL.md", *settings).returncode == 0
    (log,) = (checkout.folder / ".git").rglob("*-eval.jsonl")
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [event["retry"] for event in events if event["type"] == "work_ended"] == [1]
    assert [event["retry"] for event in events if event["type"] == "attempt_ended"] == [1]


def test_more_files_may_be_open_than_usual(checkout):
    settings = overrides(
        'rollout.solver={type: scripted, commands: ["ulimit -n > limit"]}',
        "rollout.computer={type: unconfined}",
        'scorer={type: computer, command: "test $(cat limit) -gt 64"}',
        "evaluation.test_env_num=1",
    )
    program = [sys.executable, "-m", "skillopt_ci", "eval", "skills/SKILL.md", "--json", *settings]
    done = subprocess.run(
        ["prlimit", "--nofile=64:", *program],
        check=False,
        cwd=checkout.folder,
        env={**os.environ, "DEMO_KEY": "sk-demo-key"},
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout)["skills"][0]["hard"] == 1.0, done.stderr


@pytest.mark.parametrize(("does", "seconds"), [("true", 60), ("sleep 60", 0.5)])
def test_work_with_tools_needs_no_answer(checkout, does, seconds):
    settings = overrides(
        f"rollout={{computer: {{type: unconfined}}, limits: {{rollout_seconds: {seconds}}}}}",
        f"rollout.solver={{type: scripted, commands: ['{does}']}}",
        'scorer={type: computer, command: "true"}',
    )
    done = in_process(checkout.folder, "eval", "skills/SKILL.md", *settings)
    assert (done.returncode, "were empty" in done.stderr) == (0, False)


#: A judge that can only grade an answer without digits.
JUDGE = """
import sys
answer = sys.stdin.read().split("## Answer to grade")[1].split("## Reply")[0]
print("Very good!" if any(map(str.isdigit, answer)) else '{"score": 0}')
"""


def test_an_evaluation_counts_the_answers_that_its_judge_cannot_grade(checkout):
    checkout.write("judge.py", JUDGE)
    program = json.dumps([sys.executable, "{root}/judge.py"])
    judge = f"model.judge={{provider: command, model: j, command: {program}}}"
    settings = overrides(judge, "scorer={type: rubric, rubric: Good}")
    done = in_process(checkout.folder, "eval", "skills/SKILL.md", *settings)
    assert done.returncode == 0, done.stderr
    told = "8 of 8 test attempts made their grader fail, which scores 0. The grader fails on this"
    assert told in " ".join(done.stderr.split())
    assert "the judge gave no score twice: 'Very good!'" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("scorer", "simulated"), [("{type: exact}", False), ("{type: rubric, rubric: Good}", True)]
)
def test_an_evaluation_is_simulated_if_the_target_or_the_judge_is(checkout, scorer, simulated):
    models = overrides("model.optimizer=simulated/simulated-optimizer", f"scorer={scorer}")
    done = in_process(checkout.folder, "eval", "skills/SKILL.md", *models)
    assert done.returncode == 0, done.stderr
    assert ("(simulated models)" in done.stdout) is simulated
