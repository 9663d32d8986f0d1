import tarfile

import pytest
from computer_kinds import desk
from tars import link, names, tar_of

from skillopt_ci.computer.computer import HOME, WORKDIR
from skillopt_ci.errors import FileRefused

pytestmark = pytest.mark.integration


def test_what_is_written_is_read(any_desk):
    for content in (b"", b"text\n", bytes(range(256)) * 2000):
        any_desk.write("a/new/folder/file name ✓", content)
        assert any_desk.read("a/new/folder/file name ✓") == content
        assert any_desk.read(f"{WORKDIR}/a/new/folder/file name ✓") == content
        assert any_desk.sh("cat a/new/folder/*").exit_code == 0


def test_a_program_that_is_written_again_can_still_be_run(any_desk):
    any_desk.write("run", b"#!/bin/sh\necho one\n")
    assert any_desk.sh("test ! -x run && chmod +x run && ./run").stdout == "one\n"
    any_desk.write("run", b"#!/bin/sh\necho two\n")
    assert any_desk.run("./run").stdout == "two\n"


def test_files_need_nothing_on_the_task_s_path():
    with desk("unconfined", environ={"PATH": "/nowhere"}) as lost:
        lost.write("file", b"text")
        assert names(lost.export("**")) == ["file"]


def test_files_go_to_the_home_and_to_other_places(any_desk):
    any_desk.write(f"{HOME}/.config/tool", b"set")
    assert any_desk.sh('cat "$HOME/.config/tool"').stdout == "set"
    any_desk.write("/tmp/agent-file", b"temporary")
    assert any_desk.sh("cat /tmp/agent-file").stdout == "temporary"
    any_desk.write("file", b"a long content")
    any_desk.write("file", b"short")
    assert (any_desk.read("file"), any_desk.sh("ls -A").stdout) == (b"short", "file\n")
    any_desk.write("tool", b"#!/bin/sh\necho ran\n", executable=True)
    assert any_desk.run("./tool").stdout == "ran\n"


def test_what_cannot_be_read_is_refused(any_desk):
    any_desk.sh("mkdir folder && mkfifo fifo || python3 -c 'import os; os.mkfifo(\"fifo\")'")
    odd = "not a regular file"
    for path, reason in {"missing": "no such file", "folder": odd, "fifo": odd}.items():
        with pytest.raises(FileRefused, match=reason):
            any_desk.read(path)


def test_what_cannot_be_written_is_refused(any_desk):
    any_desk.sh("mkdir folder; echo > file")
    with pytest.raises(FileRefused, match="a folder of that name"):
        any_desk.write("folder", b"")
    with pytest.raises(FileRefused, match="cannot be written"):
        any_desk.write("file/below", b"")
    for path in ("", "folder/", "a\0b", "\ud800"):
        with pytest.raises(FileRefused, match="not the name of a file"):
            any_desk.write(path, b"")


def test_a_file_that_is_too_large_is_refused(any_desk):
    any_desk.write("file", b"x" * 1001)
    assert any_desk.read("file", max_bytes=1001) == b"x" * 1001
    with pytest.raises(FileRefused, match="more than 1000 bytes"):
        any_desk.read("file", max_bytes=1000)


def test_an_archive_goes_out_and_in_unchanged(any_desk):
    any_desk.sh("mkdir -p a/empty; printf x > a/file; ln -s file a/link; chmod +x a/file")
    any_desk.write("name with\nnewline ✓", b"\0\xff")
    archive = any_desk.export(".")
    assert names(archive) == ["a", "a/empty", "a/file", "a/link", "name with\nnewline ✓"]
    any_desk.sh("find . -mindepth 1 -delete")
    any_desk.do(any_desk.computer.load(archive))
    assert any_desk.export(".") == archive
    assert any_desk.sh("test -x a/file && cat a/link").stdout == "x"


def test_the_same_files_give_the_same_archive(any_desk):
    any_desk.sh("mkdir b; echo 1 > b/x; echo 2 > a")
    first = any_desk.export("**")
    any_desk.sh("rm -r a b; echo 2 > a; mkdir b; echo 1 > b/x; touch -d 2001-01-01 a b")
    assert any_desk.export("**") == first


def test_only_what_is_named_is_exported(any_desk):
    any_desk.sh("mkdir -p out/deep src; touch out/1.txt out/deep/2.txt src/3.txt 4.txt 5.md")
    assert names(any_desk.export("out")) == ["out", "out/1.txt", "out/deep", "out/deep/2.txt"]
    assert names(any_desk.export("*.txt", "src/3.txt")) == ["4.txt", "src/3.txt"]
    found = names(any_desk.export("**/*.txt"))
    assert found == ["4.txt", "out/1.txt", "out/deep/2.txt", "src/3.txt"]
    assert names(any_desk.export("nothing/*")) == []


@pytest.mark.parametrize(("number", "longer"), [(900, 150), (9_100, 0)])
def test_many_files_are_exported(any_desk, number, longer):
    if number > 9_000 and any_desk.kind != "sandbox":
        pytest.skip("only bubblewrap counts its arguments")
    name = f"f'{{n:04}}' + 'x' * {longer}"
    any_desk.python(f"import pathlib\nfor n in range({number}): pathlib.Path({name}).touch()")
    assert len(names(any_desk.export("*"))) == number


def test_an_export_that_is_too_large_is_refused(any_desk):
    any_desk.sh("head -c 50000 /dev/zero > a; head -c 50000 /dev/zero > b")
    assert names(any_desk.export("*", max_bytes=100_000)) == ["a", "b"]
    with pytest.raises(FileRefused, match="more than 99999 bytes"):
        any_desk.export("*", max_bytes=99_999)
    any_desk.python("open('hole', 'w').truncate(10 << 20)")
    with pytest.raises(FileRefused, match="more than 100000 bytes"):
        any_desk.export("hole", max_bytes=100_000)


def test_what_the_agent_cannot_read_is_left_out(any_desk):
    made = any_desk.sh("mkdir shut && touch shut/inside file secret && chmod 0 shut secret; id -u")
    others = ["secret", "shut", "shut/inside"] if made.stdout == "0\n" else []
    try:
        assert names(any_desk.export(".")) == ["file", *others]
    finally:
        any_desk.sh("chmod 700 shut")


def test_only_links_that_stay_inside_are_exported(any_desk):
    any_desk.sh(
        "mkdir d; touch d/f; ln -s f d/good; ln -s ../d/f d/up; ln -s /etc/passwd absolute;"
        "ln -s ../../etc outside; ln -s d/../../etc detour; ln f hard; ln d/f d/hard;"
    )
    any_desk.python("import os; os.mkfifo('fifo')")
    assert names(any_desk.export(".")) == ["d", "d/f", "d/good", "d/hard", "d/up"]


def test_nothing_outside_can_be_asked_for(any_desk):
    for pattern in ("/etc", "../x", "a/../../x"):
        with pytest.raises(FileRefused, match="only paths inside"):
            any_desk.export(pattern)


EVIL = {
    "above": tar_of((tarfile.TarInfo("../escaped"), b"x")),
    "absolute": tar_of((tarfile.TarInfo("/tmp/escaped"), b"x")),
    "detour": tar_of((tarfile.TarInfo("a/../../escaped"), b"x")),
    "link": tar_of(link("out", "/tmp")),
    "relative link": tar_of(link("a/out", "../../tmp")),
    "through a link": tar_of(link("out", "in"), (tarfile.TarInfo("out/escaped"), b"x")),
    "hard link": tar_of(link("hard", "/etc/passwd", tarfile.LNKTYPE)),
    "device": tar_of(link("device", "", tarfile.CHRTYPE)),
    "fifo": tar_of(link("fifo", "", tarfile.FIFOTYPE)),
    "no tar": b"no tar at all" * 100,
}


def test_an_archive_that_leads_outside_is_refused_as_a_whole(any_desk):
    for name, archive in EVIL.items():
        with pytest.raises(FileRefused, match="the archive"):
            any_desk.do(any_desk.computer.load(archive))
        assert any_desk.sh("ls -A").stdout == "", name


def test_an_archive_does_not_go_through_a_link_that_the_agent_laid(cell):
    cell.sh("ln -s /tmp out")
    cell.do(cell.computer.load(tar_of((tarfile.TarInfo("out/agent-file"), b"x"))))
    assert cell.sh("ls /tmp").stdout.find("agent-file") < 0
    assert cell.read("out/agent-file") == b"x"
