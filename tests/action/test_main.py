"""The installed program, started as the runner starts it."""

import json
import os
import shutil
from typing import Any

import forked
import pytest
from action_world import ADA, FORK, OURS, SMALL, Finished, World, obeyed, opened_pull
from doc_blocks import all_blocks
from github_server import pulls
from programs import ORDINARY

SKILL = "skills/ledger/SKILL.md"
CHECK = "skillopt-ci / quickstart evaluation"
#: As few tasks as show a difference.
TINY = "evaluation.sel_env_num=2"
LATER = "2999-01-01T00:00:00Z"
SCHEDULE = {"schedule": "17 3 * * 1", "sender": ADA}
pytestmark = pytest.mark.end_to_end


def propose(
    world: World, head: str, of: dict[str, str] = OURS, base: str = "main"
) -> dict[str, Any]:
    """Open a pull request of this commit; return the payload of the event."""
    pulls.add(world.hub, "ada", head, head="better", base=base, head_repo=of["full_name"])
    return opened_pull(head, world.hub.bare.tip(base), of, len(world.hub.pulls))


def conclusions(world: World, commit: str) -> list[str]:
    """How the check that may be required ended on a commit."""
    checks = world.hub.checks.values()
    found = [one for one in checks if (one["name"], one["head_sha"]) == (CHECK, commit)]
    return [one["conclusion"] for one in found]


def test_a_schedule_trains_a_step_and_opens_the_pull_request(world):
    done = world.start("schedule", SCHEDULE)
    assert (done.code, done.outputs["result"], done.outputs["step"]) == (0, "done", "1"), done.log
    assert done.outputs["commit"] == world.hub.bare.tip("skillopt/quickstart")
    assert done.outputs["pull-request"] == str(next(iter(world.hub.pulls)))
    report = (world.workspace / done.outputs["report"]).read_text(encoding="utf-8")
    assert report.strip() == done.summary.strip()
    assert report.strip() in [body.strip() for body in world.hub.own_comments()]
    # commits are the bot's unless the checkout says otherwise
    world.git("config", "user.name", "Ada")
    world.git("config", "user.email", "ada@localhost")
    world.start("schedule", SCHEDULE)
    log = world.hub.bare.git("log", "--first-parent", "--format=%ae", "skillopt/quickstart")
    assert log.splitlines()[0] == "ada@localhost"
    assert "41898282+github-actions[bot]@users.noreply.github.com" in log.splitlines()
    payload = opened_pull(str(world.hub.bare.tip("skillopt/quickstart")), None)
    payload["pull_request"]["head"]["ref"] = "skillopt/quickstart"
    evaluation = [one for one in world.hub.checks.values() if one["name"] == CHECK][-1]
    evaluation |= {"output": {"title": "Regression"}, "conclusion": "failure"}  # `/skillopt eval`
    world.start("pull_request", {**payload, "action": "ready_for_review"})
    assert evaluation["conclusion"] == "failure"


def commented(world: World, body: str, number: int = 0, at: str = LATER) -> dict[str, Any]:
    """Comment on a pull request, by default the run's; return the payload of the event."""
    number = number or next(iter(world.hub.pulls))
    said = {"id": world.hub.say("ada", body, number), "body": body, "created_at": at}
    issue = {"number": number, "state": "open", "pull_request": {"url": "…"}}
    return {"action": "created", "issue": issue, "comment": said, "sender": ADA}


def ask(world: World, body: str, number: int = 0, at: str = LATER, **inputs: str) -> Finished:
    """Comment on a pull request and let the workflow answer."""
    return world.start("issue_comment", commented(world, body, number, at), **inputs)


def test_a_comment_commands_only_the_run_whose_pull_request_it_is_on(world):
    file = world.workspace / "skillopt.yaml"
    own, text = "run: quickstart\nskill: skills/ledger/SKILL.md\n", file.read_text("utf-8")
    runs = "runs: [{run: ledger, skill: skills/ledger/SKILL.md}, {run: refunds, skill: R.md}]\n"
    file.write_text(text.replace(own, runs), encoding="utf-8")
    world.start("schedule", SCHEDULE, run="ledger")
    before = world.hub.own_comments()
    assert ask(world, "/skillopt status", run="refunds").outputs["result"] == "skipped"
    assert (world.hub.own_comments(), world.hub.reactions) == (before, [])
    # Each run answers for itself on people's pull requests.
    pulls.add(world.hub, "ada", world.hub.bare.tip("main"), head="better", base="main")
    done = [ask(world, "/skillopt status", 2, run=run) for run in ("ledger", "refunds")]
    assert [each.outputs["result"] for each in done] == ["done", "skipped"]
    payload = commented(world, "/skillopt step", 2)
    for run in ("ledger", "refunds"):
        world.start("issue_comment", payload, run=run, overrides="budget.run.calls=1")
    told = [body.splitlines()[2] for body in world.hub.own_comments()[len(before) :]]
    assert told == [f"Run <code>{run}</code>:" for run in ("ledger", "refunds") * 2]
    # nor does a run obey whose own configuration cannot be read
    file.write_text(text.replace(own, runs.replace("R.md", "R.md, train: 1")), encoding="utf-8")
    assert ask(world, "/skillopt status", run="refunds").outputs["result"] == "skipped"
    ask(world, "/skillopt status", run="gone")  # the configuration has no such run: it says so
    assert ["Run 'gone'" in body for body in world.hub.own_comments()[len(before) + 4 :]] == [True]


def test_what_takes_no_model_is_done_and_answered_in_the_thread(world):
    world.start("schedule", SCHEDULE)
    for word, said in (("status", "| selection"), ("diff", "a [secret "), ("report", "[step 1]")):
        world.environ = {"DB_PASSWORD": "vertical bar with" if word == "diff" else "pass_word@9"}
        done = ask(world, f"/skillopt {word}")
        assert (done.code, done.outputs["result"]) == (0, "done"), done.log
        assert ("page" in done.outputs) == (word == "report")
        assert done.summary.strip() in world.hub.own_comments()[-1]
        assert all(one in done.summary for one in (f"### <code>ledger</code>: {word}", said))
    tip = world.hub.bare.tip("skillopt/quickstart")
    ran = ask(world, "/skillopt revert pass_word@9")
    assert (ran.code, ran.outputs["result"], "[secret hidden]" in ran.log) == (0, "skipped", True)
    assert "Nothing was done: '&#91;secret hidden&#93;'" in world.hub.own_comments()[-1]
    world.start("issue_comment", payload := commented(world, "/skillopt revert 1"))
    assert world.hub.bare.git("rev-parse", "skillopt/quickstart^").strip() == tip
    assert "Step 1 is taken back in [" in world.hub.own_comments()[-1]
    assert "▫️ Taken back: step 1" in world.hub.own_comments()[0]
    world.hub.checks.clear()  # as if the job had been stopped before it published
    for may, checks in (("read", 0), ("write", 3)):
        world.hub.permissions["checks"] = may
        done = world.start("issue_comment", payload)  # the job is run again
        assert (done.outputs["result"], len(world.hub.checks)) == ("done", checks)
        assert ("skill.<br>\nGitHub would not" in world.hub.own_comments()[-1]) == (may == "read")
    # A checkout that the runner kept knows no more than this.
    for place in ("heads", "remotes/origin"):
        world.git("update-ref", f"refs/{place}/skillopt/quickstart", str(tip))
    assert "Taken back: step 1" in ask(world, "/skillopt status").summary
    assert [content for _, _, content in world.hub.reactions].count("rocket") == 5
    world.git("remote", "set-url", "origin", "http://127.0.0.1:9/octo/skills.git")
    failed = ask(world, "/skillopt status")
    assert (failed.code, failed.outputs["result"]) == (5, "failed"), failed.log
    assert "new comment or re-run its job" in world.hub.own_comments()[-1]


def test_apply_merges_what_was_there_when_somebody_asked(world):
    world.start("schedule", SCHEDULE)
    (pull,) = world.hub.pulls.values()
    tip = world.hub.bare.tip("skillopt/quickstart") or ""
    world.hub.push("skillopt/quickstart", tip, "2026-01-02T00:00:00Z")
    assert ask(world, "/skillopt apply").outputs["result"] == "skipped"
    assert "(Provisional: fresh attempts have yet to confirm step 1" in world.hub.own_comments()[-1]
    pull["draft"] = True
    assert ask(world, "/skillopt apply anyway").outputs["result"] == "skipped"
    assert "it is a draft" in world.hub.own_comments()[-1]
    pull["draft"] = False
    # Training has posted the check that base requires.
    world.hub.required_check = "skillopt-ci / quickstart evaluation"
    assert ask(world, "/skillopt apply anyway").outputs["result"] == "done"
    assert world.hub.own_comments()[-1].endswith("\n\nMerged.")
    assert pull["merged_at"]
    assert ask(world, "/skillopt apply anyway").outputs["result"] == "done"  # somebody was first


def test_training_waits_until_what_was_applied_is_merged(world):
    world.start("schedule", SCHEDULE)
    (pull,), tip = world.hub.pulls.values(), world.hub.bare.tip("skillopt/quickstart")
    pull["draft"] = False
    world.hub.push("skillopt/quickstart", str(tip), "2026-01-02T00:00:00Z")
    world.hub.required_check = "build"
    ask(world, "/skillopt apply anyway")
    assert world.hub.own_comments()[-1].endswith("merged as soon as its checks allow that.")
    waits = world.start("schedule", SCHEDULE)
    assert (waits.code, waits.outputs["result"]) == (0, "nothing-to-do")
    assert "training waits: disable its auto-merge to continue" in waits.log
    assert world.hub.bare.tip("skillopt/quickstart") == tip
    assert world.start("schedule", SCHEDULE, command="comment").outputs["result"] == "done"
    pull |= {"auto_merge": None, "queued": True}
    assert "in the merge queue, and training waits" in world.start("schedule", SCHEDULE).log
    assert world.hub.bare.tip("skillopt/quickstart") == tip
    pull["queued"] = False
    assert world.start("schedule", SCHEDULE).outputs["step"] == "2"


def test_what_ends_a_run_is_published(world):
    overrides = f"{SMALL}\ntrain.batch_size=16\ntrain.num_epochs=1"
    done = world.start("schedule", SCHEDULE, command="run", overrides=overrides)
    tip = world.hub.bare.tip("skillopt/quickstart")
    assert (done.code, done.outputs["step"], done.outputs["commit"]) == (0, "3", tip), done.log
    assert "Finish" in world.hub.bare.git("log", "-1", "--format=%s", "skillopt/quickstart")
    assert tip in [check["head_sha"] for check in world.hub.checks.values()]


def test_a_job_trains_no_further_than_what_github_is_to_merge(world):
    world.hub.required_check = "build"
    overrides = f"{SMALL}\nevaluation.confirm=0\ngithub.merge=auto"
    done = world.start("schedule", SCHEDULE, command="run", overrides=overrides)
    (pull,) = world.hub.pulls.values()
    assert (done.code, done.outputs["result"], done.outputs["step"]) == (0, "done", "1"), done.log
    assert pull["auto_merge"]
    assert "::notice title=Training waits" in done.log
    assert done.summary.startswith("**Training waits.** ")
    assert "No verdict" not in pull["body"]


def test_a_closed_pull_request_pauses_the_run_and_reopening_goes_on(world):
    world.start("schedule", SCHEDULE)
    (pull,), tip = world.hub.pulls.values(), world.hub.bare.tip("skillopt/quickstart")
    pull["state"] = "closed"
    world.hub.event(pull["number"], "closed")
    waits = world.start("schedule", SCHEDULE)
    assert (waits.code, waits.outputs["result"]) == (0, "nothing-to-do")
    assert "reopen it to continue" in waits.log
    assert world.hub.bare.tip("skillopt/quickstart") == tip
    planned = world.start("schedule", SCHEDULE, command="plan").outputs
    assert (planned["matrix"], planned.get("phase", "")) == ('{"shard":[]}', "")
    pull["state"] = "open"
    assert world.start("schedule", SCHEDULE).outputs["step"] == "2"


def test_the_api_makes_the_commits_with_the_token_of_the_action(world):
    done = world.start("schedule", SCHEDULE, overrides=f"{SMALL}\ngit.commits=api")
    assert (done.code, done.outputs.get("step")) == (0, "1"), done.log
    assert "POST /git/commits" in world.hub.requests


def test_the_token_is_masked_and_in_no_file(world):
    world.hub.tokens["sesame-open-0123"] = "github-actions[bot]"
    world.environ["OPENAI_API_KEY"] = "sk-planted-0123"
    done = world.start("schedule", SCHEDULE, token="sesame-open-0123")
    masks, _, rest = done.log.partition("::group::")
    assert all(f"::add-mask::{one}" in masks for one in ("sesame-open-0123", "sk-planted-0123"))
    assert "sesame" not in rest + done.summary + str(done.outputs)
    for file in (world.workspace / ".git").rglob("*"):
        assert file.is_dir() or b"sesame-open-0123" not in file.read_bytes()


def test_a_forks_pull_request_is_told_before_anything_is_spent(world):
    done = world.start("pull_request", propose(world, "a" * 40, FORK), token="")
    assert (done.code, done.outputs["result"]) == (0, "skipped")
    assert "nothing was spent" in done.log.partition("::notice title=skillopt-ci did nothing::")[2]


def test_a_checkout_that_another_user_owns_is_told_once(world):
    (world.workspace / ".git").chmod(0o555)
    done = world.start("schedule", SCHEDULE, before=ORDINARY, token="")
    assert (done.code, done.log.count("::error ")) == (2, 1), done.log
    assert done.summary.startswith("**skillopt-ci cannot start.** cannot write "), done.summary


def test_an_ordinary_comment_starts_nothing(world):
    done = ask(world, "Nice\n::error::forged", 1)
    skipped = {"result": "skipped", "report": ".git/skillopt-ci/skillopt-report.md"}
    assert (done.code, done.outputs, "forged" in done.log) == (0, skipped, False)


@pytest.mark.parametrize("repository", [OURS, FORK])
def test_a_comment_asks_for_what_was_head_when_it_was_made(world, repository):
    name = repository["full_name"]
    first = world.hub.bare.save("better", SKILL, "# Ledger\n\nAs it was.\n")
    propose(world, first, repository)
    world.hub.push("better", first, "2020-01-01T00:00:00Z", name, "branch_creation")
    later = world.hub.bare.save("better", SKILL, "# Ledger\n\nPushed after the comment.\n")
    world.hub.push("better", later, "2020-01-01T00:00:05Z", name)
    done = ask(world, "/skillopt eval", 1, "2020-01-01T00:00:05Z", overrides=TINY)
    assert done.outputs["result"] == "done", done.log
    assert [len(conclusions(world, commit)) for commit in (first, later)] == [1, 0]


@pytest.mark.parametrize("trouble", ["", "nothing known", "deleted", "no fork"])
def test_a_comment_is_answered_where_nobody_knows_what_was_head(world, trouble):
    propose(world, world.hub.bare.save("better", SKILL, "# Ledger\n\nAs it was.\n"))
    if trouble == "deleted":
        world.hub.push("better", "0" * 40, "2020-01-01T00:00:00Z", kind="branch_deletion")
    elif trouble == "no fork":
        world.hub.pulls[1]["head_repo"] = None
    elif not trouble:
        world.hub.fail("GET /activity", 404, "Not Found", times=9)
    done = ask(world, "/skillopt eval", 1, "2020-01-01T00:00:05Z", overrides=TINY)
    assert done.outputs["result"] == "skipped"
    assert world.hub.checks == {}
    (answer,) = world.hub.own_comments()
    assert "Add the label `skillopt-eval`" in answer


@pytest.mark.parametrize(
    ("event", "repository"),
    [("pull_request", OURS), ("pull_request_target", FORK), ("merge_group", OURS)],
)
def test_a_change_without_the_skill_gets_the_check_too(world, event, repository):
    head, payload = world.hub.bare.save("better", "README.md", "Nothing about the skill.\n"), {}
    if event == "merge_group":
        payload = {"action": "checks_requested", "merge_group": {"head_sha": head}}
    world.start(event, payload or propose(world, head, repository))
    assert (conclusions(world, head), world.hub.own_comments()) == (["success"], [])


def test_a_head_that_leaves_the_skill_alone_takes_back_an_earlier_ones_comment(world):
    text = (world.workspace / SKILL).read_text(encoding="utf-8")
    payload = propose(world, world.hub.bare.save("better", SKILL, "# Ledger\n"))
    world.start("pull_request", payload, overrides=TINY)
    world.hub.bare.save("better", SKILL, text)
    head = world.hub.bare.save("better", "README.md", "Nothing about the skill.\n")
    payload["pull_request"]["head"]["sha"] = head
    done = world.start("pull_request", {**payload, "action": "synchronize"})
    assert (done.code, conclusions(world, head)) == (0, ["success"])
    (comment,) = world.hub.own_comments()
    assert "### ➖ <code>quickstart</code>: Nothing to evaluate\n" in comment


@pytest.mark.parametrize("body", ["/skillopt finish", "/skillopt steps"])
def test_an_unknown_command_in_a_comment_is_answered(world, body):
    propose(world, world.hub.bare.save("better", SKILL, "# Ledger\n"))
    payload = commented(world, body)
    world.start("issue_comment", {**payload, "sender": {"login": "bob"}})
    assert world.hub.own_comments() == []  # bob may not write
    world.start("issue_comment", payload)
    world.start("issue_comment", payload)
    (answer,) = world.hub.own_comments()
    assert "`slow-update`" in answer
    assert [content for _, _, content in world.hub.reactions] == ["-1", "confused"]


def test_a_fork_that_changes_the_skill_waits_for_the_label(world):
    world.hub.bare.save("other", SKILL, "# Ledger\n")
    head = world.hub.bare.save("better", "README.md", "Read\n", start="other")
    world.start("pull_request_target", propose(world, head, FORK))
    (check,) = world.hub.checks.values()
    assert (check["name"], check["head_sha"], check["status"]) == (CHECK, head, "in_progress")
    assert "skillopt-eval" in check["output"]["summary"]
    check |= {"conclusion": "failure", "output": {"title": "Worse"}}  # labelled; a re-run
    done = world.start("pull_request_target", propose(world, head, FORK))
    assert (done.code, check["conclusion"]) == (0, "failure")
    assert "could be published:** the check skillopt-ci / quickstart evaluation" in done.summary
    # a pull request of the same commit into a branch with this skill does not turn it green
    world.start("pull_request_target", propose(world, head, FORK, "other"))
    assert conclusions(world, head) == ["failure"]


def test_a_job_without_a_checkout_is_told_so(world):
    payload = propose(world, world.hub.bare.save("better", SKILL, "# Ledger\n"))
    shutil.rmtree(world.workspace)
    world.workspace.mkdir()
    for event, given in (("schedule", SCHEDULE), ("pull_request", payload)):
        done = world.start(event, given)
        assert (done.code, done.outputs) == (2, {"result": "failed"})
        assert "Let a step with actions/checkout run before this one" in done.summary


def test_the_documented_check_of_the_models_asks_for_no_right_to_push(world):
    (block,) = (one for one in all_blocks() if one.title.endswith("/skillopt-check.yml"))
    line = block.text.partition(" skillopt-ci ")[2].partition(" env:")[0]
    words = ["-m", "skillopt_ci", *line.split()]
    done = forked.run(words, cwd=world.workspace, env=world.variables("", {}))
    assert done.returncode == 0, done.stdout


def test_a_mistake_in_the_configuration_is_shown_where_it_is(world):
    file = world.workspace / "skillopt.yaml"
    text = file.read_text(encoding="utf-8").replace("batch_size", "batch_sise")
    file.write_text(f'{text}\n"<img src=x onerror=alert(1)>": 1\n', encoding="utf-8")
    done = world.start("schedule", SCHEDULE, overrides="")
    line = 1 + text[: text.index("batch_sise")].count("\n")
    assert (done.code, done.outputs["result"]) == (2, "failed")
    assert f"file=skillopt.yaml,line={line}::" in done.log
    assert "Not everything could be published" not in done.log
    # what it quotes does not act in the summary
    assert ("onerror" in done.summary, "<img" in done.summary) == (True, False)


@pytest.mark.parametrize(
    ("name", "deleted"),
    [("skillopt/<script>alert(1)</script>`code`|__bold__", False),
     ("<img/src=x/onerror=alert(1)>", True)],
)  # fmt: skip
def test_the_name_of_a_branch_does_not_act_in_the_summary(world, name, deleted):
    done = world.start("push", {"ref": f"refs/heads/{name}", "deleted": deleted, "sender": ADA})
    assert done.outputs["result"] == "skipped"
    assert "did nothing" in done.summary
    assert [sign for sign in ("<script", "<img", "__bold", "`code") if sign in done.summary] == []


def test_a_wrong_input_or_payload_fails_before_anything_else_and_sets_the_output(world):
    done = world.start("schedule", SCHEDULE, command="trian")
    assert (done.code, done.outputs) == (2, {"result": "failed"})
    assert "::error title=skillopt-ci cannot start::input command" in done.log
    assert done.summary.startswith("**skillopt-ci cannot start.** input command: there is no")
    done = world.start("schedule", SCHEDULE, directory="nope")
    assert (done.code, done.outputs) == (2, {"result": "failed"})
    assert "::input directory: the checkout has no folder 'nope'" in done.log
    done = world.start("pull_request", {"pull_request": {"number": "x"}})
    assert (done.code, done.outputs) == (2, {"result": "failed"})
    assert "cannot be read" in done.log


def test_a_refused_push_fails_the_job_and_loses_nothing(world):
    done = world.start("schedule", SCHEDULE, token="")
    assert (done.code, done.outputs["result"]) == (5, "failed")
    assert "::error title=Infrastructure failed::" in done.log
    again = world.start("schedule", SCHEDULE)
    assert (again.code, again.outputs["step"]) == (0, "1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root meets another user's checkout")
def test_root_works_in_another_users_checkout_and_leaves_it_to_them(world):
    for path in (world.workspace, *world.workspace.rglob("*")):
        os.chown(path, 1001, 1001, follow_symlinks=False)
    done = world.start("schedule", SCHEDULE)
    assert done.code == 0, done.log
    assert {path.lstat().st_uid for path in world.workspace.rglob("*")} == {1001}
    assert world.git("status", "--porcelain") == ""


def test_what_tasks_say_starts_no_command(world):
    file = world.workspace / "tasks" / "train.jsonl"
    task = {"id": "::error::id", "prompt": "a\n::warning::b\n##[error]c", "references": ["d"]}
    file.write_text(json.dumps(task) + "\n", encoding="utf-8")
    more = "\ntrain.batch_size=1\ntrain.num_epochs=1"
    done = world.start("schedule", SCHEDULE, overrides=SMALL + more)
    assert done.code == 0, done.log
    assert set(obeyed(done.log)) == {"add-mask", "group", "stop-commands", "endgroup"}
