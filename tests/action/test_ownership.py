import os
from contextlib import suppress
from pathlib import Path

import pytest

from skillopt_ci.action.git_access import owner_kept

RUNNER = 1001
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def owner(path: Path) -> int:
    return path.lstat().st_uid


@needs_root
def test_what_was_created_goes_to_the_owner_of_the_workspace(tmp_path: Path) -> None:
    os.chown(tmp_path, RUNNER, RUNNER)
    with owner_kept(tmp_path, 0):
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "file").touch()
        (tmp_path / "link").symlink_to("/etc/hosts")
    assert [owner(tmp_path / name) for name in ("new", "new/file", "link")] == [RUNNER] * 3
    assert owner(Path("/etc/hosts")) == 0


@needs_root
def test_what_was_there_before_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "of-root").touch()
    os.chown(tmp_path, RUNNER, RUNNER)
    with owner_kept(tmp_path, 0):
        (tmp_path / "of-root").write_text("changed", encoding="utf-8")
    assert owner(tmp_path / "of-root") == 0


@needs_root
def test_also_after_a_failure(tmp_path: Path) -> None:
    os.chown(tmp_path, RUNNER, RUNNER)
    with suppress(KeyError), owner_kept(tmp_path, 0):
        (tmp_path / "new").touch()
        raise KeyError
    assert owner(tmp_path / "new") == RUNNER


def test_a_workspace_of_our_own_is_left_alone(tmp_path: Path) -> None:
    with owner_kept(tmp_path, os.geteuid()):
        (tmp_path / "new").touch()
    assert owner(tmp_path / "new") == os.geteuid()


def test_who_is_not_root_gives_nothing_away(tmp_path: Path) -> None:
    with owner_kept(tmp_path, 4711):
        (tmp_path / "new").touch()
    assert owner(tmp_path / "new") == os.geteuid()
