from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.skill.regions import (
    APPENDIX,
    HEADING,
    SLOW_UPDATE,
    cleaned,
    merge_notes,
    notes_of,
    region_text,
    with_notes,
    with_region,
)

BODY = "# Skill\n\n- A rule.\n"
texts = st.text(st.sampled_from("ab -*.\n\r\u2028\t#<!>é"), max_size=12) | st.sampled_from(
    [HEADING, APPENDIX.start, APPENDIX.end, "- Look twice.", "look  TWICE;", SLOW_UPDATE.start]
)
notes = st.lists(texts, max_size=5)


def test_notes_stand_in_a_block_at_the_end() -> None:
    assert with_notes(BODY, ["Look twice.", "Count."]) == (
        f"{BODY}\n<!-- APPENDIX_START -->\n{HEADING}\n\n- Look twice.\n- Count.\n"
        "<!-- APPENDIX_END -->\n"
    )


def test_the_first_wording_of_a_note_stays() -> None:
    told = merge_notes(["Look twice."], ["look  TWICE;", "Count.", "count"])
    assert told == ("Look twice.", "Count.")


def test_blank_notes_are_none() -> None:
    assert merge_notes([], [" ", "\n", ""]) == ()


def test_a_note_is_one_line_without_markers_of_its_own() -> None:
    assert cleaned(f"- * Look\n  {APPENDIX.end} twice. ") == "Look twice."


def test_a_document_without_notes_stays_as_it_is() -> None:
    assert with_notes(BODY, ()) == BODY
    assert notes_of(BODY) == ()


def test_the_lines_that_a_person_wrote_are_notes() -> None:
    text = with_region(BODY, APPENDIX, "Mind the date.\n\n* Count.")
    assert notes_of(text) == ("Mind the date.", "Count.")


def test_windows_line_endings_stay() -> None:
    text = with_notes(BODY.replace("\n", "\r\n"), ["Look twice."])
    assert "\n" not in text.replace("\r\n", "")
    assert notes_of(text) == ("Look twice.",)


@given(proposed=notes)
def test_what_is_written_is_read_back(proposed: list[str]) -> None:
    assert notes_of(with_notes(BODY, proposed)) == merge_notes((), proposed)


@given(existing=notes, proposed=notes)
def test_merging_loses_no_note_and_invents_none(existing: list[str], proposed: list[str]) -> None:
    merged = merge_notes(existing, proposed)
    assert merge_notes(merged, (*existing, *proposed)) == merged
    assert set(merged) <= set(map(cleaned, (*existing, *proposed)))


@given(proposed=notes)
def test_the_body_and_other_regions_are_left_alone(proposed: list[str]) -> None:
    text = with_region(BODY, SLOW_UPDATE, "- Guidance.")
    noted = with_notes(text, proposed)
    assert noted.startswith(BODY)
    assert region_text(noted, SLOW_UPDATE) == "- Guidance."
    assert with_notes(noted, notes_of(noted)) == noted
