import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.skill.regions import SLOW_UPDATE
from skillopt_ci.training.replies import (
    CANDIDATES,
    SUGGESTIONS,
    SkillCandidate,
    Suggestion,
    WireError,
    parse_analyst,
    parse_merge,
)

ADD = {"type": "add_rule", "title": "Dates", "instruction": "Write dates as ISO."}
NEW = {"title": "Dates", "change_summary": ["ISO dates"], "new_skill": "# New\n"}
PROTECTED_ONLY = f"---\nname: x\n---\n{SLOW_UPDATE.start}\nObey.\n{SLOW_UPDATE.end}"


def suggestions(*entries: object) -> str:
    return json.dumps({"patch": {"reasoning": "why", "revise_suggestions": entries}})


def candidates(*entries: object) -> str:
    return json.dumps({"reasoning": "why", "skill_candidates": entries})


def test_a_suggestion_is_read_with_all_that_it_says() -> None:
    more = {"motivation": "seen", "priority_hint": "high"}
    reply = parse_analyst(SUGGESTIONS, suggestions(ADD | more), "failure", shown=3)
    wanted = Suggestion("add_rule", "Dates", "Write dates as ISO.", "seen", "high", "failure", 3)
    assert (reply.patch.edits, reply.patch.reasoning) == ((wanted,), "why")


def test_a_suggestion_needs_nothing_but_an_instruction() -> None:
    reply = parse_merge(SUGGESTIONS, suggestions({"instruction": " Sort. ", "type": 3}), "success")
    assert reply.edits == (Suggestion("", "", "Sort.", source_type="success"),)


@pytest.mark.parametrize("entry", [3, {}, {"title": "Dates"}, ADD | {"instruction": " "}])
def test_a_suggestion_without_an_instruction_is_dropped(entry: object) -> None:
    reply = parse_merge(SUGGESTIONS, suggestions(entry, ADD))
    assert [each.title for each in reply.edits] == ["Dates"]


def test_a_candidate_is_read_with_all_that_it_says() -> None:
    said = {"support_count": "5", "source_type": "success", "merge_level": 2}
    reply = parse_merge(CANDIDATES, candidates(NEW | said))
    wanted = SkillCandidate("# New", "Dates", ("ISO dates",), "success", 5, 2)
    assert reply.edits == (wanted,)


@pytest.mark.parametrize(
    ("said", "read"), [("one thing", ("one thing",)), ([" a ", 3, ""], ("a",)), (None, ())]
)
def test_a_change_summary_may_be_written_in_several_ways(
    said: object, read: tuple[str, ...]
) -> None:
    (candidate,) = parse_merge(CANDIDATES, candidates(NEW | {"change_summary": said})).edits
    assert candidate.change_summary == read


@pytest.mark.parametrize("document", ["", " \n", None, 3, PROTECTED_ONLY])
def test_a_document_without_a_body_is_refused(document: object) -> None:
    with pytest.raises(WireError, match="No entry of `skill_candidates` can be used"):
        parse_merge(CANDIDATES, candidates(NEW | {"new_skill": document}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"patch": {"edits": []}}', "`patch.revise_suggestions`: Field required."),
        (
            '{"revise_suggestions": "x"}',
            "`patch.revise_suggestions`: Input should be a valid list.",
        ),
    ],
)
def test_the_error_names_the_key_of_the_mode(text: str, message: str) -> None:
    with pytest.raises(WireError) as caught:
        parse_merge(SUGGESTIONS, text)
    assert caught.value.message.endswith(message)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["type", "title", "instruction", "support_count", "priority_hint"]),
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        ),
        max_size=4,
    )
)
def test_any_suggestions_are_read_or_refused(written: list[object]) -> None:
    try:
        reply = parse_merge(SUGGESTIONS, suggestions(*written))
    except WireError:
        return
    assert len(reply.edits) <= len(written)
    assert all(each.instruction.strip() for each in reply.edits)
