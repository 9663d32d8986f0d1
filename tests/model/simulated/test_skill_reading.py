from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo.models import HOUSES_BY_NAME, conflicting_line, stances, statements, subject

SKILL = (
    "# Rules\n\n- Write dates in ISO form. The vendor is in capitals.\n* Write dates in words.\n"
)


def test_sentences_are_read_one_by_one_without_their_markers() -> None:
    assert statements(SKILL) == (
        "Rules",
        "Write dates in ISO form.",
        "The vendor is in capitals.",
        "Write dates in words.",
    )


def test_a_skill_can_contradict_itself() -> None:
    said = stances(SKILL)
    assert said["date"] == {"for", "against"}
    assert said["vendor"] == {"for"}
    assert said["quarter"] == frozenset()


def test_the_line_that_misleads_is_found_whole() -> None:
    assert conflicting_line(SKILL, "date") == "* Write dates in words."
    assert conflicting_line(SKILL, "vendor") is None


def test_a_text_has_the_subject_it_takes_a_stance_on() -> None:
    assert subject(f"- {HOUSES_BY_NAME['refund'].harmful}") == ("refund", "against")
    assert subject(f"- {HOUSES_BY_NAME['tax'].rules[1]}") == ("tax", "for")
    assert subject("Be nice.") is None


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert stances(text).keys() == HOUSES_BY_NAME.keys()
