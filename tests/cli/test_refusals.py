"""What a command line that cannot work is told, and that nothing is done for it."""

from pathlib import Path

import pytest

from skillopt_ci.cli.main import main

NOT_STARTED = "Run 'quickstart' has not started"


@pytest.mark.parametrize(
    ("folder", "words", "said"),
    [
        ("trained", "show 3", "has no record of step 3: its steps are 1 to 2"),
        ("trained", "check --files --probe", "--files asks no model"),
        ("trained", "show 1 --epoch 1", "either a STEP or an --epoch"),
        ("trained", "show --epoch 1", "has no record of the end of epoch 1: its last is none"),
        ("trained", "diff 9", "has no record of step 9: its steps are 1 to 2"),
        ("trained", "diff inital", "Did you mean 'initial'?"),
        ("trained", "status --config other.yaml", "other.yaml"),
        ("trained", "config --config a**", "a**: there is no such file"),
        ("trained", "show abc", "'abc' is not a valid integer."),
        ("trained", "status --run quickstrat", "\nDid you mean 'quickstart'?\n"),
        ("trained", "status --run nightly", "\nStart it with `skillopt-ci step` and the config"),
        ("untrained", "status", "Start it with `skillopt-ci step`."),
        ("untrained", "log -c ./skillopt.yaml", "step`."),
        ("untrained", "best", NOT_STARTED),
        ("untrained", "report", NOT_STARTED),
        ("tmp_path", "status", "not inside a git repository"),
        ("tmp_path", "discover", "not inside a git repository"),
        ("trained", "eval best initial current", "one skill, or two"),
        ("trained", "trace nonsense", "No such attempt at task 'nonsense' is recorded.\nTasks "),
        ("trained", "trace nonsense", "Test tasks are attempted at the end of a run."),
        ("untrained", "trace t", "No attempt of run"),
        ("trained", "calibrate -o evaluation.use_gate=false", "evaluation.use_gate is false"),
        ("untrained", "step -o train.batchsize=3", "batch_size"),
        ("fresh", "step --rollouts skillopt.yaml", "skillopt.yaml:1: not a rollout answer"),
        ("untrained", "rollout --shard 5/4", "5/4"),
        ("untrained", "rollout", "--shard"),
        ("untrained", "rollout --shard 1/1 -O -", "--output FILE"),
    ],
)
def test_what_cannot_work_is_told_with_its_remedy(cli, git, request, folder, words, said):
    place: Path = request.getfixturevalue(folder)

    def state() -> tuple[str, ...]:
        looks = () if folder == "tmp_path" else (["for-each-ref"], ["status", "--porcelain=v2"])
        return tuple(git(place, *look) for look in looks)

    before, done = state(), cli(place, *words.split())
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert state() == before


def test_a_skill_that_is_not_there_is_refused_before_its_price_is_told(cli, trained):
    told = cli(trained, "calibrate", "nope").err
    assert "'nope' names no skill" in told
    assert "attempts at each" not in told


def test_links_that_lead_to_each_other_are_told(cli, fresh, edit):
    for link in ("loop", "tasks/loop"):
        (fresh / link).symlink_to("loop")
    (fresh / "b.yaml").write_text("_base_: loop\n", encoding="utf-8")
    with (fresh / "tasks/train.jsonl").open("a", encoding="utf-8") as tasks:
        tasks.write('{"id": "last", "prompt": "?", "references": ["x"], "files": ["loop"]}\n')
    for words in ("config -c b.yaml", "check --files", "quickstart loop", "init -y -c loop/a.yaml"):
        done = cli(fresh, *words.split())
        assert done.code == 2, done.err
    edit(fresh / "skillopt.yaml", "skill: skills/ledger/SKILL.md", "skill: loop")
    assert " loop\n" in cli(fresh, "discover").out


def test_a_folder_that_is_gone_is_told(tmp_path, monkeypatch, capsys):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["status"]) == 2
    assert "this folder no longer exists" in capsys.readouterr().err
