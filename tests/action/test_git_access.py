import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from github_server.state import Hub

from skillopt_ci.action.git_access import BOT, as_environment, authorize, owner_kept, repositories
from skillopt_ci.git.process import Git


def clone(hub: Hub, folder: Path) -> Path:
    hub.bare.save("main", "a.txt", "a\n")
    subprocess.run(["git", "clone", "--quiet", f"{hub.url}/octo/skills.git", folder], check=True)
    return folder


ELSEWHERE = as_environment(authorize("https://github.example", "job"), {})


@pytest.mark.parametrize("env", [{}, ELSEWHERE], ids=["no token", "another server's"])
def test_without_the_token_of_this_server_nothing_can_be_pushed(github_hub, tmp_path, env):
    git = Git(clone(github_hub, tmp_path / "clone"), env)
    assert git.attempt("push", "origin", "main:refs/heads/new").status != 0


def test_the_token_pushes_instead_of_what_checkout_kept(github_hub, tmp_path):
    folder = clone(github_hub, tmp_path / "clone")
    git = Git(folder, as_environment(authorize(github_hub.url, "job"), {}))
    assert git.attempt("push", "origin", "main:refs/heads/new").status == 0
    Git(folder).run("config", f"http.{github_hub.url}/.extraheader", "Authorization: Basic b2xk")
    assert git.attempt("push", "origin", "main:refs/heads/newer").status == 0
    assert "job" not in (folder / ".git" / "config").read_text(encoding="utf-8")
    assert authorize("https://github.com", "") == []


def test_settings_are_added_to_those_that_are_there(tmp_path):
    before = as_environment([("user.name", "Ada")], {})
    after = {**before, **as_environment([("user.email", "ada@localhost")], before)}
    git = Git(tmp_path, after)
    assert git.run("config", "user.name").text == "Ada"
    assert git.run("config", "user.email").text == "ada@localhost"
    env = as_environment(BOT, {"GIT_CONFIG_COUNT": "nonsense"})
    assert Git(tmp_path, env).run("config", "user.name").text == BOT[0][1]


def test_a_repository_inside_the_workspace_is_trusted_and_one_around_it_is_not(tmp_path):
    nested = tmp_path / "code" / "skills"
    nested.mkdir(parents=True)
    (tmp_path / "code" / ".git").mkdir()
    assert repositories(tmp_path, nested) == [tmp_path, tmp_path / "code"]
    assert repositories(tmp_path, tmp_path) == [tmp_path]
    (tmp_path / ".git").mkdir()
    (tmp_path / "workspace").mkdir()
    assert repositories(tmp_path / "workspace", tmp_path / "workspace") == [tmp_path / "workspace"]


RUNNER = 1001
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def owner(path: Path) -> int:
    return path.lstat().st_uid


@needs_root
def test_what_was_created_goes_to_the_owner_of_the_workspace(tmp_path):
    os.chown(tmp_path, RUNNER, RUNNER)
    with owner_kept(tmp_path, 0):
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "file").touch()
        (tmp_path / "link").symlink_to("/etc/hosts")
    assert [owner(tmp_path / name) for name in ("new", "new/file", "link")] == [RUNNER] * 3
    assert owner(Path("/etc/hosts")) == 0


@needs_root
def test_what_was_there_before_stays_as_it_was(tmp_path):
    (tmp_path / "of-root").touch()
    os.chown(tmp_path, RUNNER, RUNNER)
    with owner_kept(tmp_path, 0):
        (tmp_path / "of-root").write_text("changed", encoding="utf-8")
    assert owner(tmp_path / "of-root") == 0


@needs_root
def test_files_that_others_remove_meanwhile_do_no_harm(tmp_path):
    for number in range(1_000):
        (tmp_path / str(number)).touch()
    os.chown(tmp_path, RUNNER, RUNNER)
    created = [tmp_path / f"new-{number}" for number in range(10)]
    work = "import pathlib\nwhile True: file = pathlib.Path('x'); file.touch(); file.unlink()"
    with subprocess.Popen([sys.executable, "-c", work], cwd=tmp_path) as other:
        try:
            for file in created:
                with owner_kept(tmp_path, 0):
                    file.touch()
        finally:
            other.kill()
    assert {owner(file) for file in created} == {RUNNER}


@needs_root
def test_also_after_a_failure(tmp_path):
    os.chown(tmp_path, RUNNER, RUNNER)
    with suppress(KeyError), owner_kept(tmp_path, 0):
        (tmp_path / "new").touch()
        raise KeyError
    assert owner(tmp_path / "new") == RUNNER


@pytest.mark.parametrize("uid", [os.geteuid(), 4711])
def test_a_workspace_of_our_own_and_who_is_not_root_give_nothing_away(tmp_path, uid):
    with owner_kept(tmp_path, uid):
        (tmp_path / "new").touch()
    assert owner(tmp_path / "new") == os.geteuid()
