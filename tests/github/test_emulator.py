"""The same client against a GitHub by other people, both sides held against the description."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from github_server.emulator import INSTALLED, emulating
from github_server.exchanges import recording
from github_server.scene import SKILL, WANTED, variables

from skillopt_ci.github import pull_requests
from skillopt_ci.github.checks import keep_check
from skillopt_ci.github.client import Client, Refused, connect
from skillopt_ci.github.comments import keep_comment, review_notes
from skillopt_ci.github.pull_requests import file_at, keep_pull_request, merge_pull_request
from skillopt_ci.github.types import Annotation, WantedCheck

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not INSTALLED, reason="npm has not installed the emulator"),
]
MARKER = "<!-- skillopt-ci:v1 key=demo -->"
#: Where the emulator departs from GitHub's description.
DEPARTURES = ("labels[0].description: None", "'annotations_url' is a required", "$.user: ")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with emulating(tmp_path_factory.mktemp("emulator")) as url, recording() as exchanges:
        yield connect(variables("ada/skills", "token", url), wait=lambda _: None)
    rest = [each for each in exchanges if each.target != "/graphql"]
    assert [problem for each in rest for problem in each.request_problems()] == []
    departures = [problem for each in rest for problem in each.answer_problems()]
    assert [each for each in departures if not any(word in each for word in DEPARTURES)] == []


@pytest.fixture(scope="module")
def head(client: Client) -> str:
    """A skills branch with one commit, made as those of `git.commits: api` are."""
    entry = {"path": SKILL, "mode": "100644", "type": "blob"}
    content = {"content": "YmV0dGVy", "encoding": "base64"}
    entry["sha"] = client.send("POST", "/git/blobs", content)["sha"]
    tree = client.send("POST", "/git/trees", {"tree": [entry]})["sha"]
    commit = {"message": "Step 1", "tree": tree, "parents": []}
    oid = str(client.send("POST", "/git/commits", commit)["sha"])
    client.send("POST", "/git/refs", {"ref": f"refs/heads/{WANTED.head}", "sha": oid})
    return oid


@pytest.fixture(scope="module")
def pull(client: Client, head: str) -> int:
    kept = keep_pull_request(client, replace(WANTED, labels=("skillopt",), draft=False))
    assert kept.number is not None
    return kept.number


def test_the_token_has_an_account_and_nobody_said_anything(client, pull):
    assert review_notes(client, pull, SKILL) == ()
    assert client.login == "ada"
    assert (client.may_write("ada"), client.may_write("nobody")) == (True, False)


def test_the_pull_request_is_kept(client, pull):
    wanted = replace(WANTED, labels=("skillopt",), draft=False, body="New")
    first, second = keep_pull_request(client, wanted), keep_pull_request(client, wanted)
    assert first.number == second.number == pull_requests.get_pull_request(client, pull).number
    for number in range(210):
        client.send("POST", f"/issues/{pull}/comments", {"body": f"comment {number}"})
    for step in (1, 2):
        keep_comment(client, pull, f"{MARKER}\nStep {step}")
    said = [one["body"] for one in client.listing(f"/issues/{pull}/comments")]
    assert [one for one in said if one.startswith(MARKER)] == [f"{MARKER}\nStep 2"]


def test_the_check_is_kept(client, pull, head):
    annotations = (Annotation(SKILL, 1, 1, "notice", "Fine", "Fine"),) * 50
    begun = WantedCheck("skillopt", head, "Title", "Summary")
    keep_check(client, begun)
    done = replace(begun, conclusion="success", annotations=annotations)
    keep_check(client, done)
    runs = client.send("GET", f"/commits/{head}/check-runs")["check_runs"]
    assert [one["conclusion"] for one in runs] == ["success"]


def test_the_skill_is_read_from_a_commit(client, head):
    assert file_at(client, SKILL, head) == b"better"
    assert file_at(client, "none.md", head) is None


def test_without_graphql_a_merge_is_withheld(client, pull, head):
    with pytest.raises(Refused):
        merge_pull_request(client, pull, head)
