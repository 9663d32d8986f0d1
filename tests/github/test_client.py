import json
import time
from dataclasses import replace

import pytest
from github_server.scene import Scene, variables

from skillopt_ci.errors import UsageError
from skillopt_ci.github.checks import keep_check
from skillopt_ci.github.client import AnswerLost, NotFound, Refused, Unavailable, connect, noting
from skillopt_ci.github.comments import keep_comment
from skillopt_ci.github.pull_requests import (
    changed_paths,
    get_pull_request,
    keep_pull_request,
    why_paused,
)
from skillopt_ci.github.types import Annotation, WantedCheck, WantedPullRequest

ENVIRON = {"GITHUB_REPOSITORY": "octo/skills", "GITHUB_TOKEN": "job"}


@pytest.mark.parametrize(
    ("more", "token", "told"),
    [
        ({}, "", ("job", "https://api.github.com")),
        ({"GITHUB_API_URL": "https://ghe/api/v3/"}, " app\n", ("app", "https://ghe/api/v3")),
        ({"INPUT_TOKEN": "app-token"}, "", ("app-token", "https://api.github.com")),
    ],
)
def test_a_workflow_says_where_it_runs(more, token, told):
    client = connect(ENVIRON | more, token)
    asking = client.hub.requester
    assert (client.name, asking.auth.token, asking.base_url) == ("octo/skills", *told)


@pytest.mark.parametrize(
    "environ",
    [{}, {"GITHUB_REPOSITORY": "octo/skills"}, ENVIRON | {"GITHUB_REPOSITORY": "skills"},
     ENVIRON | {"GITHUB_REPOSITORY": "a/b/c"}, ENVIRON | {"GITHUB_TOKEN": "töken"},
     ENVIRON | {"GITHUB_TOKEN": "a\nb"}, ENVIRON | {"GITHUB_API_URL": "ftp://x"}],
)  # fmt: skip
def test_what_cannot_be_is_refused_without_showing_the_token(environ):
    with pytest.raises(UsageError) as caught:
        connect(environ)
    assert "töken" not in str(caught.value)


def test_a_stray_character_in_the_token_is_named_with_its_place():
    with pytest.raises(UsageError, match=r"U\+200B \(ZERO WIDTH SPACE\) as character 3 of 4"):
        connect(ENVIRON | {"GITHUB_TOKEN": "gh\u200bp"})
    assert "job" not in repr(connect(ENVIRON))


def test_a_token_speaks_for_a_person_or_the_bot_and_is_asked_once(scene):
    client = scene.client("pat")
    assert (client.login, client.login) == ("ada", "ada")
    assert scene.hub.requests == ["GET /user"]
    assert scene.client().login == "github-actions[bot]"
    scene.hub.tokens["app"] = "trainer[bot]"
    assert scene.client("app").login == "trainer[bot]"
    scene.hub.fail("POST /graphql", 404, "Not Found")
    assert scene.client().login == "github-actions[bot]"


def test_a_token_that_is_not_accepted_and_a_hidden_repository_are_told_apart(scene):
    with pytest.raises(Refused, match="no longer valid") as caught:
        assert not scene.client("secret-and-wrong").login
    assert "secret-and-wrong" not in str(caught.value)
    with pytest.raises(NotFound, match="may not see it"):
        get_pull_request(connect(variables("octo/hidden", url=scene.hub.url)), 1)


def test_an_enterprise_server_has_its_api_in_folders(scene):
    scene.pull()
    client = connect(variables("octo/skills", "job", f"{scene.hub.url}/api/v3"))
    assert (get_pull_request(client, 1).number, client.login) == (1, "github-actions[bot]")


def test_a_server_that_is_not_there_is_no_defect(scene):
    client = connect(variables("o/r", "job", "http://127.0.0.1:1"), wait=scene.waits.append)
    with pytest.raises(AnswerLost, match="did not answer"):
        assert client.login


@pytest.mark.parametrize(
    ("proxy", "told"), [("http://127.0.0.1:1", "Check HTTPS_PROXY"), ("socks5://x:1", "no SOCKS")]
)
def test_a_proxy_that_cannot_be_used_is_told(monkeypatch, scene, proxy, told):
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.setenv("NO_PROXY", "")
    client = connect(variables("o/r", "job", "http://github.invalid"), wait=scene.waits.append)
    with pytest.raises(AnswerLost) as caught:
        assert client.login
    assert told in caught.value.hint


def test_an_answer_that_leads_elsewhere_is_no_defect(scene):
    scene.pull()
    url = scene.hub.url
    scene.hub.url = "http://192.0.2.1"
    client = connect(variables("octo/skills", "job", url))
    with pytest.raises(Unavailable, match="not usable"):
        changed_paths(client, 1, "head")


@pytest.mark.parametrize("content", [b"<html>Log in</html>", b'{"number": 1, "ti'])
def test_an_answer_that_is_no_json_is_no_defect_and_no_object(scene, content):
    scene.pull()
    scene.hub.fail("GET /pulls/{pull_number}/files", 200, content=content)
    with pytest.raises(AnswerLost, match="not JSON, or was cut off"):
        changed_paths(scene.client(), 1, "head")


def test_a_note_is_made_of_sentences_and_told_once():
    notes = list[str]()
    for _ in range(2):
        with noting(notes):
            raise Refused("GitHub would not show it: Not Found", hint="Grant it.")
    assert notes == ["GitHub would not show it: Not Found. Grant it."]


SHOW = "GET /pulls/{pull_number}"
CREATE = "POST /issues/{issue_number}/comments"
BODY = "<!-- m -->\nBody"
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes."


@pytest.fixture
def pulled(scene: Scene) -> Scene:
    scene.pull()
    return scene


@pytest.mark.parametrize(("headers", "seconds"), [({"Retry-After": "7"}, 7.0), ({}, 60.0)])
@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("operation", [SHOW, CREATE])
def test_it_waits_as_long_as_it_is_asked_or_a_minute(pulled, status, operation, headers, seconds):
    pulled.hub.fail(operation, status, SECONDARY, headers=headers)
    client = pulled.client()
    get_pull_request(client, 1)
    keep_comment(client, 1, BODY)
    assert (pulled.waits, pulled.hub.own_comments()) == ([seconds], [BODY])


def test_a_primary_limit_is_waited_for_until_its_reset(pulled):
    reset = {"X-RateLimit-Reset": str(int(time.time()) + 50), "X-RateLimit-Remaining": "0"}
    pulled.hub.fail(SHOW, 403, "API rate limit exceeded for installation", headers=reset)
    get_pull_request(pulled.client(), 1)
    assert 0 < sum(pulled.waits) < 60


@pytest.mark.parametrize("header", ["Retry-After", "X-RateLimit-Reset"])
def test_a_paid_runner_does_not_sleep_for_an_hour(pulled, header):
    until = 3600 if header == "Retry-After" else int(time.time()) + 3600
    pulled.hub.fail(SHOW, 403, "API rate limit exceeded", headers={header: str(until)})
    with pytest.raises(Unavailable, match=r"rate limit asks to wait for 3\d\d\d s"):
        get_pull_request(pulled.client(), 1)
    assert pulled.waits == []


def test_server_errors_are_retried_with_growing_pauses_but_not_for_ever(pulled):
    pulled.hub.fail(SHOW, 502, times=4)
    get_pull_request(pulled.client(), 1)
    assert pulled.waits == [2.0, 4.0, 8.0]
    for status in (202, 500):
        pulled.hub.fail(SHOW, status, times=6)
        with pytest.raises(AnswerLost, match=f"show pull request #1: GitHub answered {status}"):
            get_pull_request(pulled.client(), 1)


@pytest.mark.parametrize("status", [403, 429])
def test_a_limit_that_stays_is_told_after_five_minutes(pulled, status):
    pulled.hub.fail(CREATE, status, SECONDARY, times=99)
    with pytest.raises(Unavailable, match="comment on #1: GitHub's rate limit is used up"):
        keep_comment(pulled.client(), 1, BODY)
    assert pulled.waits == 5 * [60.0]


@pytest.mark.parametrize("content", [b'["no"]', b'{"message": ["no"]}', b'{"mess', b"<html>"])
@pytest.mark.parametrize("operation", [SHOW, CREATE])
def test_a_refusal_that_is_not_as_githubs_are_is_told(pulled, operation, content):
    pulled.hub.fail(operation, 422, content=content)
    with pytest.raises(Refused, match=r"GitHub would not (show|comment on) .*#1: (422|\['no'\])$"):
        keep_comment(pulled.client(), get_pull_request(pulled.client(), 1).number, BODY)


def test_refusals_are_not_retried(pulled):
    pulled.hub.fail(CREATE, 422, "Rule violations found\n\nCommits are not signed\n\n")
    with pytest.raises(Refused, match=r"Rule violations found; Commits are not signed$"):
        keep_comment(pulled.client(), 1, BODY)
    assert pulled.hub.requests.count(CREATE) == 1


@pytest.mark.parametrize(("operation", "status"), [(SHOW, 301), (CREATE, 307)])
def test_a_repository_that_was_renamed_is_told(pulled, operation, status):
    place = {"Location": f"{pulled.hub.url}/repositories/1/x?state=all"}
    pulled.hub.fail(operation, status, headers=place, times=9)
    with pytest.raises(Refused, match=r"moved to .*/repositories/1/x\n.* renamed or transferred"):
        keep_comment(pulled.client(), get_pull_request(pulled.client(), 1).number, BODY)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("API rate limit exceeded for installation ID 1.", "GitHub's rate limit is used up"),
        ("Something went wrong while executing your query.", "Something went wrong"),
    ],
)
def test_graphql_that_fails_with_status_200_refuses_nothing(pulled, words, told):
    content = json.dumps({"data": None, "errors": [{"message": words}]}).encode()
    pulled.hub.fail("POST /graphql", 200, content=content, times=99)
    with pytest.raises(Unavailable, match=told):
        assert pulled.client().login  # an app's comments would not be found again
    with pytest.raises(Unavailable, match=told):
        why_paused(pulled.client(), "skillopt/demo", "main")  # it may be in a merge queue


class Shop:
    """Makes things; some orders are lost before, some after they were carried out."""

    def __init__(self, *fates: str) -> None:
        self.fates = list(fates)
        self.made: list[str] = []
        self.waits: list[float] = []

    def create(self) -> str:
        fate = self.fates.pop(0) if self.fates else "done"
        if fate in ("done", "made"):
            self.made.append("thing")
        if fate != "done":
            raise AnswerLost(fate)
        return "thing"

    def order(self) -> str:
        client = connect(variables("o/r"), wait=self.waits.append)
        return client.create_idempotent(self.create, lambda: next(iter(self.made), None))


@pytest.mark.parametrize("fates", [(), ("lost",), ("made",), ("lost", "lost"), ("lost", "made")])
def test_exactly_one_is_made(fates):
    shop = Shop(*fates)
    assert shop.order() == "thing"
    assert shop.made == ["thing"]
    assert len(shop.waits) == len(fates)


def test_it_is_given_up_after_three_attempts():
    shop = Shop("lost", "lost", "lost")
    with pytest.raises(AnswerLost):
        shop.order()

    def refuse() -> str:
        raise Refused("no")

    with pytest.raises(Refused):
        connect(variables("o/r")).create_idempotent(refuse, lambda: None)


def test_no_published_text_holds_a_secret(scene):
    client = replace(scene.client(), redact=lambda text: text.replace("sesame", "•"))
    wanted = WantedPullRequest("skillopt/demo", "main", "Train sesame", "Open sesame")
    head = scene.step()
    keep_pull_request(client, wanted)
    keep_comment(client, 1, "<!-- m -->\nsesame")
    note = Annotation("a.txt", 1, 1, "notice", "sesame", "sesame")
    keep_check(client, WantedCheck("skillopt", head, "sesame", "sesame", None, (note,)))
    for shown in (scene.hub.pulls, scene.hub.comments, scene.hub.checks):
        assert "•" in repr(shown)
        assert "sesame" not in repr(shown)


@pytest.mark.parametrize(
    ("api", "seconds"),
    [
        ("https://api.github.com", 1.0),
        ("https://api.octo.ghe.com", 1.0),
        ("https://ghe.example.org/api/v3", 0),
    ],
)
def test_connect_paces_writes_where_github_has_secondary_limits(api, seconds):
    hub = connect(variables("octo/skills", "job", api)).hub
    assert vars(hub.requester)["_Requester__seconds_between_writes"] == seconds
