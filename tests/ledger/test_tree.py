from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.git.process import FOLDER, SUBMODULE, Entry, lines, parse

NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: not set(name) & {0, ord("/")})
MODES = st.sampled_from(["100644", "100755", "120000", FOLDER, SUBMODULE])


@given(st.dictionaries(NAMES, st.tuples(MODES, st.binary(min_size=32, max_size=32))), st.booleans())
def test_every_tree_object_is_read_whole(
    tree: dict[bytes, tuple[str, bytes]], sha256: bool
) -> None:
    width = 32 if sha256 else 20
    content = b"".join(
        mode.lstrip("0").encode() + b" " + name + b"\0" + oid[:width]
        for name, (mode, oid) in tree.items()
    )
    assert parse(content, "0" * 2 * width) == {
        name.decode("utf-8", "surrogateescape"): Entry(mode, oid[:width].hex())
        for name, (mode, oid) in tree.items()
    }


def test_lines_say_what_kind_of_object_an_entry_is() -> None:
    entries = {"f": Entry("100644", "1"), "d": Entry(FOLDER, "2"), "s": Entry(SUBMODULE, "3")}
    assert lines(entries) == b"100644 blob 1\tf\x00040000 tree 2\td\x00160000 commit 3\ts\0"
