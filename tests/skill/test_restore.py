import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.skill.regions import (
    APPENDIX,
    REGIONS,
    SLOW_UPDATE,
    protected_spans,
    restore_regions,
    unprotected,
)

FRONT = "---\nname: ledger\n---"
SLOW = f"{SLOW_UPDATE.start}\nMind refunds.\n{SLOW_UPDATE.end}"
NOTES = f"{APPENDIX.start}\n- Pad it.\n{APPENDIX.end}"
SKILL = f"{FRONT}\n\n# Old\n\n{SLOW}\n\n{NOTES}\n"

PIECES = [
    *(mark for region in REGIONS for mark in (region.start, region.end)),
    *(
        "---\n",
        "---",
        "rule",
        "\n",
        "\r\n",
        "\n\n\n",
        "\ufeff",
        " ",
        "<!-- SLOW_",
        "UPDATE_START -->",
    ),
]
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


def protected(text: str) -> list[str]:
    return [text[span.start : span.end] for span in protected_spans(text)]


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
def test_whatever_was_written_the_protected_parts_are_the_old_ones(written: str) -> None:
    assert restore_regions(SKILL, written) == f"{FRONT}\n\n# New\n\n{SLOW}\n\n{NOTES}\n"


def test_parts_that_were_kept_stay_where_they_are() -> None:
    moved = f"{FRONT}\n# New\n{SLOW}\nin the middle\n{NOTES}"
    assert restore_regions(SKILL, moved) == moved


def test_parts_that_were_never_there_do_not_appear() -> None:
    assert restore_regions("# Old\n", f"{FRONT}\n\n{SLOW}\n\n# New\n{NOTES}\n") == "# New\n"


def test_line_endings_are_those_of_the_old_document() -> None:
    crlf = SKILL.replace("\n", "\r\n")
    assert restore_regions(crlf, "# New\n") == SKILL.replace("Old", "New").replace("\n", "\r\n")


def test_a_text_that_a_region_would_turn_into_frontmatter_is_given_up() -> None:
    before = f"# Old\n\n{APPENDIX.start}\n---\n{APPENDIX.end}\n"
    assert restore_regions(before, "---\n# New") == before


@given(before=texts, after=texts)
def test_no_text_can_change_a_protected_part(before: str, after: str) -> None:
    assert protected(restore_regions(before, after)) == protected(before)


@given(texts)
def test_an_unchanged_document_stays_as_it_is(text: str) -> None:
    assert restore_regions(text, text) == text


@given(before=texts, after=texts)
def test_restoring_again_changes_nothing(before: str, after: str) -> None:
    once = restore_regions(before, after)
    assert restore_regions(before, once) == once


@given(texts)
def test_nothing_protected_is_left_in_the_unprotected_text(text: str) -> None:
    assert protected(unprotected(text)) == []
