from github_server import pulls
from github_server.scene import SKILL, Scene

from skillopt_ci.github.github import GitHubForge
from skillopt_ci.github.types import ChangedFile


def test_changed_files_are_listed(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    scene.hub.bare.save("skillopt/demo", "new.md", "x\n")
    scene.hub.pulls[1]["changed_files"] = 2
    changed = forge.changed_files(1)
    assert changed.files == (ChangedFile("new.md", "added"), ChangedFile(SKILL, "modified"))
    assert changed.complete


def test_more_files_than_github_lists_are_incomplete(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    scene.hub.pulls[1]["changed_files"] = 3001
    assert not forge.changed_files(1).complete


def test_the_skill_of_a_fork_is_read_as_data(scene: Scene, forge: GitHubForge) -> None:
    head = scene.hub.bare.save("theirs", SKILL, "naïve\r\n")
    pulls.add(scene.hub, "eve", head, head="main", base="main", head_repo="eve/skills")
    assert forge.file_at(SKILL, forge.pull_request(1).head_sha) == "naïve\r\n".encode()


def test_a_large_file_is_read_whole(scene: Scene, forge: GitHubForge) -> None:
    head = scene.step("0123456789" * 150_000)
    assert forge.file_at(SKILL, head) == b"0123456789" * 150_000


def test_folders_and_what_is_not_there_are_none(scene: Scene, forge: GitHubForge) -> None:
    assert forge.file_at("skills", "main") is None
    assert forge.file_at("skills/none.md", "main") is None


def test_other_workflows_are_started(scene: Scene, forge: GitHubForge) -> None:
    forge.dispatch("skillopt-step", {"run": "demo"})
    assert scene.hub.dispatched == [
        {"event_type": "skillopt-step", "client_payload": {"run": "demo"}}
    ]
