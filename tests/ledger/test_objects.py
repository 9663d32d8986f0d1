from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.errors import RepositoryError

if TYPE_CHECKING:
    from tests.ledger.conftest import Bench


def test_text_is_written_and_read_byte_for_byte(bench: Bench, repository: Path) -> None:
    (repository / ".gitattributes").write_text("* text eol=crlf\n")
    bench.git(repository, "config", "core.autocrlf", "true")
    ledger = bench.open(repository)
    text = "a\r\nb\n\u00e4 no newline"
    commit = bench.step(ledger, text)
    assert ledger.read(commit, bench.skill) == text


def test_absent_file_is_none(bench: Bench, repository: Path) -> None:
    assert bench.open(repository).read("HEAD", "nowhere/SKILL.md") is None


def test_path_is_not_a_pattern(bench: Bench, repository: Path) -> None:
    ledger = bench.open(repository)
    assert ledger.read("HEAD", "skills/*") is None
    commit = ledger.commit(("HEAD",), "HEAD", {":(top)[x]*.md": "odd\n"}, "Odd name")
    assert ledger.read(commit, ":(top)[x]*.md") == "odd\n"


def test_text_that_is_not_utf8_is_located(bench: Bench, repository: Path) -> None:
    (repository / "latin.md").write_bytes(b"fine\ncaf\xe9\n")
    bench.git(repository, "add", "latin.md")
    bench.git(repository, "commit", "--quiet", "-m", "Latin")
    with pytest.raises(RepositoryError, match=r"latin\.md:2: not UTF-8"):
        bench.open(repository).read("HEAD", "latin.md")


def test_link_and_folder_are_not_read_as_text(bench: Bench, repository: Path) -> None:
    (repository / "AGENTS.md").symlink_to("skills/SKILL.md")
    bench.git(repository, "add", "AGENTS.md")
    bench.git(repository, "commit", "--quiet", "-m", "Link")
    ledger = bench.open(repository)
    with pytest.raises(RepositoryError, match="a symbolic link"):
        ledger.read("HEAD", "AGENTS.md")
    with pytest.raises(RepositoryError, match="a symbolic link"):
        ledger.commit(("HEAD",), "HEAD", {"AGENTS.md": "text"}, "Overwrite")
    with pytest.raises(RepositoryError, match="a folder"):
        ledger.read("HEAD", "skills")


def test_executable_bit_stays(bench: Bench, repository: Path) -> None:
    bench.git(repository, "update-index", "--chmod=+x", bench.skill)
    bench.git(repository, "commit", "--quiet", "-m", "Executable")
    commit = bench.step(bench.open(repository), "one\n")
    assert bench.git(repository, "ls-tree", commit, bench.skill).startswith("100755")


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", ".git/config", "a//b", ""])
def test_path_outside_the_tree_is_refused(bench: Bench, repository: Path, path: str) -> None:
    with pytest.raises(RepositoryError):
        bench.open(repository).commit(("HEAD",), "HEAD", {path: "x"}, "Bad path")


def test_removed_file_is_gone_and_removing_nothing_is_fine(bench: Bench, repository: Path) -> None:
    ledger = bench.open(repository)
    commit = ledger.commit(("HEAD",), "HEAD", {bench.skill: None, "never": None}, "Remove")
    assert ledger.files(commit) == ()


def test_configured_identity_signs_the_commit(bench: Bench, repository: Path) -> None:
    ledger = bench.open(repository, author_name="Bot", author_email="bot@example.org")
    commit = bench.step(ledger, "one\n")
    shown = bench.git(repository, "show", "--no-patch", "--format=%an <%ae> %cn <%ce>", commit)
    assert shown == "Bot <bot@example.org> Bot <bot@example.org>"


def test_git_s_own_identity_fills_the_gaps(bench: Bench, repository: Path) -> None:
    commit = bench.step(bench.open(repository, author_name="Bot"), "one\n")
    assert bench.open(repository).log(commit, limit=1)[0].author == "Bot <ada@example.org>"


def test_nobody_cannot_commit(bench: Bench, repository: Path, git_config: Path) -> None:
    git_config.write_text("")
    ledger = bench.open(repository)
    with pytest.raises(RepositoryError, match=r"who is committing\nSet git\.author_name"):
        bench.step(ledger, "one\n")


def test_message_is_utf8_whatever_the_user_prefers(bench: Bench, repository: Path) -> None:
    bench.git(repository, "config", "i18n.commitEncoding", "ISO-8859-1")
    ledger = bench.open(repository)
    commit = ledger.commit(("HEAD",), "HEAD", {}, "Grüße – 你好\n")
    assert ledger.log(commit, limit=1)[0].subject == "Grüße – 你好"
    assert "encoding" not in bench.git(repository, "cat-file", "commit", commit)


def test_commits_are_signed_if_the_user_signs(bench: Bench, repository: Path) -> None:
    key = repository.parent / "key"
    bench.git(repository, "config", "gpg.format", "ssh")
    bench.git(repository, "config", "gpg.ssh.program", str(key))
    bench.git(repository, "config", "user.signingKey", "key::ssh-ed25519 AAAA")
    bench.git(repository, "config", "commit.gpgSign", "true")
    key.write_text('#!/bin/sh\nfor last; do :; done\necho "SIGNED" > "$last.sig"\n')
    key.chmod(0o755)
    commit = bench.step(bench.open(repository), "one\n")
    assert "gpgsig SIGNED" in bench.git(repository, "cat-file", "commit", commit)


def test_signing_that_fails_says_so(bench: Bench, repository: Path) -> None:
    bench.git(repository, "config", "gpg.program", "false")
    bench.git(repository, "config", "commit.gpgSign", "true")
    with pytest.raises(RepositoryError, match="could not write a commit: error: gpg failed"):
        bench.step(bench.open(repository), "one\n")
