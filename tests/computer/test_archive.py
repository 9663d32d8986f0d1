import contextlib
import io
import os
import tarfile
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.computer.archive import Member, pack, selected, stays_inside, unpack, with_parents
from skillopt_ci.errors import FileRefused

PART = st.sampled_from(["a", "b", "c", ".h", "n m", "ü"])
NAMES = st.lists(PART, min_size=1, max_size=3).map("/".join)
FILES = st.builds(Member, NAMES, st.binary(max_size=50), st.booleans())
TARGETS = st.lists(st.sampled_from(["a", "b", "..", ".", ""]), min_size=1, max_size=5).map("/".join)


def apart(members: list[Member]) -> list[Member]:
    """Leave out what could not be in one folder together."""
    kept: dict[str, Member] = {}
    for member in members:
        names = [*kept, member.name]
        if not any(x != y and f"{y}/".startswith(f"{x}/") for x in names for y in names):
            kept[member.name] = member
    return sorted(kept.values(), key=lambda one: one.name)


@given(st.lists(FILES, max_size=6).map(apart))
def test_what_is_packed_is_unpacked_and_the_order_does_not_matter(members):
    assert unpack(pack(members), strict=True) == members
    assert pack(reversed(members)) == pack(members)


@given(st.lists(FILES, max_size=6).map(apart))
def test_every_folder_that_is_needed_is_there(members):
    names = [member.name for member in with_parents(members)]
    assert len(names) == len(set(names))
    assert {str(above) for name in names for above in Path(name).parents} - {"."} <= set(names)


@given(
    st.lists(st.tuples(PART, TARGETS), max_size=5), st.lists(st.tuples(PART, TARGETS), max_size=5)
)
def test_links_that_are_allowed_never_lead_outside(above, below):
    """Laid in a real folder, and followed by the system, links by links."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve() / "root"
        for folder in ("deep/er", "b/a", "deep/b"):
            (root / folder).mkdir(parents=True)
        for folder, links in (("", above), ("deep/er/", below)):
            for link, target in links:
                place = root / f"{folder}{link}"
                if stays_inside(f"{folder}{link}", target) and not os.path.lexists(place):
                    place.symlink_to(target)
        for place in root.rglob("*"):
            if place.is_symlink():
                with contextlib.suppress(OSError):  # it leads nowhere, or round in circles
                    led = Path(os.path.realpath(place, strict=True))
                    assert led.is_relative_to(root), (place, place.readlink())


@pytest.mark.parametrize("target", ["f", "d/f", "../f", "../d/f", "."])
def test_links_inside(target):
    assert stays_inside("d/link", target)


@pytest.mark.parametrize("target", ["", "/f", "/", "../../f", "d/../f", "../d/.."])
def test_links_that_may_lead_outside(target):
    assert not stays_inside("d/link", target)


@given(st.binary(max_size=2000))
def test_any_bytes_are_an_archive_or_refused(content):
    try:
        members = unpack(content)
    except FileRefused:
        return
    assert unpack(pack(members)) == members


@given(st.data())
def test_a_damaged_archive_is_unpacked_or_refused(data):
    whole = bytearray(
        pack([Member("a", b"x" * 600), Member("d", folder=True), Member("l", target="a")])
    )
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=8)):
        whole[at] = data.draw(st.integers(0, 255))
    try:
        members = unpack(bytes(whole))
    except FileRefused:
        return
    for member in members:
        assert not member.name.startswith("/")
        assert ".." not in member.name.split("/")


def test_a_hard_link_is_the_file_once_more():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        first = tarfile.TarInfo("first")
        first.size = 1
        tar.addfile(first, io.BytesIO(b"x"))
        for name, target in (("second", "./first"), ("third", "unknown"), ("self", "self")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.LNKTYPE, target
            tar.addfile(info)
    assert unpack(file.getvalue()) == [Member("first", b"x"), Member("second", b"x")]


@pytest.mark.parametrize(("size", "count"), [(1_000, 2), (300_000_000, 1), (120_000_000, 2)])
def test_holes_of_sparse_files_are_zeros_unless_they_would_fill_the_memory(size, count):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for number in range(count):
            info = tarfile.TarInfo(str(number))
            info.size = 512
            info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.realsize": str(size)}
            info.pax_headers["GNU.sparse.minor"] = "0"
            tar.addfile(info, io.BytesIO(b"1\n0\n0\n".ljust(512, b"\0")))
    with (
        contextlib.nullcontext()
        if size == 1_000
        else pytest.raises(FileRefused, match="200,000,000")
    ):
        assert [one.content for one in unpack(file.getvalue())] == [bytes(size)] * count


LISTED = ["a", "a/b", "a/b/c.txt", "a/d.txt", "e.md", "e.txt", "f[1]", "g"]
PATHS = st.lists(st.text(st.characters(exclude_characters="/*?[\0.")), min_size=1, max_size=4).map(
    lambda parts: "/".join(part or "x" for part in parts)
)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a/b", ["a/b", "a/b/c.txt"]),
        ("./a/d.txt", ["a/d.txt"]),
        ("*.txt", ["e.txt"]),
        ("**/*.txt", ["a/b/c.txt", "a/d.txt", "e.txt"]),
        ("a/**", ["a/b", "a/b/c.txt", "a/d.txt"]),
        ("a/**/c.txt", ["a/b/c.txt"]),
        ("**", LISTED),
        (".", LISTED),
        ("", LISTED),
        ("?", [*LISTED[:4], "g"]),
        ("e.[mt]*", ["e.md", "e.txt"]),
        ("e.[!m]*", ["e.txt"]),
        ("f[[]1]", ["f[1]"]),
        ("A", []),
        ("nothing", []),
    ],
)
def test_a_pattern_means(pattern, found):
    assert selected(LISTED, [pattern]) == found


def test_several_patterns_mean_what_any_of_them_does_once():
    assert selected(LISTED, ["g", "*.md", "g"]) == ["e.md", "g"]
    assert selected(LISTED, []) == []


@given(st.lists(PATHS, unique=True, max_size=6))
def test_a_plain_name_means_itself_and_everything_is_everything(files):
    assert selected(files, ["**"]) == sorted(files)
    for file in files:
        assert file in selected(files, [file])


@given(st.text(max_size=12) | st.text("/.*?[]ab", max_size=12))
def test_any_pattern_is_understood_or_refused(pattern):
    try:
        assert set(selected(LISTED, [pattern])) <= set(LISTED)
    except FileRefused:
        assert pattern.startswith("/") or ".." in pattern


def test_deep_folders_are_looked_through_in_time():
    deep = ["a"]
    while len(deep) < 2_000:
        deep.append(f"{deep[-1]}/a")
    begin = time.process_time()
    assert selected([*deep, "b.py"], ["**/a/**/*.py", "*.py"]) == ["b.py"]
    members = [Member(f"{deep[-1]}/{number}", b"x") for number in range(500)]
    assert unpack(pack(members), strict=True) == sorted(members, key=lambda one: one.name)
    assert len(with_parents(members)) == len(deep) + len(members)
    assert time.process_time() - begin < 5  # it was a minute


def test_a_name_longer_than_any_path_is_no_member():
    archive = pack([Member("a/" * 3_000 + "b")])
    assert unpack(archive) == []
    with pytest.raises(FileRefused):
        unpack(archive, strict=True)
