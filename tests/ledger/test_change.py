"""A changed tree is the very one that git's own index would have made."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillopt_ci.errors import RepositoryError
from skillopt_ci.git.objects import change_tree
from skillopt_ci.git.process import Git

#: Few names, so that files and folders meet: the order of "a", "a.b", "a/…" and "a0" is fine print.
PATHS = st.lists(st.sampled_from(["a", "a.b", "a0", "b", "ü"]), min_size=1, max_size=3).map(
    "/".join
)


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Git:
    folder = tmp_path_factory.mktemp("trees")
    git = Git(folder)
    git.run("init", "--quiet")
    return git


def by_index(git: Git, tree: str, changes: dict[str, str | None]) -> str:
    """Change a tree through an index, as git's own commands do."""
    with tempfile.TemporaryDirectory() as folder:
        indexed = git.with_env(GIT_INDEX_FILE=str(Path(folder) / "index"))
        indexed.run("read-tree", tree)
        for path, text in changes.items():
            if text is None:
                indexed.run("update-index", "--force-remove", path)
            else:
                blob = git.text("hash-object", "-w", "--stdin", stdin=text.encode())
                indexed.run("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
        return indexed.text("write-tree")


def without_clashes(paths: list[str]) -> list[str]:
    """Leave out what would be a file and a folder at once."""
    kept: list[str] = []
    for path in paths:
        if not any(f"{path}/".startswith(f"{one}/") or one.startswith(f"{path}/") for one in kept):
            kept.append(path)
    return kept


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(PATHS, max_size=8, unique=True), st.data())
def test_tree_is_that_of_git_s_index(git: Git, paths: list[str], data: st.DataObject) -> None:
    known = without_clashes(paths)
    before = data.draw(st.lists(st.sampled_from(known), unique=True)) if known else []
    texts = st.none() | st.sampled_from(["x", "y"])
    changes = {path: data.draw(texts) for path in known}
    empty = git.text("mktree")
    old = change_tree(git, empty, dict.fromkeys(before, "old"))
    assert old == by_index(git, empty, dict.fromkeys(before, "old"))
    assert change_tree(git, old, changes) == by_index(git, old, changes)


def test_nothing_to_change_is_the_same_tree(git: Git) -> None:
    empty = git.text("mktree")
    assert change_tree(git, empty, {}) == empty


def test_removing_below_a_file_leaves_the_file(git: Git) -> None:
    old = change_tree(git, git.text("mktree"), {"a": "x"})
    assert change_tree(git, old, {"a/b": None}) == old


def test_file_in_the_way_of_a_folder_gives_way(git: Git) -> None:
    empty = git.text("mktree")
    old = change_tree(git, empty, {"a": "x"})
    assert change_tree(git, old, {"a/b": "y"}) == change_tree(git, empty, {"a/b": "y"})


def test_submodules_and_links_beside_stay(git: Git) -> None:
    lines = f"160000 commit {'1' * 40}\tmodule\n120000 blob {'2' * 40}\tlink\n"
    old = git.text("mktree", "--missing", stdin=lines.encode())
    new = change_tree(git, old, {"file": "x"})
    assert git.text("ls-tree", new).splitlines()[1:] == git.text("ls-tree", old).splitlines()


@pytest.mark.parametrize("path", ["a/../b", "a/.GIT/config", "a\0b", "./a", "a/"])
def test_path_that_git_has_in_no_tree_is_refused(git: Git, path: str) -> None:
    with pytest.raises(RepositoryError, match="not a path inside the repository"):
        change_tree(git, git.text("mktree"), {path: "x"})


def test_tree_that_does_not_exist_is_said(git: Git) -> None:
    with pytest.raises(RepositoryError, match="nowhere is not a commit or tree"):
        change_tree(git, "nowhere", {"a": "x"})
