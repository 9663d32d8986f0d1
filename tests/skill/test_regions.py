import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.skill import regions
from skillopt_ci.skill.regions import APPENDIX, SLOW_UPDATE, restore_regions, with_region

S, E = SLOW_UPDATE.start, SLOW_UPDATE.end
PIECES = [
    *(mark for region in regions.REGIONS for mark in (region.start, region.end)),
    *("---\n", "---", "rule", "\n", "\r\n", "\n\n\n"),
    *("\ufeff", " ", "<!-- SLOW_", "UPDATE_START -->"),
]
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
one_region = st.sampled_from(regions.REGIONS)


NOTED = f"{APPENDIX.start}y{APPENDIX.end}"
ENTANGLED = f"{S}a{APPENDIX.start}b{E}c{APPENDIX.end}"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"---\na: b\n---\nbody\n{S}x{E}\n{NOTED}\n", ["---\na: b\n---", f"{S}x{E}", NOTED]),
        (f"a{E}b{S}c", [E, S]),
        (f"x{ENTANGLED}y", [ENTANGLED]),
    ],
    ids=["whole", "without a partner", "entangled"],
)
def test_frontmatter_and_regions_are_protected(text, parts):
    assert regions.protected_parts(text) == parts


def test_a_start_marker_pairs_with_the_next_end_marker():
    assert regions.markers(f"{S}{S}{E}{E}", SLOW_UPDATE) == [
        regions.Span(0, len(S + S + E)),
        regions.Span(len(S + S + E), len(S + S + E + E), lone=True),
    ]


@given(texts)
def test_protected_spans_are_sorted_disjoint_and_hold_every_marker(text):
    edges = [edge for span in regions.protected_spans(text) for edge in (span.start, span.end)]
    assert edges == sorted(edges)
    openings = zip([0, *edges[1::2]], [*edges[::2], None], strict=True)
    open_text = "\0".join(text[a:b] for a, b in openings)
    assert regions.strip_markers(open_text) == open_text


@given(texts)
def test_no_marker_survives_stripping(text):
    stripped = regions.strip_markers(text)
    assert not any(mark in stripped for one in regions.REGIONS for mark in (one.start, one.end))


def test_markers_that_come_together_are_stripped_too():
    assert regions.strip_markers(f"a<!-- SLOW_{S}UPDATE_START -->b") == "ab"


def test_a_region_is_put_at_the_end():
    assert with_region("# A\n", SLOW_UPDATE, " hint\n") == f"# A\n\n{S}\nhint\n{E}\n"
    assert with_region("~~~\na", SLOW_UPDATE, "b") == f"~~~\na\n~~~\n\n{S}\nb\n{E}\n"
    assert with_region("", SLOW_UPDATE, "") == f"{S}\n{E}\n"
    assert [regions.region_text(one, SLOW_UPDATE) for one in (f"{S}{E}", f"a{S}b")] == ["", None]


def test_the_target_reads_a_region_only_if_something_stands_in_it():
    text = "# Rules\n\nBe brief.\n"
    assert regions.as_read(with_region(text, SLOW_UPDATE, " ")) == text
    filled = with_region(text, SLOW_UPDATE, "Mind the date.")
    assert regions.as_read(filled) == filled


@given(texts, one_region, st.text(alphabet="ab \n", max_size=9))
def test_what_is_written_to_a_region_is_read_back(text, region, inner):
    written = with_region(text, region, inner)
    read = regions.region_text(written, region)
    assert read is not None
    assert read.replace("\r\n", "\n") == inner.strip()
    assert [one.lone for one in regions.markers(written, region)] == [False]
    assert with_region(written, region, inner) == written


def test_no_marker_can_be_smuggled_into_a_region():
    assert regions.region_text(with_region("a", SLOW_UPDATE, f"x{E}y"), SLOW_UPDATE) == "xy"


@given(texts, one_region)
def test_a_removed_region_leaves_no_marker(text, region):
    removed = regions.without_region(text, region)
    assert (region.start in removed, region.end in removed) == (False, False)
    assert regions.without_region(removed, region) == removed


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
def test_blank_lines_close_over_a_removed_region(text, expected):
    assert regions.without_region(text, SLOW_UPDATE) == expected


def test_a_crlf_document_keeps_its_line_endings():
    text = with_region("a\r\nb\r\n", SLOW_UPDATE, "x\ny")
    assert text == f"a\r\nb\r\n\r\n{S}\r\nx\r\ny\r\n{E}\r\n"


# Protected parts are restored.

FRONT = "---\nname: ledger\n---"
SLOW = f"{SLOW_UPDATE.start}\nMind refunds.\n{SLOW_UPDATE.end}"
NOTES = f"{APPENDIX.start}\n- Pad it.\n{APPENDIX.end}"
SKILL = f"{FRONT}\n\n# Old\n\n{SLOW}\n\n{NOTES}\n"


@pytest.mark.parametrize(
    "written",
    [
        "# New",
        f"{FRONT}\n\n# New\n",
        f"---\nname: other\n---\n# New\n\n{SLOW_UPDATE.start}\nObey.\n{SLOW_UPDATE.end}\n",
        f"{SLOW_UPDATE.start}# New{SLOW_UPDATE.start}\n{SLOW_UPDATE.end}\n\n# New",
        f"{APPENDIX.end}\n# New\n{SLOW_UPDATE.end}",
    ],
)
def test_whatever_was_written_the_protected_parts_are_the_old_ones(written):
    assert restore_regions(SKILL, written) == f"{FRONT}\n\n# New\n\n{SLOW}\n\n{NOTES}\n"


def test_parts_that_were_kept_stay_where_they_are():
    moved = f"{FRONT}\n# New\n{SLOW}\nin the middle\n{NOTES}"
    assert restore_regions(SKILL, moved) == moved
    assert restore_regions("# Old\n", f"{FRONT}\n\n{SLOW}\n\n# New\n{NOTES}\n") == "# New\n"
    crlf = SKILL.replace("\n", "\r\n")
    assert restore_regions(crlf, "# New\n") == SKILL.replace("Old", "New").replace("\n", "\r\n")


def test_a_text_that_a_region_would_turn_into_frontmatter_is_given_up():
    before = f"# Old\n\n{APPENDIX.start}\n---\n{APPENDIX.end}\n"
    assert restore_regions(before, "---\n# New") == before


@given(before=texts, after=texts)
def test_no_text_can_change_a_protected_part(before, after):
    restored = restore_regions(before, after)
    assert regions.protected_parts(restored) == regions.protected_parts(before)
    assert restore_regions(before, before) == before


@given(before=texts, after=texts)
def test_restoring_again_changes_nothing(before, after):
    once = restore_regions(before, after)
    assert restore_regions(before, once) == once


@given(texts)
def test_nothing_protected_is_left_in_the_unprotected_text(text):
    assert regions.protected_parts(regions.unprotected(text)) == []


# The appendix of notes.

BODY = "# Skill\n\n- A rule.\n"
note_texts = st.text(st.sampled_from("ab -*.\n\r\u2028\t#<!>é"), max_size=12) | st.sampled_from(
    [
        regions.HEADING,
        APPENDIX.start,
        APPENDIX.end,
        "- Look twice.",
        "look  TWICE;",
        SLOW_UPDATE.start,
    ]
)
notes = st.lists(note_texts, max_size=5)


def test_notes_stand_in_a_block_at_the_end():
    assert regions.with_notes(BODY, ["Look twice.", "Count."]) == (
        f"{BODY}\n<!-- APPENDIX_START -->\n{regions.HEADING}\n\n- Look twice.\n- Count.\n"
        "<!-- APPENDIX_END -->\n"
    )


def test_the_first_wording_of_a_note_stays():
    told = regions.merge_notes(
        ["Look twice."], [" ", "look  TWICE;", "Count.", "\n", "count", "-", "- ..."]
    )
    assert told == ("Look twice.", "Count.")  # blank ones and mere punctuation are none
    assert regions.cleaned(f"- * Look\n  {APPENDIX.end} twice. ") == "Look twice."


def test_a_document_without_notes_stays_as_it_is():
    assert (regions.with_notes(BODY, ()), regions.notes_of(BODY)) == (BODY, ())
    text = with_region(BODY, APPENDIX, "Mind the date.\n\n* Count.")
    assert regions.notes_of(text) == ("Mind the date.", "Count.")
    text = regions.with_notes(BODY.replace("\n", "\r\n"), ["Look twice."])
    assert "\n" not in text.replace("\r\n", "")
    assert regions.notes_of(text) == ("Look twice.",)


@given(proposed=notes)
def test_what_is_written_is_read_back(proposed):
    assert regions.notes_of(regions.with_notes(BODY, proposed)) == regions.merge_notes((), proposed)


@given(existing=notes, proposed=notes)
def test_merging_loses_no_note_and_invents_none(existing, proposed):
    merged = regions.merge_notes(existing, proposed)
    assert regions.merge_notes(merged, (*existing, *proposed)) == merged
    assert set(merged) <= set(map(regions.cleaned, (*existing, *proposed)))


@given(proposed=notes)
def test_the_body_and_other_regions_are_left_alone(proposed):
    text = with_region(BODY, SLOW_UPDATE, "- Guidance.")
    noted = regions.with_notes(text, proposed)
    assert noted.startswith(BODY)
    assert regions.region_text(noted, SLOW_UPDATE) == "- Guidance."
    assert regions.with_notes(noted, regions.notes_of(noted)) == noted


# Texts that say the same have the same reading; texts that do not, have not.

TEXT = "# Title\n\n- One rule.\n    indented\n\nThe end.\n"


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("One rule.", "One rule.  \t"),
        TEXT.replace("\n\n", "\n\n\n \n"),
        f"\n\n{TEXT}\n\n",
        f"{TEXT}\n<!-- SLOW_UPDATE_START -->\n<!-- SLOW_UPDATE_END -->\n",
    ],
    ids=["line endings", "ends of lines", "blank lines", "around", "an empty region"],
)
def test_spacing_is_no_difference(other):
    assert regions.reading_sha256(other) == regions.reading_sha256(TEXT)


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("    indented", "indented"),
        TEXT.replace("One rule", "one rule"),
        TEXT.replace("\n\n- One", "\n- One"),
        TEXT.replace("One rule", "One  rule"),
    ],
    ids=["indentation", "case", "a paragraph", "words apart"],
)
def test_what_a_reader_sees_is_one(other):
    assert regions.reading_sha256(other) != regions.reading_sha256(TEXT)


@given(st.lists(st.sampled_from(["# A", "- b", "  c", "", " ", "d  ", "\t"])).map("\n".join))
def test_a_reading_reads_as_itself(text):
    assert regions.reading(regions.reading(text)) == regions.reading(text)


# The share of leading words.


@pytest.mark.parametrize(
    ("text", "words", "share"),
    [
        ("", (), 0),
        ("  \n", (), 0),
        ("— … !", (), 0),
        ("You must NEVER do it, only that.", (), 3 / 7),
        ("mustard onlyness", (), 0),
        (" ".join(regions.LEADING_WORDS), (), 1),
        ("Check it. Never.", ("CHECK",), 1 / 3),
        (f"Always so\n\n{S}\nMUST MUST\n{E}\n", (), 1 / 2),
        (f"{APPENDIX.start}\nMUST do", (), 1 / 2),
    ],
    ids=["empty", "blank", "no word", "any case", "parts", "all", "own", "region", "lone marker"],
)
def test_density_is_the_share_of_leading_words(text, words, share):
    assert regions.semantic_density(text, words) == share
