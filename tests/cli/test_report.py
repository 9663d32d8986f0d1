import http.client
import json
import re
import shutil
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import in_process, serving_report
from run_views import altered, gate, plain_run

from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.read import gather, open_reader
from skillopt_ci.cli.report import page_evidence, recorded_attempts, trajectory
from skillopt_ci.errors import ExitCode, UsageError
from skillopt_ci.integrations.skillopt.export import flat_config, skillopt_files
from skillopt_ci.ledger.evidence import EditRecord, Measurement, SuggestionRecord
from skillopt_ci.ledger.records import Basis, BoundaryRecord, SlowUpdateRecord, StepRecord
from skillopt_ci.redaction import HIDDEN, Redactor, unchanged
from skillopt_ci.report.effects import edit_effects
from skillopt_ci.report.html_attempts import viewer
from skillopt_ci.rollout.events import AttemptTrace
from skillopt_ci.util import write_atomically
from tests.conftest import BRANCH, CANDIDATE, HARMFUL, Checkout


def test_it_writes_one_file_from_git_alone(cli, clone):
    folder = clone()
    for path in [folder / "skillopt.yaml", *folder.glob("tasks/*")]:
        path.unlink()
    done = cli(folder, "report", "--json")
    assert done.code == 0, done.err
    written = folder / "skillopt-report.html"
    assert done.json == {"run": "quickstart", "file": written.name, "bytes": written.stat().st_size}
    assert "Simulated models." in written.read_text(encoding="utf-8")


def test_the_file_may_be_elsewhere_and_is_replaced_as_a_whole(cli, done):
    assert cli(done, "report", "--json", "-O-").json["exit_code"] == 2
    for _ in range(2):
        assert cli(done, "report", "-O", "site/index.html").code == 0
        text = (done / "site/index.html").read_text(encoding="utf-8")
        assert (cli(done, "report", "-O-").out, (done / "-").exists()) == (text, False)
    assert [path.name for path in (done / "site").iterdir()] == ["index.html"]


def test_every_text_of_the_skill_is_there_with_where_it_came_from(finished):
    found = page_evidence(open_reader(Globals({}, finished)))
    history = [entry.skill_sha256 for entry in found.run.history]
    assert len(found.versions) == len(dict.fromkeys(history))
    assert found.versions[0].label == "at the start"
    assert all(version.anchor for version in found.versions[1:])
    assert {one.proposal.skill_after for one in found.run.steps} <= set(found.run.texts)


def course(*events: dict[str, object], status: str = "scored", hard: float = 0.0) -> AttemptTrace:
    end = {"type": "attempt_ended", "status": status, "hard": hard, "soft": hard, "reason": "so"}
    return AttemptTrace("rollout", "task", 0, "chat", "sha", [*events, end])


def said(text: str) -> dict[str, object]:
    return {"type": "model_said", "message": {"content": text}}


def test_the_attempts_of_a_run_are_told_by_step_but_none_at_test_tasks(finished):
    found = page_evidence(open_reader(Globals({}, finished)))
    shown = viewer(found.run, found.attempts, found.count).shown
    assert {one.section for one in shown} == {"", "step-1", "step-2"}
    assert {one.attempt.stage for one in shown} == {"rollout", "selection"}
    step = found.run.steps[0]
    failed = {task.id for task in step.proposal.rollout.tasks if task.failed}
    assert failed & {one.attempt.task for one in shown if one.section == "step-1"}
    first = next(one for one in shown if one.attempt.skill == step.proposal.skill_before)
    assert (first.made_with, first.attempt.turns[-1].kind) == ("the skill at the start", "outcome")
    events = (finished / ".git/skillopt-ci/events/quickstart").glob("*.jsonl")
    lines = (line for file in events for line in file.read_text(encoding="utf-8").splitlines())
    stages = {json.loads(line)["stage"] for line in lines}
    assert any(stage.startswith("test") for stage in stages)
    assert not any(stage.startswith("test") for stage, *_ in found.attempts)
    assert found.count > len(found.attempts)


def test_a_torn_record_is_read_as_far_as_it_goes(done):
    reader = open_reader(Globals({}, done))
    run = page_evidence(reader).run
    _, before = recorded_attempts(reader, run, unchanged)
    newest = max((done / ".git/skillopt-ci/events/quickstart").glob("*.jsonl"))
    newest.write_bytes(newest.read_bytes()[:-40])
    assert recorded_attempts(reader, run, unchanged)[1] == before  # unfinished, yet begun
    newest.with_stem(f"{newest.stem}-again").write_bytes(newest.read_bytes())
    assert recorded_attempts(reader, run, unchanged)[1] == before  # answered from the cache


@pytest.mark.parametrize(
    ("status", "hard", "outcome", "told"),
    [
        ("scored", 1.0, "solved", "solved"),
        ("scored", 0.5, "partial", "solved in part (0.500)"),
        ("limit", 0.0, "failed", "failed"),
        ("error", 0.0, "unknown", "not measured: error"),
    ],
)
def test_an_outcome_is_put_into_words(status, hard, outcome, told):
    found = trajectory(course(status=status, hard=hard), unchanged)
    assert (found.outcome, found.told) == (outcome, told)
    ended = "not measured" if outcome == "unknown" else "solved"
    assert found.turns[-1].text.startswith(f"{status}: {ended}")
    left = AttemptTrace("rollout", "task", 0, "chat", "sha", [said("hm")])
    assert trajectory(left, unchanged).told == "not ended"


def test_the_instructions_are_left_out_and_the_rest_is_in_order():
    system = {"role": "system", "content": "the skill"}
    asked = {"type": "asked", "messages": [system, {"role": "user", "content": "Do it."}]}
    used = {"type": "tool_used", "call": {"name": "bash"}, "output": "ok", "exit_code": 1}
    found = trajectory(course(asked, said("I do."), used, {"type": "work_ended"}), unchanged)
    told = [(turn.kind, turn.text) for turn in found.turns[:-1]]
    assert told == [("user", "Do it."), ("model", "I do."), ("tool", "ok")]
    assert found.turns[2].heading == "bash (exit status 1)"


def test_a_long_attempt_keeps_its_beginning_and_its_end():
    texts = [f"{number} " * 700 for number in range(100, 160)]
    found = trajectory(course(*map(said, texts)), unchanged)
    assert sum(len(turn.text) for turn in found.turns) < 6_200
    assert found.turns[0].text.startswith("100 ")
    assert "characters left out" in found.turns[0].text
    assert found.turns[2].kind == "gap"
    assert found.turns[-2].text.startswith("159 ")
    assert found.turns[2].text == f"{62 - len(found.turns)} turns left out"


def test_secrets_are_hidden_even_where_a_text_is_cut_in_them():
    secret = "sk-4f9aB27xQz81LmPw"
    redact = Redactor([secret])
    for offset in range(780, 805):
        found = trajectory(course(said("x" * offset + secret + "y" * 2_000)), redact)
        assert "sk-4f" not in found.turns[0].text
    assert HIDDEN in trajectory(course(said(secret)), redact).turns[0].text


def test_the_file_has_the_attempts(cli, done):
    assert cli(done, "report", "-q").code == 0
    page = (done / "skillopt-report.html").read_text(encoding="utf-8")
    assert page.count('<details class="trajectory ') > 5
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert set(json.loads(found[1])) == {"columns", "rows", "cells"}
    for file in done.glob(".git/skillopt-ci/events/*/*"):
        file.unlink()
    assert cli(done, "report", "-q").code == 0
    page = (done / "skillopt-report.html").read_text(encoding="utf-8")
    assert '<details class="trajectory ' not in page
    assert "no record of the attempts" in page


def compared_step(number: int, content: str, gain: float) -> StepRecord:
    record = plain_run(number).steps[-1]
    edit = EditRecord(op="append", content=content, status="applied_append")
    return altered(record, {"gate": gate(gain, 0.05)}, edits=(edit,))


def test_an_edit_that_gained_is_believed_to_help_and_more_so_with_time():
    steps = [compared_step(number, "Be brief.", 0.1) for number in range(1, 7)]
    early, late = (edit_effects(steps[:count])[1, 0] for count in (2, 6))
    assert late.helpful > early.helpful > 0.5
    assert late.sd < early.sd
    steps[1:] = [altered(one, {"reused_from": 1}) for one in steps[1:]]  # no new scores
    assert edit_effects(steps)[1, 0] == edit_effects(steps[:1])[1, 0]


def test_edits_are_told_apart_in_the_newest_steps_of_a_long_run():
    found = edit_effects([compared_step(1, "Good.", 0.2), compared_step(2, "Bad.", -0.2)])
    assert found[1, 0].mean > 0 > found[2, 0].mean
    assert edit_effects([]) == {}
    assert edit_effects(plain_run(2).steps) == {}
    steps = [compared_step(number, f"Rule {number}.", 0.1) for number in range(1, 61)]
    assert list(edit_effects(steps)) == [(number, 0) for number in range(21, 61)]


@pytest.fixture
def served(done: Path) -> Iterator[int]:
    # other tests measure skills in the repository that this one is a copy of
    for file in (done / ".git" / "skillopt-ci" / "events" / "quickstart").glob("*.jsonl"):
        if "-quickstart-" not in file.name:
            file.unlink()
    with serving_report(done, "-m", "skillopt_ci", "--json") as (port, process):
        yield port
        process.terminate()


def ask(port: int, path: str, host: str = "localhost") -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_the_served_page_follows_the_run(served, done, git):
    status, page = ask(served, "/")
    assert (status, page.count('class="card ')) == (200, 2)
    tip = git(done, "rev-parse", "skillopt/quickstart")
    assert ask(served, "/version") == (200, tip)
    git(done, "update-ref", "refs/heads/skillopt/quickstart", f"{tip}~1")
    assert not ask(served, "/version")[1].startswith(tip)
    assert ask(served, "/")[1].count('class="card ') == 1


def test_the_server_refuses_what_it_cannot_or_must_not_answer(cli, served, done):
    assert ask(served, "/", host="evil.example")[0] == 403
    assert ask(served, "/../../etc/passwd")[0] == 404
    told = cli(done, "report", "--serve", "--port", str(served))
    assert (told.code, "--port 0" in told.err) == (2, True)
    shutil.move(done / ".git", done / "elsewhere")
    assert ask(served, "/version")[0] == 503
    shutil.move(done / "elsewhere", done / ".git")
    assert ask(served, "/version")[0] == 200


def test_a_browser_that_goes_away_is_no_error(served):
    for asked in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /abs"):
        with socket.create_connection(("127.0.0.1", served)) as browser:
            browser.sendall(asked)
            # gone at once, without the farewell of TCP
            browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert ask(served, "/version")[0] == 200


STRUCK = """
import signal, sys, threading
from skillopt_ci.cli import main, report
answer = report.open_reader
def open_reader(settings):
    found = answer(settings)
    if threading.current_thread() is not threading.main_thread() and report.opened:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    report.opened += 1
    return found
report.open_reader, report.opened = open_reader, 0
sys.exit(main.main(sys.argv[1:]))
"""


def test_an_interrupt_ends_the_server_whichever_thread_it_strikes(done):
    with serving_report(done, "-c", STRUCK) as (port, _):
        assert ask(port, "/version")[0] == 200


RECORD_FIELDS = {
    *("step", "epoch", "step_in_epoch", "timing", "tokens", "rollout_hard", "rollout_soft"),
    *("rollout_n", "accumulation_batches", "n_patches", "n_failure_patches", "n_success_patches"),
    *("n_edits_merged", "n_edits_ranked", "edit_budget", "lr_control_mode", "support_counts"),
    *("candidate_hash", "candidate_skill_len", "edit_apply_summary", "selection_hard"),
    *("selection_soft", "gate_metric", "candidate_gate_score", "action", "current_score"),
    *("best_score", "best_step", "current_origin", "best_origin", "skill_len", "wall_time_s"),
}
BATCH_FIELDS = {
    *("batch_idx", "batch_seed", "n_envs", "hard", "soft"),
    *("n_failure_patches", "n_success_patches"),
}
SUMMARY_FIELDS = {
    *("version", "config", "baseline_selection_hard", "best_selection_hard"),
    *("final_selection_hard", "final_selection_soft", "best_step", "current_origin"),
    *("best_origin", "total_steps", "total_accepts", "total_rejects", "total_skips"),
    *("epoch_stats", "baseline_test_hard", "baseline_test_soft", "test_hard", "test_soft"),
    *("final_test_hard", "final_test_soft", "test_delta_hard", "final_test_delta_hard"),
    *("total_wall_time_s", "token_summary"),
}
EPOCH_FIELDS = {
    *("epoch", "steps", "accepts", "rejects", "skips"),
    *("best_score_at_epoch_end", "current_score_at_epoch_end"),
}
STATE_FIELDS = {
    *("last_completed_step", "current_skill_path", "current_score", "current_origin"),
    *("best_skill_path", "best_score", "best_step", "best_origin"),
}
DERIVED = {"train_size", "samples_per_epoch", "steps_per_epoch", "batches_per_epoch"}
DERIVED |= {"skill_update_mode", "lr_control_mode", "edit_budget", "min_edit_budget"}


@pytest.fixture
def exported(cli, ended: Path, tmp_path: Path) -> Path:
    assert cli(ended, "export", "--format", "skillopt", tmp_path / "out").code == ExitCode.DONE
    return tmp_path / "out"


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def measured_step(exported: Path) -> dict[str, Any]:
    return next(one for one in read(exported, "history.json") if "selection_hard" in one)


def test_a_step_has_every_field_that_the_reference_names(exported):
    record = measured_step(exported)
    assert record.keys() >= RECORD_FIELDS
    assert min(one["step_in_epoch"] for one in read(exported, "history.json")) == 0
    assert record["accumulation_batches"][0].keys() == BATCH_FIELDS
    for used in record["tokens"].values():
        assert used.keys() == {"calls", "prompt_tokens", "completion_tokens"}
    assert record["edit_apply_summary"].keys() == {"total", "applied", "skipped", "errors"}
    assert len(record["candidate_hash"]) == 16


@pytest.mark.parametrize("planned", [0, 40])
def test_a_score_on_the_hardest_tasks_alone_is_not_exported_beside_others(planned):
    run, part = plain_run(1), Measurement(hard=0.25, soft=0.5, score=0.25, planned=planned)
    steps = (altered(run.steps[0], {"measurement": part}),)
    guidance = SlowUpdateRecord(action="propose", content="Look twice.")
    facts = {"skill_before": "a", "skill_after": "b", "config_sha256": "", "simulated": False}
    facts |= {"slow_update": guidance, "decision": steps[0].decision, "epoch": 2, "step": 1}
    run = replace(run, steps=steps, epochs=(BoundaryRecord.model_validate(facts),))
    files = skillopt_files(run, "out")
    (entry,) = json.loads(files["history.json"])
    slow = json.loads(files["slow_update/epoch_02/slow_result.json"])
    assert entry["action"] == slow["action"] == "accept_new_best"
    scores = [one.get("selection_hard") for one in (entry, slow)]
    assert scores == [None if planned else 0.25] * 2


def test_rejected_suggestions_stand_in_a_step_s_digest():
    run, told = plain_run(2), SuggestionRecord(type="", title="", instruction="Check.")
    step = altered(run.steps[1], mode="rewrite_from_suggestions", edits=(), suggestions=(told,))
    files = skillopt_files(replace(run, steps=(step,)), "out")
    (found,) = json.loads(files["steps/step_0002/trajectory_digest.json"])["rejected_edits"]
    assert found["instruction"] == "Check."


def test_the_summary_has_every_field_that_the_reference_names(exported, ended):
    summary = read(exported, "summary.json")
    assert (summary.keys(), summary["epoch_stats"][0].keys()) == (SUMMARY_FIELDS, EPOCH_FIELDS)
    assert "_total" in summary["token_summary"]
    assert summary["config"] == read(exported, "config.json")
    assert summary["config"].keys() >= DERIVED
    assert summary["epoch_stats"][0]["steps"] == [1, 2]
    run = gather(open_reader(Globals({}, ended)))
    again = run.history[-1].model_copy(update={"kind": "measure"})  # on another scale
    files = skillopt_files(replace(run, history=(*run.history, again)), "out")
    assert "baseline_selection_hard" not in json.loads(files["summary.json"])


def test_backends_are_named_as_skillopt_does():
    role, train = {"provider": "compatible", "model": "m"}, {"batch_size": 4, "accumulation": 1}
    basis = Basis(config={"model": {"target": role}, "train": train}, train_size=8, train_sha256="")
    run = plain_run(1)
    run = replace(run, state=run.state.model_copy(update={"basis": basis}))
    assert flat_config(run)["target_backend"] == "openai_compatible"


def test_the_resume_pointer_leads_to_files_and_every_step_has_its_folder(exported):
    state = read(exported, "runtime_state.json")
    assert state.keys() == STATE_FIELDS
    current, best = (Path(state[f"{which}_skill_path"]) for which in ("current", "best"))
    assert current.is_file()
    assert best.read_bytes() == (exported / "best_skill.md").read_bytes()
    record = measured_step(exported)
    folder = exported / f"steps/step_{record['step']:04}"
    assert read(folder, "step_record.json") == record
    digest = read(folder, "trajectory_digest.json")
    assert digest.keys() >= {"step", "action", "n_total", "n_fail", "failure_patterns"}
    report = read(folder, "edit_apply_report.json")
    assert report[0].keys() == {"op", "target", "content_preview", "status", "index"}
    assert read(folder, "ranked_edits.json").keys() == {"reasoning", "edits"}
    assert read(folder, "merged_patch.json") == read(folder, "ranked_edits.json")
    rows = (folder / "rollout/results.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(rows) == record["rollout_n"]
    assert json.loads(rows[0]).keys() >= {"id", "hard", "soft", "fail_reason", "task_type"}
    assert (folder / "candidate_skill.md").is_file()
    assert (folder / "selection_eval/results.jsonl").is_file()
    assert (exported / "selection_eval_baseline/results.jsonl").is_file()


def test_skills_are_those_of_git(exported, ended, git):
    names = [file.name for file in sorted((exported / "skills").iterdir())]
    assert names == [f"skill_v{n:04}.md" for n in range(len(read(exported, "history.json")) + 1)]
    initial = git(ended, "show", "main:skills/ledger/SKILL.md")
    current = git(ended, "show", "skillopt/quickstart:skills/ledger/SKILL.md")
    texts = [(exported / "skills" / name).read_text(encoding="utf-8").strip() for name in names]
    assert (texts[0], texts[-1]) == (initial.strip(), current.strip())


def test_test_folders_sum_up_by_task_type_and_an_epochs_end_has_its_folders(exported):
    for name in ("test_eval_baseline", "test_eval", "test_eval_final"):
        found = read(exported, f"{name}/summary.json")
        assert found["overall"].keys() == {"total", "hard_acc"}
        parts = [one["total"] for kind, one in found.items() if kind != "overall"]
        assert found["overall"]["total"] == sum(parts)
    slow = read(exported, "slow_update/epoch_01/slow_result.json")
    assert slow.keys() >= {"reasoning", "slow_update_content", "candidate_hash", "update_origin"}
    assert slow["action"] == "inject_placeholder"
    assert (exported / "slow_update/epoch_01/candidate_skill.md").is_file()
    meta = read(exported, "meta_skill/epoch_01/meta_skill_result.json")
    assert meta.keys() == {"action", "reasoning", "meta_skill_content"}
    assert meta["action"] == "skip_first_epoch"


def test_a_shallow_clone_is_deepened_for_the_skills(cli, exported, finished, clone, tmp_path):
    thin = clone("--depth", "1", "--branch", "skillopt/quickstart", "--single-branch", of=finished)
    again = tmp_path / "not UTF-8\udcff"
    assert cli(thin, "export", "--run", "quickstart", again).code == ExitCode.DONE
    ours = {path.relative_to(exported) for path in exported.rglob("*")}
    assert {path.relative_to(again) for path in again.rglob("*")} == ours


def test_a_folder_is_refused_unless_an_export_ended_in_it(cli, done, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep", encoding="utf-8")
    result = cli(done, "export", tmp_path / "mine")
    assert (result.code, "nothing was written" in result.err) == (ExitCode.USAGE, True)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    names, out = ["EXPORT_INCOMPLETE", "config.json"], tmp_path / "out"

    def write(file: Path, text: str) -> None:
        write_atomically(file, text)
        if file.name == names[1]:
            raise UsageError("no space is left")

    with monkeypatch.context() as patch:
        patch.setattr("skillopt_ci.cli.report.write_atomically", write)
        assert cli(done, "export", out).code == ExitCode.USAGE
    assert sorted(path.name for path in out.iterdir()) == names
    (out / "config.json").write_text("of an earlier step", encoding="utf-8")
    assert cli(done, "export", out).code == ExitCode.DONE
    assert (read(out, "config.json")["env"], (out / names[0]).exists()) == ("quickstart", False)


def fates(checkout: Checkout) -> list[tuple[str, str]]:
    """What the report says of each step, newest first."""
    assert in_process(checkout.folder, "report").returncode == 0
    page = (checkout.folder / "skillopt-report.html").read_text(encoding="utf-8")
    badge = r'<span class="badge">([^<]*)</span> <span class="headline">'
    return re.findall(badge + r"<bdi>(Step \d|End of epoch \d)", page)


def test_a_candidate_in_flight_is_shown_until_it_has_its_verdict(cli, checkout):
    checkout.step()
    checkout.stop()
    folder = checkout.folder
    assert fates(checkout) == [("in flight", "Step 2"), ("merged", "Step 1")]
    reader = open_reader(Globals({}, folder))
    assert any(HARMFUL in text for text in page_evidence(reader).run.texts.values())
    assert reader.version == f"{checkout.ref(BRANCH)}{checkout.ref(CANDIDATE)}"
    assert "<b>Step 2</b>: in flight" in cli(folder, "comment", "--json").json["comment"]
    assert cli(folder, "show", "2", "--json").json["decision"] is None
    assert HARMFUL in cli(folder, "diff", "current", "2").out
    assert cli(folder, "show", "3").code == ExitCode.USAGE
    checkout.step()
    assert fates(checkout) == [("reverted", "Step 2"), ("merged", "Step 1")]
    assert open_reader(Globals({}, folder)).version == checkout.ref(BRANCH)


def test_an_epochs_end_that_only_wrote_memory_is_not_in_flight(checkout, model_server):
    model_server.memory = "Look at the kind first."
    checkout.run(
        "train.num_epochs=1", "evaluation.eval_test=false", "optimizer.use_meta_skill=true"
    )
    assert fates(checkout)[0] == ("nothing", "End of epoch 1")
