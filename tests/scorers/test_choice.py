import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.scorers import ChoiceScorer
from skillopt_ci.messages import Message
from skillopt_ci.scorers.choice import check_choice_references, grade_choice, parse_choice
from skillopt_ci.tasks.task import Task

CHOICES = {"A": "Paris", "B": "New York", "C": "None of these"}


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        *((one, "B") for one in ("B", " b. ", "(B)", "**B**", "B):", "new  york", "B. New York")),
        *((one, "B") for one in ("**B!**", "(B)!", "**B**!", "B! A is no state", "Option B!")),
        *((f"{one}\nB\n{one[:3]}", "B") for one in ("$$", "```", "```text", "~~~")),
        *((one, "B") for one in ("New York!", "```\nB) New York\n```", "B) not A, as C says")),
        *(("**B**, as A and C are wrong", "B"), ("B is not only right. A city is no state", "B")),
        ("B) New York\n\nA) Paris is no state.\nC) None of these fits New York.", "B"),
        *((f"{one}\n\nNot:\nA) Paris\nC) None of these", "B") for one in ("B) New York", "**B**")),
        ("**B**\n\nA) Paris\nB) New York\nC) None of these", "B"),
        *((f"Option {one}", "B") for one in ("B: New York", "B) New York", "(B)", "B is correct")),
        *((one, "B") for one in (r"\(B\)", r"\boxed{\textbf{(B)}\ New York}", "\ufeffB")),
        *(("A", "A"), ("\u200bNew York", "B")),
        *((f"B is {x}", "B") for x in ("not one of these", "the false one", "almost certain")),
        *(("Boston", "BOSTON"), ("B because it is big", "B"), ("B, and I know", "B")),
    ],
)
def test_label_is_read_from_the_answer(grade, answer, label):
    score = grade("choice", answer, "B", choices=CHOICES)
    assert (score.hard, label in score.reason) == (label == "B", True)


@pytest.mark.parametrize(
    "answer",
    [
        *("A good reason makes it C", "A city like Rome", "A close call between B and C"),
        *(r"\boxed{ A, but C is better}", "A, C because both are cities", "A - C", "A, no: C"),
        *("A) Paris\nB) New York\n\nI think that it is the second.", "Option A is not correct"),
        *("A, or New York", "(A) or (B)", "A and B fit", "A) New York", "**A** (New York)"),
        *(f"A {one}" for one in ("is not correct", "isn't right", "can be ruled out", "is wrong")),
        *(r"\(A\) but a better one is \(B\)", "Option A is correct?", "Option (A)?", "A! No, B!"),
        *("```\nA\n```\n\nNo, wait:\n\n```\nB\n```", "$$\nA\n$$ or B", r"\(-A\)"),
    ],
)
def test_a_sentence_that_begins_with_a_or_names_other_labels_does_not_choose_a(grade, answer):
    assert grade("choice", answer, "A", choices=CHOICES).hard == 0


NAMED = st.sampled_from(["Option {}", "**Option ({})**", r"\({}\)", r"\[ \boxed{{{}}} \]"])
BETWEEN = st.sampled_from([" or ", ", ", " is correct, ", " but a better one is "])


@given(NAMED, BETWEEN, NAMED, st.sampled_from(["", "Answer: ", "Answer:\n", "答案"]), st.booleans())
def test_an_answer_that_names_two_options_chooses_none(first, between, second, before, texts):
    one, other = (f"{key}: {CHOICES[key]}" if texts else key for key in "AB")
    answer = f"{before}{first.format(one)}{between}{second.format(other)}"
    assert parse_choice(answer, CHOICES) not in CHOICES


@pytest.mark.parametrize("reference", ["A, C", "A and C", "A C", "A | C", "A, E"])
def test_several_labels_are_all_asked_for_or_refused(reference):
    task = Task("t", (Message("user", "Which?"),), references=(reference,))
    spec = ChoiceScorer(type="choice", choices=CHOICES)
    if check_choice_references(spec, task) is None:
        assert grade_choice(spec, task, "A").hard == 0
        assert grade_choice(spec, task, "A, C").hard == 1


@pytest.mark.parametrize(
    ("response", "label"),
    [
        *((f"Answer: {one}", "B") for one in ("B", "$B$", "New York.", "new york", "B, it is big")),
        *((one, "B") for one in ("I weighed all.\n\n**Answer:** (B)", "**Final answer: B**")),
        *((one, "B") for one in ("The answer:\nanswer: b", "A is tempting.\nAnswer: B")),
        *(("Answer: A\nNo, wait.\nAnswer: B", "B"), ("Answer: B\nNo, wait.\nAnswer: A", "A")),
        *(
            (f"The {one} is **(B)**.", "B")
            for one in ("correct option", "correct answer", "best option", "right choice")
        ),
        *(("The answer is B, not A.", "B"), ("The answer is a guess: B", "?")),
        *((f"{one} B is the correct answer.", "B") for one in ("It fits.\nThus,", "A? No. So")),
        *((f"Therefore, {one}.", "B") for one in ("**B** is right", "option B is correct")),
        *((f"A is tempting.\n\n{one}", "B") for one in ("**B**", "B) New York", r"\[\boxed{B}\]")),
        *(("The answer is New York (B).", "B"), ("A is wrong; the answer is B", "B")),
        *(("My answer is B.", "B"), ("✅ **Answer: B**", "B"), ('{\n"answer": "B"\n}', "B")),
        *(("La respuesta correcta es la B.", "B"), ("因此选B。", "B"), ("정답은 B입니다.", "B")),
        *((f"{one} B is the correct answer.", "?") for one in ("A or", "If", "I doubt that", "Is")),
        *((f"B is the correct answer{one}", "?") for one in ("? No.", " if it rains; else A.")),
        *(("A is correct.\nB is correct.", "?"), ("A) Paris\n\nB) New York", "?")),
        *((one, "B") for one in ("Antwort: B", "答案是：B。", "答えはBです。", "故选B。", "'B'")),
        *((f"{one} (B).", "B") for one in ("La respuesta es", "So the answer is", "Réponse :")),
        *(("B, 或者A", "?"), ("Ответ: B", "B"), ("The correct answer is Option B: it is big", "B")),
        ("Final Answer: The final answer is (B). I hope it is correct.", "B"),
        *((r"\boxed{B}", "B"), (r"The answer is $\boxed{\text{B}}$.", "B"), ("# Answer\n\nB", "B")),
        *((f"{x} b", "B") for x in ("Answer\nSo the answer is", "Answer: The correct choice is")),
        *((f"Answer: The {one} option is b", "B") for one in ("best", "right")),
        *(("Answer: E", "E"), ("My answer would be B", "MY")),
    ],
)
def test_the_last_declared_answer_is_the_one(grade, response, label):
    assert grade("choice", response, "B", choices=CHOICES).hard == (label == "B")


def test_a_long_line_is_read_in_time(grade):
    begin = time.process_time()
    assert grade("choice", "_" * 50_000 + "\n答案" + "*" * 50_000, "A", choices=CHOICES).hard == 0
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("choices", [CHOICES, list(CHOICES.values())])
def test_choices_may_come_from_the_task(grade, make_task, choices):
    task = make_task("C", metadata={"choices": choices})
    assert grade("choice", "none of these", task=task).hard == 1


@pytest.mark.parametrize(
    ("keys", "response", "references", "hard"),
    [
        ({}, "It is clear.\n**Answer:** (d)", ["D"], 1),
        *(({}, "It is clear.\nAnswer: E", ["D"], 0), ({}, "d)", ["D"], 1)),
        *(({}, f"{one} (D) New York.", ["(D)"], 1) for one in ("The answer is", "Answer:", "")),
        *(({}, one, ["D"], 0) for one in ("(D) or (B)", "D is not correct.", "D flat")),
        *(({}, f"{one}, (D) is the correct answer.", ["D"], 1) for one in ("A: Thus", "B) No. So")),
        *(({}, one, ["A"], 0) for one in ("A: New York", "(A) No.\n(B) Yes.", "A: So (D) fits.")),
        *(({}, "I think so.", [one], 0) for one in ("I", "yes")),
        ({"choices": CHOICES}, "Answer: Option A", ["Ａ"], 1),
        *(({"choices": CHOICES}, f"A{one}", ["paris"], 1) for one in ("", "\n\nI know.")),
        ({"choices": {"A": "5", "B": "5!"}}, "**5!**", ["B"], 1),
        ({"choices": {"A": "ឡុង\u200bដ៍"}}, "ឡុង\u200bដ៍", ["ឡុង\u200bដ៍"], 1),
        ({"choices": {"A": "3", "B": "4", "C": "C"}}, "Answer: **B)** 4.", ["B"], 1),
        *(({"choices": {"で": "", "です": ""}}, one, [one], 1) for one in ("で", "です")),
        ({"choices": {"yes": "", "no": ""}}, "", ["yes"], 0),
        ({"choices": {"A": "I hope it is correct"}}, "* I hope it is correct", ["A"], 1),
    ],
)
def test_an_answer_chooses_a_reference(grade, keys, response, references, hard):
    assert grade("choice", response, *references, **keys).hard == hard
