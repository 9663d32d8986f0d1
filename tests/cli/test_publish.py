"""The real client on a real repository: what stands on GitHub after a run was published."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from command_line import in_process
from github_server.scene import Scene
from github_server.state import Hub
from run_views import REPOSITORY, plain_run

from skillopt_ci.cli.comment import Published, links_of, publish, publish_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.config.config import GitHub
from skillopt_ci.errors import RepositoryError
from skillopt_ci.report.markdown import Links
from skillopt_ci.report.view import RunView
from tests.conftest import BRANCH, SKILL, Checkout

CHECK = "skillopt-ci / demo"
FORBIDDEN = "Resource not accessible by integration"


@dataclass
class Place:
    """A run of so many steps, and the GitHub that shows it."""

    scene: Scene

    @property
    def hub(self) -> Hub:
        return self.scene.hub

    def run(self, steps: int = 3, **changes: Any) -> RunView:
        if self.hub.bare.tip("skillopt/demo") is None:
            self.scene.step()
        tip = self.hub.bare.tip("skillopt/demo") or ""
        return replace(plain_run(steps), commit=tip, **changes)

    def publish(self, run: RunView, **wishes: Any) -> Published:
        github, links = GitHub.model_validate(wishes), Links(REPOSITORY)
        return publish(run, self.scene.client(), github, links)

    @property
    def writes(self) -> list[str]:
        """Requests that change something; the one GraphQL query here asks who we are."""
        asking = ("GET", "POST /graphql")
        return [request for request in self.hub.requests if not request.startswith(asking)]


def checks_of(hub: Hub) -> dict[str, Any]:
    return {check["name"]: check for check in hub.checks.values()}


@pytest.fixture
def place(github_hub: Hub) -> Place:
    github_hub.bare.save("main", "skills/ledger/SKILL.md", "# Ledger\n")
    return Place(Scene(github_hub))


def test_a_run_is_shown_by_pull_request_comment_and_check(place):
    place.hub.labels |= {"skill", "training"}
    published = place.publish(place.run(), labels=["skill", "training"])
    (pull,), checks = place.hub.pulls.values(), checks_of(place.hub)
    assert published == Published(published.report, pull["number"], (), place.run().commit)
    assert pull["title"] == "ledger: new and 1 more rule, +0.200 on 40 selection tasks"
    assert pull["labels"] == ["skill", "training"]
    assert place.hub.own_comments() == [published.report]
    # Both stand on the tip; merge rules may require the second.
    assert set(checks) == {CHECK, f"{CHECK} evaluation"}
    assert {check["head_sha"] for check in checks.values()} == {place.run().commit}
    assert checks[f"{CHECK} evaluation"]["conclusion"] == "success"


def test_publishing_again_writes_nothing_and_the_next_step_edits_what_is_there(place):
    first = place.publish(place.run(1))
    place.hub.requests.clear()
    assert place.publish(place.run(1)) == first
    assert place.writes == []
    place.publish(place.run(2))
    assert len(place.hub.pulls) == len(place.hub.own_comments()) == 1
    assert "<b>Step 2</b> reverted" in place.hub.own_comments()[0]
    place.hub.comments.clear()  # by a person; it comes back with the next step
    place.publish(place.run(3))
    assert len(place.hub.own_comments()) == 1


@pytest.mark.parametrize(
    ("steps", "wishes", "draft"), [(0, {}, True), (1, {}, False), (0, {"draft": False}, False)]
)
def test_it_is_a_draft_until_a_step_was_merged_unless_none_is_wanted(place, steps, wishes, draft):
    place.publish(place.run(steps), **wishes)
    assert next(iter(place.hub.pulls.values()))["draft"] is draft


@pytest.mark.parametrize(("comments", "count"), [("sticky", 1), ("per-step", 2), ("off", 0)])
def test_comments_are_as_wished(place, comments, count):
    for steps in (1, 2, 2):
        place.publish(place.run(steps), comments=comments)
    assert len(place.hub.own_comments()) == count


def test_a_budget_stop_is_inconclusive_everywhere(place):
    place.publish(place.run(inconclusive="the budget was reached"))
    (pull,), check = place.hub.pulls.values(), checks_of(place.hub)[CHECK]
    assert check["conclusion"] == "neutral"
    for text in (pull["body"], place.hub.own_comments()[0], check["output"]["summary"]):
        assert "neither a regression nor an improvement" in text


@pytest.mark.parametrize(
    ("operation", "permission"),
    [
        ("POST /issues/{issue_number}/comments", "pull-requests: write"),
        ("POST /pulls", "pull-requests: write"),
        ("POST /check-runs", "checks: write"),
    ],
)
def test_a_missing_permission_is_a_note_that_names_it(place, operation, permission):
    place.hub.fail(operation, 403, FORBIDDEN, times=99)
    place.hub.fail("POST /statuses/{sha}", 403, FORBIDDEN, times=99)
    (note,) = place.publish(place.run()).notes
    assert permission in note
    # the rest is shown all the same
    shown = (len(place.hub.pulls), len(place.hub.checks))
    assert shown == ("/pulls" not in operation, 2 * ("/check-runs" not in operation))


def test_nothing_works_and_the_report_is_there_all_the_same(place):
    run = place.run()
    place.hub.fail("*", 500, times=999)
    published = place.publish(run)
    assert published.pull_request is None
    assert "0.100 → 0.300" in published.report
    assert len(published.notes) == 2


@pytest.mark.parametrize(
    ("change", "noted"), [({"locked": True}, "lock"), ({"state": "closed"}, "closed")]
)
def test_a_pull_request_that_a_person_locked_or_closed_is_left_alone(place, change, noted):
    number = place.publish(place.run(1)).pull_request
    assert number is not None
    place.hub.pulls[number].update(change)
    if noted == "lock":
        place.hub.comments.clear()
    before = place.hub.own_comments()
    (note,) = place.publish(place.run(2)).notes
    assert place.hub.own_comments() == before
    assert noted in note.lower()


@pytest.mark.parametrize(
    ("changes", "wishes", "merged"),
    [
        ({}, {"merge": "auto"}, True),
        ({}, {}, False),
        ({"inconclusive": "no budget"}, {"merge": "auto"}, False),
        ({"base_events": 4}, {"merge": "auto"}, False),
    ],
)
def test_only_a_wished_improvement_merges_by_itself(place, changes, wishes, merged):
    place.publish(place.run(3, **changes), **wishes)
    assert (next(iter(place.hub.pulls.values()))["state"] == "closed") is merged


def test_what_was_taken_back_is_not_merged_by_itself(place):
    run = place.run(3)
    place.publish(run)
    back = run.history[-1].model_copy(update={"kind": "revert"})
    place.publish(place.run(3, history=(*run.history, back), skill="# Shorter\n"), merge="auto")
    assert next(iter(place.hub.pulls.values()))["state"] == "open"
    gone = [run.history[0].model_copy(update={"kind": "revert", "step": n}) for n in (1, 2, 3)]
    again = back.model_copy(update={"kind": "measure", "action": "measure"})
    assert run.improved
    assert not replace(run, history=(*run.history, *gone, again)).improved


RUNNER = {"GITHUB_REPOSITORY": "octo/skills", "GITHUB_RUN_ID": "7"}


def publish_checkout(checkout: Checkout, hub: Hub, *overrides: str) -> Published:
    return publish_run(Globals(RUNNER, checkout.folder, overrides=overrides), Scene(hub).client())


def test_a_step_is_shown_as_configured_with_links_to_where_it_happened(pushed, github_hub):
    pushed.step()
    publish_checkout(pushed, github_hub, "github.comments=off")
    assert (github_hub.own_comments(), len(github_hub.pulls)) == ([], 1)
    published = publish_checkout(pushed, github_hub)
    assert published.notes == ()
    tip = github_hub.bare.tip("skillopt/demo")
    assert f"https://github.com/octo/skills/commit/{tip}" in published.report
    assert "https://github.com/octo/skills/actions/runs/7" in published.report
    # tasks are annotated in their files, as long as these can be read
    check = checks_of(github_hub)[CHECK]
    places = {(each["path"], each["start_line"]) for each in check["annotations"]}
    assert places == {("tasks/selection.jsonl", 1), ("tasks/selection.jsonl", 5)}
    pushed.write("tasks/selection.jsonl", "broken")
    assert publish_checkout(pushed, github_hub).notes == ()


def test_a_run_that_has_not_started_cannot_be_shown(pushed, github_hub):
    with pytest.raises(RepositoryError, match="has not started"):
        publish_checkout(pushed, github_hub)


@pytest.mark.parametrize("taken_back", [False, True])
def test_what_changed_since_it_was_confirmed_is_confirmed_no_more(pushed, github_hub, taken_back):
    more = ("evaluation.confirm=1", "git.base=main")
    pushed.run(*more)
    publish_checkout(pushed, github_hub, *more)
    (check,) = (one for one in github_hub.checks.values() if one["name"] == "skillopt/confirmed")
    assert check["conclusion"] == "success"
    if taken_back:
        settings = [word for one in more for word in ("-o", one)]
        assert in_process(pushed.folder, "revert", "1", *settings).returncode == 0
    else:
        pushed.commit(SKILL, "# Items\n\nAnswer nothing.\n", branch=BRANCH)
        pushed.git("push", "--quiet", "origin", BRANCH)
    publish_checkout(pushed, github_hub, *more)
    newest = max(github_hub.checks.values(), key=lambda one: (one["name"], one["id"]))
    assert (newest["name"], newest["status"]) == ("skillopt/confirmed", "in_progress")


def test_after_a_merge_the_next_step_gets_a_new_pull_request(pushed, github_hub):
    pushed.step()
    first = publish_checkout(pushed, github_hub, "github.merge=auto").pull_request
    pushed.git("pull", "--quiet", "origin", "main")
    pushed.run()
    assert publish_checkout(pushed, github_hub).pull_request != first


def test_outside_of_a_workflow_there_are_no_links():
    assert links_of({}).repository == ""
    links = links_of({**RUNNER, "GITHUB_SERVER_URL": "https://git.example"})
    assert links.workflow_run == "https://git.example/octo/skills/actions/runs/7"


def test_it_is_printed_or_published_with_a_token_and_a_repository(cli, trained):
    marker, text = "<!-- skillopt-ci:v1 key=quickstart -->", cli(trained, "comment").out
    told = cli(trained, "comment", "--json").json
    assert told["comment"].startswith(marker)
    assert text.split("\n\n", 1)[0] == told["title"]
    assert "What <code>ledger</code> learned" in told["body"]
    assert "<b>Step 2</b>" in text
    ended = cli(trained, "comment", "--publish")
    assert (ended.code, "GITHUB_REPOSITORY" in ended.err) == (2, True)
