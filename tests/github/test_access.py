import socket

import pytest
from github_server.scene import Scene

from skillopt_ci.errors import UsageError
from skillopt_ci.github.client import (
    Access,
    AnswerLost,
    NotFound,
    Patience,
    PermissionMissing,
    Unavailable,
    from_environ,
)
from skillopt_ci.github.github import GitHubForge

ENVIRON = {"GITHUB_REPOSITORY": "octo/skills", "GITHUB_TOKEN": "job"}


def test_a_workflow_says_where_it_runs() -> None:
    assert from_environ(ENVIRON) == Access("octo/skills", "job", "https://api.github.com")


def test_the_token_of_the_action_comes_first_and_is_trimmed() -> None:
    environ = ENVIRON | {"GITHUB_API_URL": "https://ghe.example.org/api/v3/"}
    found = from_environ(environ, " app-token\n")
    assert (found.token, found.api_url) == ("app-token", "https://ghe.example.org/api/v3")


@pytest.mark.parametrize(
    "environ",
    [{}, {"GITHUB_REPOSITORY": "octo/skills"}, ENVIRON | {"GITHUB_REPOSITORY": "skills"},
     ENVIRON | {"GITHUB_REPOSITORY": "a/b/c"}, ENVIRON | {"GITHUB_TOKEN": "töken"},
     ENVIRON | {"GITHUB_TOKEN": "a\nb"}, ENVIRON | {"GITHUB_API_URL": "ftp://x"}],
)  # fmt: skip
def test_what_cannot_be_is_refused_without_showing_the_token(environ: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        from_environ(environ)
    assert "töken" not in str(caught.value)


def test_the_token_is_never_shown() -> None:
    assert "job" not in repr(from_environ(ENVIRON))


def test_a_workflow_s_token_speaks_for_the_bot(scene: Scene) -> None:
    assert scene.forge().login() == "github-actions[bot]"


def test_without_graphql_it_is_taken_for_the_bot(scene: Scene) -> None:
    scene.hub.fail("POST /graphql", 404, "Not Found")
    assert scene.forge().login() == "github-actions[bot]"


def test_the_token_of_an_app_speaks_for_it(scene: Scene) -> None:
    scene.hub.tokens["app"] = "trainer[bot]"
    assert scene.forge("app").login() == "trainer[bot]"


def test_a_person_s_token_speaks_for_them_and_is_asked_once(scene: Scene) -> None:
    forge = scene.forge("pat")
    assert (forge.login(), forge.login()) == ("ada", "ada")
    assert scene.hub.requests == ["GET /user"]


def test_a_token_that_is_not_accepted_is_told_apart(scene: Scene) -> None:
    with pytest.raises(PermissionMissing, match="no longer valid") as caught:
        scene.forge("secret-and-wrong").login()
    assert "secret-and-wrong" not in str(caught.value)


def test_a_repository_that_is_hidden_is_not_found(scene: Scene) -> None:
    access = Access("octo/hidden", "job", scene.hub.url)
    with pytest.raises(NotFound, match="may not see it"):
        GitHubForge.open(access).pull_request(1)


def test_an_enterprise_server_has_its_api_in_a_folder(scene: Scene) -> None:
    scene.pull()
    forge = GitHubForge.open(Access("octo/skills", "job", f"{scene.hub.url}/api/v3"))
    assert forge.pull_request(1).number == 1


def test_a_server_that_is_not_there_is_no_defect(scene: Scene) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    patience = Patience(wait=scene.waits.append, retries=1)
    with pytest.raises(AnswerLost, match="did not answer"):
        GitHubForge.open(Access("o/r", "job", f"http://127.0.0.1:{port}"), patience).login()


def test_an_answer_that_leads_elsewhere_is_no_defect(scene: Scene) -> None:
    scene.pull()
    url = scene.hub.url
    scene.hub.url = "http://192.0.2.1"
    forge = GitHubForge.open(Access("octo/skills", "job", url))
    with pytest.raises(Unavailable, match="not usable"):
        forge.changed_files(1)
