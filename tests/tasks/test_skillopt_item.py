import pytest

from skillopt_ci.tasks.records import from_skillopt


def test_search_qa_item_becomes_prompt_and_references():
    item = {"id": 1, "question": "Who?", "context": "[DOC] text", "answers": ["a", "b"], "k": "v"}
    assert from_skillopt(item) == {
        "id": 1,
        "prompt": "## Context\n[DOC] text\n\n## Question\nWho?",
        "references": ["a", "b"],
        "metadata": {"k": "v"},
    }


@pytest.mark.parametrize("key", ["references", "reference", "answers", "answer"])
def test_references_have_many_names(key: str):
    assert from_skillopt({"question": "q", key: "x"})["references"] == "x"


def test_context_keeps_the_leading_documents_that_fit():
    context = "[DOC] " + "a" * 3000 + "[DOC] " + "b" * 2000 + "[DOC] " + "c" * 2000
    prompt = str(from_skillopt({"question": "q", "context": context})["prompt"])
    assert "b" * 2000 in prompt
    assert "c" not in prompt.partition("## Question")[0].removeprefix("## Context")


def test_document_that_ends_exactly_at_the_limit_is_kept():
    first = "[DOC]" + "a" * 5995
    prompt = str(from_skillopt({"question": "q", "context": first + "[DOC] b"})["prompt"])
    assert prompt == f"## Context\n{first}\n\n## Question\nq"


def test_first_document_too_long_is_cut_visibly():
    prompt = str(from_skillopt({"question": "q", "context": "[DOC]" + "a" * 7000})["prompt"])
    assert "a" * 5995 + "...[truncated]\n" in prompt


@pytest.mark.parametrize(
    "choices",
    [["x", "y"], {"A": "x", "B": "y"}, [{"label": "A", "text": "x"}, {"label": "B", "text": "y"}]],
)
def test_choices_are_shown_and_kept_for_the_scorer(choices: object):
    item = {"question": "q", "choices": choices, "correct_choice": {"label": "B", "text": "y"}}
    entry = from_skillopt(item)
    assert entry["prompt"] == "## Question\nq\n\n## Choices\nA. x\nB. y"
    assert entry["references"] == "B"
    assert entry["metadata"] == {"choices": {"A": "x", "B": "y"}}


@pytest.mark.parametrize(
    "value", [{"question": "q", "prompt": "p"}, {"prompt": "p"}, {"question": 1}]
)
def test_own_records_are_left_alone(value: dict[str, object]):
    assert from_skillopt(value) == value
