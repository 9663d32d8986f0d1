"""A changed tree is the very one that git's own index would have made."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import write_program

from skillopt_ci.errors import RepositoryError
from skillopt_ci.git import objects
from skillopt_ci.git.objects import SUBMODULE, TREE, Entry, Object, change_tree, parse_tree
from skillopt_ci.git.process import Git


@pytest.fixture
def git(repository: Path) -> Git:
    return Git(repository)


@pytest.mark.parametrize("content", [b"", b"\n", b"no newline", b"a\0b\r\n", b"x" * 300_000])
def test_blob_is_kept_byte_for_byte(git, content):
    git.run("config", "core.autocrlf", "true")
    oid = objects.write_blob(git, content)
    assert git.run("cat-file", "blob", oid).stdout == content
    assert objects.find(git, oid) == Object(oid, "blob", content)


@pytest.mark.parametrize("name", ["nowhere", "0" * 40, "HEAD\nHEAD", "", "HEAD:nowhere", "a b"])
def test_name_of_nothing_is_none_and_the_next_answer_is_right(git, name):
    assert objects.find(git, name) is None
    found = objects.find(git, "HEAD")
    assert found is not None
    assert found.oid == git.run("rev-parse", "HEAD").text


def test_ref_is_looked_up_anew_each_time(bench, repository, git):
    before, after = objects.find(git, "main"), bench.save(repository, "file", "x")
    found = objects.find(git, "main")
    assert before is not None
    assert found is not None
    assert before.oid != found.oid == after


def test_folder_is_what_git_lists(git):
    blob = objects.write_blob(git, b"x")
    names = ["z", "a b", "line\nbreak", "ü", "\udcff", '"quoted"']
    oid = objects.write_tree(git, {name: Entry("100755", blob) for name in names})
    assert set(git.run("ls-tree", "-z", "--name-only", oid).text.split("\0")[:-1]) == set(names)
    assert git.run("fsck", "--strict", "--no-dangling").text == ""
    assert objects.write_tree(git, {}) == git.run("hash-object", "-t", "tree", "--stdin").text


def test_housekeeping_and_a_move_in_between_do_no_harm(bench, repository, git):
    old = objects.write_blob(git, b"old")
    tree = objects.write_tree(git, {"file": Entry("100644", old)})
    bench.git(repository, "tag", "kept", tree)
    bench.git(repository, "gc", "--quiet", "--prune=now")
    assert objects.write_tree(git, {"file": Entry("100644", old)}) == tree
    bench.git(repository, "repack", "--quiet", "-a", "-d", "-f")
    found = objects.find(git, old)
    assert found is not None
    assert found.content == b"old"
    repository.rename(repository.with_name("moved"))
    assert objects.find(git, old) == found


def test_database_that_cannot_be_written_is_told_in_git_s_words(repository, git):
    oid = git.run("hash-object", "--stdin", stdin=b"x").text
    (repository / ".git" / "objects" / oid[:2]).write_text("in the way")
    with pytest.raises(RepositoryError, match=r"git hash-object failed in .*: .*Not a directory"):
        objects.write_blob(git, b"x")


NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: not set(name) & {0, ord("/")})
MODES = st.sampled_from(["100644", "100755", "120000", TREE, SUBMODULE])


@given(st.dictionaries(NAMES, st.tuples(MODES, st.binary(min_size=32, max_size=32))), st.booleans())
def test_every_tree_object_is_read_whole(tree, sha256):
    width = 32 if sha256 else 20
    content = b"".join(
        mode.lstrip("0").encode() + b" " + name + b"\0" + oid[:width]
        for name, (mode, oid) in tree.items()
    )
    assert parse_tree(content, width) == {
        name.decode("utf-8", "surrogateescape"): Entry(mode, oid[:width].hex())
        for name, (mode, oid) in tree.items()
    }


def test_what_is_missing_is_looked_for_again(repository):
    git, other = Git(repository), Git(repository)
    oid = git.run("hash-object", "--stdin", stdin=b"later").text
    assert objects.find(git, oid) is None
    objects.write_blob(other, b"later")
    assert objects.find(git, oid) is not None


def test_a_folder_is_read_once_however_many_of_its_files_are(bench, repository, git, monkeypatch):
    asked: list[str] = []
    for number in range(3):
        tip = bench.save(repository, f"steps/{number}.json", f"{number}")
    known = objects.find
    monkeypatch.setattr(objects, "find", lambda git, name: asked.append(name) or known(git, name))
    assert [objects.read_file(git, tip, f"steps/{n}.json") for n in range(3)] == ["0", "1", "2"]
    folder = git.run("rev-parse", f"{tip}:steps").text
    assert asked.count(f"{folder}^{{tree}}") == 1
    tip = bench.save(repository, "steps/0.json", "new")
    assert objects.read_file(git, "main", "steps/0.json") == "new"


#: Few names, so that files and folders meet: the order of "a", "a.b", "a/…" and "a0" is fine print.
NAMES = st.sampled_from(["a", "a.b", "a0", "b", "ü"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Git:
    git = Git(tmp_path_factory.mktemp("trees"))
    git.run("init", "--quiet")
    return git


def by_index(git: Git, tree: str, changes: dict[str, str | None]) -> str:
    """Change a tree through an index, as git's own commands do."""
    with tempfile.TemporaryDirectory() as folder:
        indexed = Git(git.folder, {**git.env, "GIT_INDEX_FILE": str(Path(folder) / "index")})
        indexed.run("read-tree", tree)
        for path, text in changes.items():
            if text is None:
                indexed.run("update-index", "--force-remove", path)
            else:
                blob = git.run("hash-object", "-w", "--stdin", stdin=text.encode()).text
                indexed.run("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
        return indexed.run("write-tree").text


def without_clashes(paths: list[str]) -> list[str]:
    """Leave out what would be a file and a folder at once."""
    kept: list[str] = []
    for path in paths:
        if not any(f"{path}/".startswith(f"{one}/") or one.startswith(f"{path}/") for one in kept):
            kept.append(path)
    return kept


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PATHS, max_size=8, unique=True), st.data())
def test_tree_is_that_of_git_s_index(bare, paths, data):
    known = without_clashes(paths)
    before = data.draw(st.lists(st.sampled_from(known), unique=True)) if known else []
    texts = st.none() | st.sampled_from(["x", "y"])
    changes, empty = {path: data.draw(texts) for path in known}, bare.run("mktree").text
    old = change_tree(bare, empty, dict.fromkeys(before, "old"))
    assert old == by_index(bare, empty, dict.fromkeys(before, "old"))
    assert change_tree(bare, old, changes) == by_index(bare, old, changes)


def test_file_in_the_way_of_a_folder_gives_way(bare):
    empty = bare.run("mktree").text
    assert change_tree(bare, empty, {}) == empty
    old = change_tree(bare, empty, {"a": "x"})
    assert change_tree(bare, old, {"a/b": None}) == old  # removing below a file leaves it
    assert change_tree(bare, old, {"a/b": "y"}) == change_tree(bare, empty, {"a/b": "y"})
    lines = f"160000 commit {'1' * 40}\tmodule\n120000 blob {'2' * 40}\tlink\n"
    old = bare.run("mktree", "--missing", stdin=lines.encode()).text
    new = change_tree(bare, old, {"file": "x"})
    new_lines, old_lines = (bare.run("ls-tree", one).text.splitlines() for one in (new, old))
    assert new_lines[1:] == old_lines
    with pytest.raises(RepositoryError, match="module/x is in the submodule module"):
        objects.find_entry(bare, old, "module/x")


OUTSIDE = ["/etc/passwd", "../outside", ".git/config", "a//b", ""]


@pytest.mark.parametrize("path", [*OUTSIDE, "a/../b", "a/.GIT/config", "a\0b", "./a", "a/"])
def test_path_that_git_has_in_no_tree_is_refused(bare, path):
    with pytest.raises(RepositoryError, match="not a path inside the repository"):
        change_tree(bare, bare.run("mktree").text, {path: "x"})


def test_tree_that_does_not_exist_is_said(bare):
    with pytest.raises(RepositoryError, match="nowhere is not a commit or tree"):
        change_tree(bare, "nowhere", {"a": "x"})


def test_text_is_written_and_read_byte_for_byte(bench, repository):
    (repository / ".gitattributes").write_text("* text eol=crlf\n")
    bench.git(repository, "config", "core.autocrlf", "true")
    ledger, text = bench.open(repository), "a\r\nb\n\u00e4 no newline"
    assert ledger.read(bench.step(ledger, text), bench.skill) == text


def test_absent_file_is_none(bench, repository):
    assert bench.open(repository).read("HEAD", "nowhere/SKILL.md") is None


def test_path_is_not_a_pattern(bench, repository):
    ledger = bench.open(repository)
    assert ledger.read("HEAD", "skills/*") is None
    commit = ledger.commit(("HEAD",), "HEAD", {":(top)[x]*.md": "odd\n"}, "Odd name")
    assert ledger.read(commit, ":(top)[x]*.md") == "odd\n"


def test_text_that_is_not_utf8_is_located(bench, repository):
    (repository / "latin.md").write_bytes(b"fine\ncaf\xe9\n")
    bench.git(repository, "add", "latin.md")
    bench.git(repository, "commit", "--quiet", "-m", "Latin")
    with pytest.raises(RepositoryError, match=r"latin\.md:2: not UTF-8"):
        bench.open(repository).read("HEAD", "latin.md")


def test_link_and_folder_are_not_read_as_text(bench, repository):
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


def test_executable_bit_stays(bench, repository):
    bench.git(repository, "update-index", "--chmod=+x", bench.skill)
    bench.git(repository, "commit", "--quiet", "-m", "Executable")
    commit = bench.step(bench.open(repository), "one\n")
    assert bench.git(repository, "ls-tree", commit, bench.skill).startswith("100755")


def test_removed_file_is_gone_and_removing_nothing_is_fine(bench, repository):
    ledger = bench.open(repository)
    commit = ledger.commit(("HEAD",), "HEAD", {bench.skill: None, "never": None}, "Remove")
    assert ledger.read(commit, bench.skill) is None


def test_configured_identity_signs_the_commit(bench, repository):
    ledger = bench.open(repository, author_name="Bot", author_email="bot@example.org")
    commit = bench.step(ledger, "one\n")
    shown = bench.git(repository, "show", "--no-patch", "--format=%an <%ae> %cn <%ce>", commit)
    assert shown == "Bot <bot@example.org> Bot <bot@example.org>"


def test_git_s_own_identity_fills_the_gaps(bench, repository):
    commit = bench.step(bench.open(repository, author_name="Bot"), "one\n")
    assert bench.open(repository).log(commit, limit=1)[0].author == "Bot <ada@example.org>"


def test_message_is_utf8_whatever_the_user_prefers(bench, repository):
    bench.git(repository, "config", "i18n.commitEncoding", "ISO-8859-1")
    ledger = bench.open(repository)
    commit = ledger.commit(("HEAD",), "HEAD", {}, "Grüße – 你好\n")
    assert ledger.log(commit, limit=1)[0].message == "Grüße – 你好"
    assert "encoding" not in bench.git(repository, "cat-file", "commit", commit)


def test_commits_are_signed_if_the_user_signs(bench, repository, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # git 2.39 leaves the key's copy there
    script = 'for last; do :; done\necho "SIGNED" > "$last.sig"'
    key = write_program(repository.parent / "key", script)
    bench.git(repository, "config", "gpg.format", "ssh")
    bench.git(repository, "config", "gpg.ssh.program", str(key))
    bench.git(repository, "config", "user.signingKey", "key::ssh-ed25519 AAAA")
    bench.git(repository, "config", "commit.gpgSign", "true")
    commit = bench.step(bench.open(repository), "one\n")
    assert "gpgsig SIGNED" in bench.git(repository, "cat-file", "commit", commit)
