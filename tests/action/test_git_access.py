import subprocess
from pathlib import Path

from github_server.state import Hub

from skillopt_ci.action.git_access import as_environment, authorize, identify, repositories, trust
from skillopt_ci.git.process import Git


def clone(hub: Hub, folder: Path) -> Path:
    hub.bare.save("main", "a.txt", "a\n")
    url = f"{hub.url}/octo/skills.git"
    subprocess.run(["git", "clone", "--quiet", url, folder], check=True)
    return folder


def test_without_authorization_nothing_can_be_pushed(github_hub: Hub, tmp_path: Path) -> None:
    git = Git(clone(github_hub, tmp_path / "clone"))
    assert git.attempt("push", "origin", "main:refs/heads/new").status != 0


def test_the_token_pushes(github_hub: Hub, tmp_path: Path) -> None:
    env = as_environment(authorize(github_hub.url, "job"), {})
    git = Git(clone(github_hub, tmp_path / "clone"), env)
    assert git.attempt("push", "origin", "main:refs/heads/new").status == 0
    assert "job" not in (git.folder / ".git" / "config").read_text(encoding="utf-8")


def test_what_checkout_kept_is_not_sent_as_well(github_hub: Hub, tmp_path: Path) -> None:
    folder = clone(github_hub, tmp_path / "clone")
    Git(folder).run("config", f"http.{github_hub.url}/.extraheader", "Authorization: Basic b2xk")
    git = Git(folder, as_environment(authorize(github_hub.url, "job"), {}))
    assert git.attempt("push", "origin", "main:refs/heads/new").status == 0


def test_another_server_does_not_see_the_token(github_hub: Hub, tmp_path: Path) -> None:
    env = as_environment(authorize("https://github.example", "job"), {})
    git = Git(clone(github_hub, tmp_path / "clone"), env)
    assert git.attempt("push", "origin", "main:refs/heads/new").status != 0


def test_without_a_token_there_is_nothing_to_say() -> None:
    assert authorize("https://github.com", "") == []


def test_settings_are_added_to_those_that_are_there(tmp_path: Path) -> None:
    before = as_environment([("user.name", "Ada")], {})
    after = {**before, **as_environment([("user.email", "ada@localhost")], before)}
    git = Git(tmp_path, after)
    assert git.text("config", "user.name") == "Ada"
    assert git.text("config", "user.email") == "ada@localhost"


def test_the_last_of_two_names_counts(tmp_path: Path) -> None:
    env = as_environment(identify("Bot", "bot@localhost"), {"GIT_CONFIG_COUNT": "nonsense"})
    assert Git(tmp_path, env).text("config", "user.name") == "Bot"


def test_the_workspace_and_a_repository_inside_it_are_trusted(tmp_path: Path) -> None:
    nested = tmp_path / "code" / "skills"
    nested.mkdir(parents=True)
    (tmp_path / "code" / ".git").mkdir()
    assert repositories(tmp_path, nested) == [tmp_path, tmp_path / "code"]
    assert repositories(tmp_path, tmp_path) == [tmp_path]


def test_a_repository_around_the_workspace_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "workspace").mkdir()
    assert repositories(tmp_path / "workspace", tmp_path / "workspace") == [tmp_path / "workspace"]
    assert ("safe.directory", "*") not in trust(repositories(tmp_path, tmp_path))
