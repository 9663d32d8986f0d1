import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from config_files import COMMON, TWO_RUNS

from skillopt_ci.cli.check import check_run
from skillopt_ci.cli.findings import Finding
from skillopt_ci.cli.main import main
from skillopt_ci.cli.options import Globals
from skillopt_ci.errors import ExitCode

ENDS, TESTED = "optimizer.use_slow_update=true", "evaluation.eval_test=true"
OK = Finding("config", "ok", "fine")
MENDABLE = Finding("tasks", "error", "bad line", ExitCode.USAGE)
WORLD = Finding("git", "error", "no route", ExitCode.INFRASTRUCTURE)


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([OK, Finding("tasks", "warning", "few")], 0),
        ([OK, MENDABLE], 2),
        ([OK, WORLD], 5),
        ([WORLD, MENDABLE, OK], 2),
        ([], 0),
    ],
)
def test_what_the_user_can_mend_goes_before_what_the_world_did(monkeypatch, findings, code):
    monkeypatch.setattr("skillopt_ci.cli.check.check_run", lambda *_, **__: findings)
    assert main(["check", "-q"]) == code


def test_a_run_that_can_start_is_called_ready(cli, untrained):
    done = cli(untrained, "check")
    assert done.code == 0
    assert done.out.endswith("\nReady to train (2 warnings): skillopt-ci step\n")
    assert "ok       config           skillopt.yaml: run 'quickstart'\n" in done.out
    assert done.err == ""


@pytest.mark.parametrize(
    ("key", "command"), [(TESTED, "finish"), ("run=quickstart", "report"), (ENDS, "slow-update")]
)
def test_a_run_without_a_step_left_is_not_sent_to_the_next_step(cli, trained, key, command):
    done = cli(trained, "check", "-o", key, "-o", "schedule.slow_update=scheduled")
    assert (done.code, done.out.endswith(f": skillopt-ci {command}\n")) == (0, True)


def test_files_alone_need_no_commit_and_no_git(cli, fresh, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(fresh, copy, ignore=shutil.ignore_patterns(".git"))
    done = cli(copy, "check", "--files")
    assert (done.code, "git " in done.out) == (0, False)
    assert done.out.endswith("\nThe files are in order (2 warnings).\n")


_LAYOUT = {
    "configs/_base_/default.yaml": "env: {name: '', skill_init: '', split_mode: ratio}\n",
    "configs/qa/default.yaml": """\
_base_: ../_base_/default.yaml
env: {name: searchqa, skill_init: envs/initial.md, split_mode: split_dir, split_dir: data}
""",
    "envs/initial.md": "# Answer\n",
}
_CSV = 'id,question,answers\n{split}1,"{split}, one?",a\n{split}2,"{split}, two?",a\n'
_MCQ = """[{{"month": "{split}", "no": 1, "mcq": {{
    "question": "Which of {split}?", "correct_choice": {{"label": "B", "text": "2"}},
    "choices": [{{"label": "A", "text": "1"}}, {{"label": "B", "text": "2"}}]}}}}]"""
_JSON = '[{{"id": "{split}", "question": "{split}?", "context": "[DOC] a.", "answers": ["a"]}}]'


@pytest.mark.parametrize(
    ("name", "text"),
    [("items.csv", _CSV), ("qa_2026_final.json", _MCQ), ("items.json", _JSON)],
    ids=["csv", "monthly", "json"],
)
def test_a_repository_in_skillopts_layout_has_nothing_wrong(cli, fresh, name, text):
    items = {f"data/{split}/{name}": text.format(split=split) for split in ("train", "val", "test")}
    for path, content in (_LAYOUT | items).items():
        (fresh / path).parent.mkdir(parents=True, exist_ok=True)
        (fresh / path).write_text(content, encoding="utf-8")
    top = _LAYOUT["configs/qa/default.yaml"].replace("../_base_", "configs/_base_")
    (fresh / "top.yaml").write_text(top, encoding="utf-8")
    for file in ("configs/qa/default.yaml", "top.yaml"):
        done = cli(fresh, "-c", file, "check", "--files", "--json")
        assert [one for one in done.json["findings"] if one["level"] == "error"] == []


def test_errors_are_counted_and_their_hints_indented(cli, fresh):
    done = cli(fresh, "check", "-o", "prompts=none", "-o", "git.base=trunk")
    assert done.code == 2
    assert done.out.endswith("\n2 errors, 2 warnings.\n")
    assert all(line[:1] != " " or line.startswith(" " * 26) for line in done.out.splitlines())


def test_quiet_leaves_what_needs_attention(cli, untrained):
    done = cli(untrained, "-q", "check")
    assert done.out.startswith("warning  tasks            only 16 selection tasks: ")
    assert all(line.startswith("warning  tasks") for line in done.out.splitlines())


def test_json_is_one_object(cli, untrained):
    found = cli(untrained, "check", "--json").json
    assert found["ready"] is True
    first = {"part": "config", "level": "ok", "text": "skillopt.yaml: run 'quickstart'"}
    assert found["findings"][0] == first


def test_a_hostile_task_file_reaches_no_terminal(cli, fresh):
    with (fresh / "tasks/train.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "\\u001b[2J\\n::error::x", "prompt": 3}\n')
    done = cli(fresh, "check")
    assert (done.code, "\x1b" in done.out, "\n::error" in done.out) == (2, False, False)


AZURE = "model.target={provider: azure, model: m, base_url: https://x, azure: {auth: azure_cli}}"
GRADER = "-oscorer={type: command, command: [sh, -c, '%s']}"


@pytest.mark.parametrize(
    ("grader", "code", "told"),
    [
        ("test -s answer.txt", 0, ("ok       scorers          1 grader tried on an empty",)),
        (
            "no-such-checker",
            2,
            (
                "error    scorers          task ",
                "an empty submission: sh ended with error status 127",
                "must judge any work",
            ),
        ),
    ],
)
def test_graders_are_tried_on_an_empty_submission(cli, fresh, grader, code, told):
    done = cli(fresh, "check", GRADER % grader)
    assert (done.code, [text for text in told if text not in done.out]) == (code, [])


def test_a_grader_on_a_computer_is_tried_on_what_an_agent_begins_with(cli, fresh):
    computer = "-orollout.computer={type: unconfined}"
    scorer = "-oscorer={type: computer, command: 'test -e given || exit 126'}"
    done = cli(fresh, "check", computer, "-orollout.task={files: {given: x}}", scorer)
    assert "ok       scorers          1 grader tried on an empty submission\n" in done.out
    done = cli(fresh, "check", computer, scorer)
    assert done.code == 2
    assert "the grading command ended with status 126" in done.out


def test_nothing_is_written(cli, fresh, git):
    before = git(fresh, "for-each-ref"), git(fresh, "status", "--porcelain=v2")
    assert cli(fresh, "check").code == 0
    assert (git(fresh, "for-each-ref"), git(fresh, "status", "--porcelain=v2")) == before
    assert not (fresh / ".git/skillopt-ci").exists()


def look(folder: Path, *overrides: str) -> list[Finding]:
    return check_run(Globals(environ=dict(os.environ), cwd=folder, overrides=overrides))


def errors(found: list[Finding]) -> dict[str, str]:
    return {one.part: one.text for one in found if one.level == "error"}


def warnings(found: list[Finding]) -> list[str]:
    return [one.text for one in found if one.level == "warning"]


def test_every_part_is_in_order_and_a_started_run_tells_where_it_stands(untrained, trained):
    found = look(untrained)
    assert [one.part for one in found if one.level == "ok"] == [
        *("config", "tasks", "plan", "scorers", "skill"),
        *("program", "git", "git", "model.target", "model.optimizer"),
    ]
    assert errors(found) == {}
    (run,) = (one for one in look(trained) if one.part == "run")
    assert run.text.startswith("2 steps done, now at 0.")


@pytest.mark.parametrize(
    ("override", "part", "said"),
    [
        ("model.target=simulated/simulated-tarjet", "model.target", "mean 'simulated-target'?"),
        ("scorer={type: command, command: [no-such-program]}", "scorers", "no-such-program"),
        ("tasks.selection=tasks/train.jsonl", "tasks", "expected a different file for each split"),
        ("model.target={provider: anthropic, model: m}", "model.target", "skillopt-ci[anthropic]"),
        (AZURE, "model.target", "skillopt-ci[azure]"),
        ("git.commits=api", "git", "api needs a remote on GitHub"),
        ("train.train_size=3", "plan", "train.train_size is 3"),
        ("skill=skills/none.md", "skill", "skills/none.md: No such file or directory\nDid you"),
    ],
)
def test_what_is_wrong_is_told_once_with_its_remedy(untrained, monkeypatch, override, part, said):
    for package in ("anthropic", "azure.identity"):
        monkeypatch.setitem(sys.modules, package, None)
    ((where, told),) = errors(look(untrained, override)).items()
    assert (where, said in told) == (part, True), told


def test_a_target_that_nobody_asks_needs_no_package_key_or_price(untrained, monkeypatch):
    monkeypatch.setitem(sys.modules, "anthropic", None)
    unasked = "model.target={provider: anthropic, model: m}", "rollout.solver={type: human}"
    found = look(untrained, *unasked, "budget.run.cost_usd=5")
    assert (errors(found), "model.target" in [one.part for one in found]) == ({}, False)


def test_a_wrong_configuration_is_named_by_line_and_nothing_else_is_looked_at(fresh, edit):
    edit(fresh / "skillopt.yaml", "num_epochs", "epochs")
    found = look(fresh)
    assert len(found) == 1
    assert "skillopt.yaml:" in errors(found)["config"]


def test_independent_faults_are_all_found_in_one_look(fresh, edit):
    edit(fresh / "skills/ledger/SKILL.md", "name: ledger", "name: Ledger!")
    with (fresh / "tasks/train.jsonl").open("a", encoding="utf-8") as file:
        file.write("{not json\n")
    found = look(fresh, "git.base=trunk", "prompts=none")
    assert set(errors(found)) == {"skill", "tasks", "git", "prompts"}
    assert "SKILL.md:1" in errors(found)["skill"]
    assert "train.jsonl:49" in errors(found)["tasks"]


@pytest.mark.parametrize("place", ["SKILL.md", "training/../SKILL.md"])
def test_at_the_top_of_a_repository_a_skill_has_any_name(fresh, place):
    (fresh / "training").mkdir()
    (fresh / "skills/ledger/SKILL.md").rename(fresh / "SKILL.md")
    assert Finding("skill", "ok", place) in look(fresh, f"skill={place}")


def test_a_skill_that_is_not_committed_or_has_unsaved_changes_is_told(fresh, edit):
    (fresh / "my NEW.md").write_text("# New\n", encoding="utf-8")
    found = look(fresh, "skill=my NEW.md")
    assert list(errors(found)) == ["git"]
    assert "git add 'my NEW.md' && git commit" in errors(found)["git"]
    skill = fresh / "skills/ledger/SKILL.md"
    skill.write_bytes(skill.read_bytes().replace(b"\n", b"\r\n"))
    assert not any("differs from main" in text for text in warnings(look(fresh)))
    edit(skill, "name: ledger", "name: ledger\nlicense: MIT")
    assert any("differs from main" in text for text in warnings(look(fresh)))


def test_a_skill_that_is_not_text_is_an_error(fresh):
    (fresh / "skills/ledger/SKILL.md").write_bytes("# Bücher\n".encode("latin-1"))
    said = "Line 1 is not UTF-8 text: save the file in that encoding"
    assert errors(look(fresh))["skill"] == f"skills/ledger/SKILL.md: {said}"


def test_what_would_stop_the_next_step_is_told(done, git):
    git(done, "reset", "--quiet")
    git(done, "sparse-checkout", "set", "skills")
    assert "`git sparse-checkout add`" in errors(look(done))["tasks"]
    git(done, "sparse-checkout", "set", "tasks")
    assert errors(found := look(done)) == {}
    assert any("skills/ledger/SKILL.md is in git, but" in text for text in warnings(found))
    git(done, "sparse-checkout", "disable")
    for words in ("switch skillopt/quickstart", "rm -r skills", "commit -m Go", "switch main"):
        git(done, *words.split())
    assert "starts from (skillopt/quickstart " in errors(look(done))["git"]
    git(done, "branch", "--force", "skillopt/quickstart", "skillopt/quickstart~")
    (done / "skills/ledger/SKILL.md").write_text("# Something else\n", encoding="utf-8")
    git(done, "commit", "--quiet", "--all", "-m", "Write it anew")
    assert "changed both on main and on skillopt/quickstart" in errors(look(done))["git"]


def test_few_selection_tasks_and_no_test_tasks_are_warned_about(fresh, edit):
    edit(fresh / "skillopt.yaml", "  test: tasks/test.jsonl", "  # none")
    told = " ".join(warnings(look(fresh, "evaluation.sel_env_num=1")))
    assert [one for one in ("only 1 selection task:", "no test tasks") if one not in told] == []


def test_a_missing_key_is_only_warned_about_but_a_budget_in_money_needs_prices(fresh):
    found = look(fresh, "model.target.provider=openai", "model.target.api_key_env=LEDGER_KEY")
    assert errors(found) == {}
    assert any("LEDGER_KEY" in text for text in warnings(found))
    found = look(fresh, "model.target.provider=openai", "budget.run.cost_usd=1")
    assert "model.target.price" in errors(found)["budget"]


@pytest.mark.parametrize("limit", ["calls: 150", "tokens: 120_000"])
def test_the_plan_of_a_budget_is_told(fresh, limit):
    file = fresh / "skillopt.yaml"
    text = file.read_text().partition("\ntrain:\n")[0]
    file.write_text(f"{text}\nbudget: {{run: {{{limit}}}}}\n")
    (plan,) = (one for one in look(fresh) if one.part == "plan")
    assert plan.text.startswith("about 2 steps, as the budget allows now")
    assert plan.text.endswith("a step makes up to 10 edits")
    file.write_text(file.read_text().replace(limit, f"{limit.partition(' ')[0]} 0"))
    assert any("than the budget allows" in text for text in warnings(look(fresh)))


def test_a_budget_too_small_for_a_step_is_warned_about(fresh):
    tested = "evaluation.eval_test=true"
    told = " ".join(warnings(look(fresh, "budget.run.calls=30", tested)))
    # 16 + 8 + 16 + 8 + 2 * 16: no evaluation need end early
    assert "the first score, one step and the final tests may take 80 calls" in told
    assert "the final tests take about 32 calls" in told
    told = " ".join(warnings(look(fresh, "budget.run.calls=0", "evaluation.eval_test=false")))
    assert "the first score and one step may take 48 calls" in told
    assert "final tests" not in told
    told = " ".join(warnings(look(fresh, "budget.run.calls=99", tested)))
    assert "than the budget allows" not in told
    told = " ".join(warnings(look(fresh, "budget.run.calls=400", "rollout.solver={type: agent}")))
    assert "the first score and one step may take 408 calls" in told  # 10 for each attempt


def test_a_remote_that_cannot_be_read_or_pushed_to_is_found(fresh, git, tmp_path):
    origin = str(tmp_path / "origin.git")
    git(fresh, "remote", "add", "origin", origin)
    found = look(fresh, "git.base=main")
    (finding,) = (one for one in found if one.part == "git" and one.level == "error")
    assert finding.exit_code is ExitCode.INFRASTRUCTURE
    git(fresh, "clone", "--quiet", "--bare", ".", origin)
    git(fresh, "mv", "skills/ledger/SKILL.md", "new.md")
    git(fresh, "commit", "--quiet", "--message", "Move it, and push nothing")
    told = errors(look(fresh, "skill=new.md"))["git"]
    said = ("starts from (origin/main ", "git add new.md && git commit, then git push.")
    assert [one for one in said if one not in told] == []
    git(fresh, "remote", "set-url", "--push", "origin", str(tmp_path / "read-only.git"))
    assert "git" in errors(look(fresh))


def test_outside_of_a_repository_the_rest_is_still_looked_at(untrained, tmp_path):
    for part in ("skills", "tasks", "skillopt.yaml"):
        (tmp_path / part).symlink_to(untrained / part)
    found = look(tmp_path)
    assert "not inside a git repository" in errors(found)["git"]
    assert Finding("skill", "ok", "skills/ledger/SKILL.md") in found


def test_a_skill_that_the_run_does_not_train_is_told(trained):
    told = errors(look(trained, "skill=skills/books/SKILL.md"))["git"]
    assert "Run 'quickstart' trains skills/ledger/SKILL.md, but the configuration names" in told


@pytest.mark.parametrize(("name", "text"), [("state.json", "{}"), ("history.jsonl", "<<<<<<<")])
def test_a_damaged_record_of_the_run_is_an_error(fresh, git, name, text):
    file = fresh / ".skillopt/quickstart" / name
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    git(fresh, "add", ".")
    git(fresh, "commit", "--quiet", "-m", "Damage")
    assert name in errors(look(fresh))["git"]


@pytest.fixture
def place(tmp_path: Path, git: Callable[..., str]) -> Path:
    git(tmp_path, "init", "--quiet")
    return tmp_path


def skill(folder: Path, path: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text("one two three\n")


def test_skills_and_their_runs(cli, place, monkeypatch):
    skill(place, "skills/invoices/SKILL.md")
    skill(place, "skills/letters/SKILL.md")
    skill(place, "AGENTS.md")
    (place / "api").mkdir()
    (place / "api" / "AGENTS.md").symlink_to("../skills/letters/SKILL.md")
    (place / "skillopt.yaml").write_text(TWO_RUNS)
    done = cli(place, "discover")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1:5] == [
        "3      agents   -           AGENTS.md",
        "3      agents   letters     api/AGENTS.md",
        "3      agents   invoices    skills/invoices/SKILL.md",
        "3      agents   letters     skills/letters/SKILL.md",
    ]
    assert "No [NAME.]skillopt.yaml trains AGENTS.md: skillopt-ci init --skill A" in done.out
    monkeypatch.setenv("COLUMNS", "40")
    assert "\ninvoices    skills/invoices/SKILL.md\n" in cli(place, "discover").out


def test_the_matrix_has_a_job_for_each_run_of_every_configuration(cli, place):
    (place / "skillopt.yaml").write_text(TWO_RUNS)
    (place / "api").mkdir()
    (place / "api" / "skillopt.yaml").write_text(f"run: api\nskill: AGENTS.md\n{COMMON}")
    found = cli(place / "api", "discover", "--json").json
    assert found["matrix"] == {
        "include": [
            {"run": "api", "config": "api/skillopt.yaml"},
            {"run": "invoices", "config": "skillopt.yaml"},
            {"run": "letters", "config": "skillopt.yaml"},
        ]
    }
    assert found["runs"][0]["skill"] == "api/AGENTS.md"


def test_what_git_ignores_and_workflows_are_not_looked_at(cli, place):
    skill(place, "AGENTS.md")
    skill(place, "node_modules/x/AGENTS.md")
    skill(place, ".github/workflows/skillopt.yml")  # which `init --github` writes
    (place / ".gitignore").write_text("node_modules/\n")
    found = cli(place, "discover", "--json").json
    assert [one["path"] for one in found["documents"]] == ["AGENTS.md"]
    assert found["problems"] == []


AB = "runs: [{run: a, skill: a.md}, {run: b, skill: b.md"


@pytest.mark.parametrize(
    ("other", "said", "rest"),
    [
        (
            f"run: Letters\nskill: z.md\n{COMMON}",
            "Letters (api/skillopt.yaml), letters (",
            ["invoices"],
        ),
        (
            f"run: more\nskill: ../skills/letters/SKILL.md\n{COMMON}",
            "several runs train skills/letters/SKILL.md: more, letters",
            ["invoices"],
        ),
        ("run: [", "api/skillopt.yaml:1", ["invoices", "letters"]),
        (f"{COMMON}{AB}, trian: 1}}]", ": trian: unknown", ["a", "invoices", "letters"]),
        (f"trian: 1\n{COMMON}{AB}}}]", ":1: trian: unknown", ["invoices", "letters"]),
    ],
)
def test_runs_in_each_others_way_are_told_and_stop_no_other(cli, place, other, said, rest):
    (place / "skillopt.yaml").write_text(TWO_RUNS)
    (place / "api").mkdir()
    (place / "api" / "skillopt.yaml").write_text(other)
    done = cli(place, "discover", "--json")
    assert done.code == 2
    assert said in done.err
    assert len(done.json["problems"]) == 1
    assert [one["run"] for one in done.json["matrix"]["include"]] == rest


def test_an_empty_repository_and_a_document_that_is_no_text(cli, place):
    done = cli(place, "discover")
    assert (done.code, "skillopt-ci init" in done.err) == (3, True)
    (place / "AGENTS.md").write_bytes(b"\xff\xfe")
    assert cli(place, "discover", "--json").json["documents"][0]["words"] is None
