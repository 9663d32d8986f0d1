"""A run that was really trained and pushed, shown on GitHub by its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from github_server.scene import Scene
from github_server.state import Hub

from skillopt_ci.cli.comment import Published, links_of, publish_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.errors import RepositoryError

if TYPE_CHECKING:
    from tests.conftest import Checkout, Workshop

RUNNER = {"GITHUB_REPOSITORY": "octo/skills", "GITHUB_RUN_ID": "7"}


@pytest.fixture
def pushed(workshop: Workshop, github_hub: Hub) -> Checkout:
    """A checkout whose remote is the repository on GitHub."""
    made = workshop.checkout()
    made.git("remote", "add", "origin", github_hub.bare.folder.as_uri())
    made.git("push", "--quiet", "origin", "main")
    return made


def publish(checkout: Checkout, hub: Hub, *overrides: str) -> Published:
    settings = Globals(RUNNER, checkout.folder, overrides=overrides)
    return publish_run(settings, Scene(hub).client(), links=links_of(RUNNER))


def test_a_step_is_shown_with_links_to_where_it_happened(pushed: Checkout, github_hub: Hub) -> None:
    pushed.step()
    published = publish(pushed, github_hub)
    assert published.notes == ()
    tip = github_hub.bare.tip("skillopt/demo")
    assert f"https://github.com/octo/skills/commit/{tip}" in published.report
    assert "https://github.com/octo/skills/actions/runs/7" in published.report


def test_tasks_are_annotated_in_their_files(pushed: Checkout, github_hub: Hub) -> None:
    pushed.step()
    publish(pushed, github_hub)
    (check,) = github_hub.checks.values()
    places = {(each["path"], each["start_line"]) for each in check["annotations"]}
    assert places == {("tasks/selection.jsonl", 1), ("tasks/selection.jsonl", 5)}


def test_the_configuration_decides_what_is_shown(pushed: Checkout, github_hub: Hub) -> None:
    pushed.step()
    publish(pushed, github_hub, "github.comments=off")
    assert github_hub.own_comments() == []
    assert len(github_hub.pulls) == 1


def test_tasks_that_cannot_be_read_any_more_do_not_keep_it_from_being_shown(
    pushed: Checkout, github_hub: Hub
) -> None:
    pushed.step()
    pushed.write("tasks/selection.jsonl", "broken")
    assert publish(pushed, github_hub).notes == ()


def test_a_run_that_has_not_started_cannot_be_shown(pushed: Checkout, github_hub: Hub) -> None:
    with pytest.raises(RepositoryError, match="has not started"):
        publish(pushed, github_hub)


def test_after_a_merge_the_next_step_gets_a_new_pull_request(
    pushed: Checkout, github_hub: Hub
) -> None:
    pushed.step()
    first = publish(pushed, github_hub, "github.merge=auto").pull_request
    pushed.git("pull", "--quiet", "origin", "main")
    pushed.run()
    assert publish(pushed, github_hub).pull_request != first


def test_enterprise_servers_have_addresses_of_their_own() -> None:
    links = links_of({**RUNNER, "GITHUB_SERVER_URL": "https://git.example"})
    assert links.workflow_run == "https://git.example/octo/skills/actions/runs/7"


def test_outside_of_a_workflow_there_are_no_links() -> None:
    assert links_of({}).repository == ""
