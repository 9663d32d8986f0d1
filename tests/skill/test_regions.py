import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.skill.regions import (
    APPENDIX,
    REGIONS,
    SLOW_UPDATE,
    Region,
    Span,
    as_read,
    markers,
    protected_spans,
    region_text,
    strip_markers,
    tail_start,
    with_region,
    without_region,
)

S, E = SLOW_UPDATE.start, SLOW_UPDATE.end
PIECES = [
    *(mark for region in REGIONS for mark in (region.start, region.end)),
    *("---\n", "rule", "\n", "\r\n", "\n\n\n", "<!-- SLOW_", "UPDATE_START -->"),
]
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
regions = st.sampled_from(REGIONS)


def protected(text: str) -> list[str]:
    return [text[span.start : span.end] for span in protected_spans(text)]


def test_markers_are_the_agreed_comments() -> None:
    assert (S, E) == ("<!-- SLOW_UPDATE_START -->", "<!-- SLOW_UPDATE_END -->")
    assert (APPENDIX.start, APPENDIX.end) == ("<!-- APPENDIX_START -->", "<!-- APPENDIX_END -->")


def test_frontmatter_and_regions_are_protected() -> None:
    text = f"---\na: b\n---\nbody\n{S}x{E}\n{APPENDIX.start}y{APPENDIX.end}\n"
    assert protected(text) == [
        "---\na: b\n---",
        f"{S}x{E}",
        f"{APPENDIX.start}y{APPENDIX.end}",
    ]


def test_a_start_marker_pairs_with_the_next_end_marker() -> None:
    found = markers(f"{S}{S}{E}{E}", SLOW_UPDATE)
    assert found.blocks == (Span(0, len(S + S + E)),)
    assert found.orphans == (Span(len(S + S + E), len(S + S + E + E)),)


def test_markers_without_a_partner_are_protected_themselves() -> None:
    assert protected(f"a{E}b{S}c") == [E, S]


def test_entangled_regions_are_one_span() -> None:
    text = f"{S}a{APPENDIX.start}b{E}c{APPENDIX.end}"
    assert protected(f"x{text}y") == [text]


@given(texts)
def test_protected_spans_are_sorted_disjoint_and_hold_every_marker(text: str) -> None:
    spans = protected_spans(text)
    edges = [edge for span in spans for edge in (span.start, span.end)]
    assert edges == sorted(edges)
    open_text = "\0".join(
        text[a:b] for a, b in zip([0, *edges[1::2]], [*edges[::2], None], strict=True)
    )
    assert strip_markers(open_text) == open_text


def test_appended_text_belongs_before_the_first_start_marker() -> None:
    assert tail_start(f"ab{APPENDIX.start}{S}{E}") == 2
    assert tail_start(f"ab{E}") is None


def test_a_marker_inside_the_frontmatter_is_not_the_tail() -> None:
    assert tail_start(f"---\na: '{S}'\n---\nbody\n") is None


@given(texts)
def test_no_marker_survives_stripping(text: str) -> None:
    stripped = strip_markers(text)
    assert not any(mark in stripped for region in REGIONS for mark in (region.start, region.end))


def test_markers_that_come_together_are_stripped_too() -> None:
    assert strip_markers(f"a<!-- SLOW_{S}UPDATE_START -->b") == "ab"


def test_a_region_is_put_at_the_end() -> None:
    assert with_region("# A\n", SLOW_UPDATE, " hint\n") == f"# A\n\n{S}\nhint\n{E}\n"


def test_a_blank_region_holds_its_place() -> None:
    assert with_region("", SLOW_UPDATE, "") == f"{S}\n{E}\n"
    assert region_text(f"{S}\n{E}\n", SLOW_UPDATE) == ""


def test_the_target_reads_a_region_only_if_something_stands_in_it() -> None:
    text = "# Rules\n\nBe brief.\n"
    assert as_read(with_region(text, SLOW_UPDATE, " ")) == text
    filled = with_region(text, SLOW_UPDATE, "Mind the date.")
    assert as_read(filled) == filled


def test_a_region_that_is_not_there_has_no_text() -> None:
    assert region_text(f"a{S}b", SLOW_UPDATE) is None


@given(texts, regions, st.text(alphabet="ab \n", max_size=9))
def test_what_is_written_to_a_region_is_read_back(text: str, region: Region, inner: str) -> None:
    written = with_region(text, region, inner)
    read = region_text(written, region)
    assert read is not None
    assert read.replace("\r\n", "\n") == inner.strip()
    assert len(markers(written, region).blocks) == 1


@given(texts, regions)
def test_writing_a_region_twice_is_writing_it_once(text: str, region: Region) -> None:
    once = with_region(text, region, "hint")
    assert with_region(once, region, "hint") == once


def test_no_marker_can_be_smuggled_into_a_region() -> None:
    assert region_text(with_region("a", SLOW_UPDATE, f"x{E}y"), SLOW_UPDATE) == "xy"


@given(texts, regions)
def test_a_removed_region_leaves_no_marker(text: str, region: Region) -> None:
    removed = without_region(text, region)
    assert (region.start in removed, region.end in removed) == (False, False)
    assert without_region(removed, region) == removed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"a\n\n{S}\nx\n{E}\n", "a\n"),
        (f"a\n\n{S}x{E}\n\nb\n", "a\n\nb\n"),
        (f"a\n\n\n{S}x{E}\n\n{S}y{E}\n\n\n\nb", "a\n\nb\n"),
        (f"a\n{S}x{E}\nb\n", "a\nb\n"),
        (f"a {S}\nb\n", "a \nb\n"),
        ("a\n\n\n\nb", "a\n\n\n\nb"),
        (f"a\r\n\r\n{S}x{E}\r\n\r\nb\r\n", "a\r\n\r\nb\r\n"),
    ],
)
def test_blank_lines_close_over_a_removed_region(text: str, expected: str) -> None:
    assert without_region(text, SLOW_UPDATE) == expected


def test_the_other_region_stays_when_one_is_written() -> None:
    text = with_region(with_region("# A", APPENDIX, "note"), SLOW_UPDATE, "hint")
    assert region_text(text, APPENDIX) == "note"
    assert region_text(without_region(text, SLOW_UPDATE), APPENDIX) == "note"


def test_a_crlf_document_keeps_its_line_endings() -> None:
    assert (
        with_region("a\r\nb\r\n", SLOW_UPDATE, "x\ny") == f"a\r\nb\r\n\r\n{S}\r\nx\r\ny\r\n{E}\r\n"
    )
