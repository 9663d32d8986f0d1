import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.computer.computer import FileRefused
from skillopt_ci.computer.shell import selected

FILES = ["a", "a/b", "a/b/c.txt", "a/d.txt", "e.md", "e.txt", "f[1]", "g"]
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
        ("**", FILES),
        (".", FILES),
        ("", FILES),
        ("?", [*FILES[:4], "g"]),
        ("e.[mt]*", ["e.md", "e.txt"]),
        ("e.[!m]*", ["e.txt"]),
        ("f[[]1]", ["f[1]"]),
        ("A", []),
        ("nothing", []),
    ],
)
def test_a_pattern_means(pattern: str, found: list[str]) -> None:
    assert selected(FILES, [pattern]) == found


def test_several_patterns_mean_what_any_of_them_does_once() -> None:
    assert selected(FILES, ["g", "*.md", "g"]) == ["e.md", "g"]
    assert selected(FILES, []) == []


@given(st.lists(PATHS, unique=True, max_size=6))
def test_a_plain_name_means_itself_and_everything_is_everything(files: list[str]) -> None:
    assert selected(files, ["**"]) == sorted(files)
    for file in files:
        assert file in selected(files, [file])


@given(st.text(max_size=12))
def test_any_pattern_is_understood_or_refused(pattern: str) -> None:
    try:
        assert set(selected(FILES, [pattern])) <= set(FILES)
    except FileRefused:
        assert pattern.startswith("/") or ".." in pattern
