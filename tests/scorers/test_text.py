import json
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.scorers import ChoiceScorer
from skillopt_ci.messages import Message
from skillopt_ci.scorers.base import GraderError
from skillopt_ci.scorers.text import (
    anls,
    check_choice_references,
    find_numbers,
    grade_choice,
    normalized,
    parse_choice,
    same_json,
    token_f1,
)
from skillopt_ci.tasks.task import Task

CHOICES = {"A": "Paris", "B": "New York", "C": "None of these"}


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        *((one, "B") for one in ("B", " b. ", "(B)", "**B**", "B):", "new  york", "B. New York")),
        *((one, "B") for one in ("**B!**", "(B)!", "**B**!", "B! A is no state", "Option B!")),
        *((f"{one}\nB\n{one[:3]}", "B") for one in ("$$", "```", "```text", "~~~")),
        *((one, "B") for one in ("New York!", "```\nB) New York\n```", "B) not A, as C says")),
        *(("**B**, as A and C are wrong", "B"), ("B is bigger. A city is no state.", "B")),
        ("B) New York\n\nA) Paris is no state.\nC) None of these fits New York.", "B"),
        *((f"{one}\n\nNot:\nA) Paris\nC) None of these", "B") for one in ("B) New York", "**B**")),
        ("**B**\n\nA) Paris\nB) New York\nC) None of these", "B"),
        *((f"Option {one}", "B") for one in ("B: New York", "B) New York", "(B)", "B is correct")),
        *((one, "B") for one in (r"\(B\)", r"\[ \boxed{B} \]", "\ufeffB", "\u200bNew York")),
        *(("A", "A"), ("Boston", "BOSTON"), ("B because it is big", "B")),
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
        *((f"The correct {one} is **(B)**.", "B") for one in ("option", "answer")),
        *((one, "?") for one in ("The answer is B, not A.", "The answer is a guess: B")),
        *((one, "B") for one in ("Antwort: B", "答案是：B。", "答えはBです。", "故选B。", "'B'")),
        *((f"{one} (B).", "B") for one in ("La respuesta es", "So the answer is", "Réponse :")),
        *(("B, 或者A", "?"), ("Ответ: B", "B"), ("The correct answer is Option B: it is big", "B")),
        ("Final Answer: The final answer is (B). I hope it is correct.", "B"),
        *((r"\boxed{B}", "B"), (r"The answer is $\boxed{\text{B}}$.", "B"), ("# Answer\n\nB", "B")),
        *((f"{x} b", "B") for x in ("Answer\nSo the answer is", "Answer: The correct choice is")),
        *(("Answer: E", "E"), ("My answer would be B", "MY")),
    ],
)
def test_the_last_declared_answer_is_the_one(grade, response, label):
    assert grade("choice", response, "B", choices=CHOICES).hard == (label == "B")


@pytest.mark.parametrize("choices", [CHOICES, list(CHOICES.values())])
def test_choices_may_come_from_the_task(grade, make_task, choices):
    task = make_task("C", metadata={"choices": choices})
    assert grade("choice", "none of these", task=task).hard == 1


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}


@given(VALUES, VALUES)
def test_equality_is_symmetric_and_survives_a_round_trip(left, right):
    assert same_json(left, json.loads(json.dumps(left, sort_keys=True)))
    assert same_json(left, right) == same_json(right, left)


def test_schema_never_fetches_anything(grade):
    with pytest.raises(GraderError, match=r"refers to .*127\.0\.0\.1:1/schema.json"):
        grade("json", "{}", schema={"$ref": "http://127.0.0.1:1/schema.json"})


LONG = "a" * 80 + "!"
A_AND_B = {"patternProperties": {"^a": {}}, "properties": {"b": {}}}


@pytest.mark.parametrize(
    ("schema", "answer", "solved"),
    [
        ({"pattern": "^(a|aa)+$"}, LONG, False),
        ({"pattern": "^(?=a)(a|aa)+$"}, LONG, False),
        ({"patternProperties": {"^(a|aa)+$": {"type": "null"}}}, {LONG: 1}, True),
        ({"additionalProperties": False, "patternProperties": {"^(a|aa)+$": {}}}, {LONG: 1}, False),
        *(({"pattern": "^a"}, "ab", True), ({"pattern": "^a"}, "ba", False)),
        ({"pattern": "^a"}, 1, True),
        ({"patternProperties": {"^a": {"type": "null"}}}, {"ab": None, "b": 1}, True),
        ({"patternProperties": {"^a": {"type": "null"}}}, {"ab": 1}, False),
        (A_AND_B, {"ab": 1, "b": 1, "c": 1}, True),
        ({**A_AND_B, "additionalProperties": False}, {"ab": 1, "b": 1}, True),
        ({"patternProperties": {"^a": {}}, "additionalProperties": False}, {"c": 1}, False),
        ({"uniqueItems": True}, [1, True, [1], [True], "1", {"a": 1}, {"a": True}], True),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], False),
        ({"uniqueItems": True}, [[1], [1.0]], False),
        ({"uniqueItems": False}, [1, 1], True),
    ],
)
def test_a_schema_means_what_it_says_and_is_decided_in_time(grade, schema, answer, solved):
    begin = time.process_time()
    assert grade("json", json.dumps(answer), schema=schema).hard == solved
    assert time.process_time() - begin < 5


def test_many_items_and_a_long_line_are_read_in_time(grade):
    answer = json.dumps([{"a": number} for number in range(20_000)])
    begin = time.process_time()
    assert grade("json", answer, schema={"uniqueItems": True}).hard == 1
    assert grade("choice", "_" * 50_000 + "\n答案" + "*" * 50_000, "A", choices=CHOICES).hard == 0
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(("keys", "hard"), [({}, 1), ({"schema": {"items": {"$ref": "#"}}}, 0)])
def test_an_answer_may_be_nested_deeply_unless_there_is_a_schema(grade, keys, hard):
    answer = '[{"a": ' * 450 + "1" + "}]" * 450
    assert grade("json", answer, answer, **keys).hard == hard


@pytest.mark.parametrize("answer", ['{"a": "\\ud83d"}', '{"\\ud83d": 1}'])
def test_half_of_a_surrogate_pair_satisfies_no_schema(grade, answer):
    schema = {"properties": {"a": {"pattern": "."}}, "propertyNames": {"pattern": "."}}
    score = grade("json", answer, schema=schema)
    assert (score.hard, "half of a surrogate pair" in score.reason) == (0, True)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(10**15), 10**15))
def test_finite_floats_and_grouped_integers_are_read_back(value, whole):
    assert [number.value for number in find_numbers(f"it is {value!r}.")] == [value]
    assert [number.value for number in find_numbers(f"{whole:,}")] == [whole]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("−5, -5, $1,000.50 or 1,234.5", [-5, -5, 1000.5, 1234.5]),
        ("-$5, $-5, €7, USD 8, US$9", [-5, -5, 7, 8, 9]),
        ("2026/03/04, 10-12, 10–12, 12:30, 1.2.3, 1,234,5 and 5²", [float("nan")] * 7),
        ("1.234,5 and 1.234.567, 1 234,5, 0,75, 0,123", [1234.5, 1234567, 1234.5, 0.75, 0.123]),
        ("1.5 million, $3M, 2.5M or 5k, not 300K", [1.5e6, 3e6, 2.5e6, 5e3, 300]),
        (r"1 1/2 or 1\frac{1}{2}, and 5 × 10⁶", [1.5, 1.5, 5e6]),
        (r"1{,}234 or 1,\!234 or \boxed{1\,234}, -\$5 \text{ million}", [1234, 1234, 1234, -5e6]),
        (".5 or 3/4, 3 / 4, 1 3 / 4 or 1_000.", [0.5, 0.75, 0.75, 1.75, 1000]),
        (r"√2, 2\sqrt{3}, \sqrt[3]{8}, 2π, 3 \pi^2, 1_0", [float("nan"), 2, *[float("nan")] * 5]),
        (r"\sqrt{3}/2, \frac{\sqrt{2}}{2}, π/2, \frac{\pi}{2}, 5 π/3", [float("nan")] * 5),
        ("29 / 11 / 2024, 12:30 / 13:30", [float("nan")] * 3),
        ("10 / 1,000, 1 / 10^6, 3 / 4e2, 1/2,3/4", [10, 1000, 1, 1e6, 3, 400, 0.5, 0.75]),
        ("1\u202f234, 5\u202fmillion, 3\u00a0×\u00a010⁸, 12\u202f%", [1234, 5e6, 3e8, 12]),
        ("\u20115 or 2½ or ½, and ４２ or 3．5", [-5, 2.5, 0.5, 42, 3.5]),
        ("-½, −¾, 1 ½; 答案1：42, 共3，500, 3\u3000500", [-0.5, -0.75, 1.5, 1, 42, 3, 500, 3, 500]),
        ("٤٢ or ۱٬۲۳۴٫۵, −५ and ٥٠٪", [42, 1234.5, -5, 50]),
        ("minus 3 °C, negative $1,200.50, 10 minus 3 and aminus 5", [-3, -1200.5, 10, -3, 5]),
        (r"GPT-4, 答案是42, \boxed{42}, **42**, _42_ and __-3__.", [4, 42, 42, 42, 42, -3]),
        ("25 cm^2, 9.8 m/s^{2}, 3 s^-1, x^2 = 7, 10 x 10", [25, 9.8, 3, 7, 10, 10]),
        (r"1e3, 2E-2, 10^3, 3 × 10^8 m/s, 1.5\times10^{-3}", [1000, 0.02, 1000, 3e8, 0.0015]),
        (r"\frac12, \frac{-1}{2}, -\cfrac{1}{2} or \dfrac{3}{4}", [0.5, -0.5, -0.5, 0.75]),
        ("1,00,000 and 12,34,567.5", [100000, 1234567.5]),
        (r"20 ± 1 kg, 5 +/- 0.2, 7\pm 1, 3 ± 1/8 and 1.200,- €", [20, 5, 7, 3, 1200]),
        ("none, x_1, H$_2$O, (x)_3 and H2O, 10^999, 1e999 and 1/0", []),
        ("(_42_) a__1 __init__3 x__1__ \\log _2 x, _1 and _2 _2024_a.pdf", [42]),
        (r"\vec{v}_1 u_x, (x)_3 a_\pi, x _1 + y _{a} and $b$_2 c_ ", []),
    ],
)
def test_numbers_as_people_write_them(text, values):
    assert [str(number.value) for number in find_numbers(text)] == [str(float(v)) for v in values]


WORDS = st.text("aAbc the.,")


@given(WORDS, WORDS)
def test_f1_is_symmetric_and_between_0_and_1(left, right):
    assert token_f1(left, right) == token_f1(right, left)
    assert token_f1(left, left) == 1
    assert 0 <= token_f1(left, right) <= 1


@given(st.text())
def test_any_text_can_be_searched_and_its_normalisation_is_stable(text):
    assert all(isinstance(number.value, float) for number in find_numbers(text))
    once = normalized(text)
    assert normalized(once) == once or not once.strip()


@given(st.text(max_size=20), st.text(max_size=20), st.floats(0, 1))
def test_anls_is_symmetric_and_between_0_and_1(left, right, threshold):
    score = anls(left, right, threshold)
    assert (anls(right, left, threshold), anls(left, left, threshold)) == (score, 1)
    assert 0 <= score <= 1


ANLS = ("Hi  You", "hi you", 1), ("", "", 1), ("", "a", 0), ("abcd", "abxd", 0.75), ("ab", "ax", 0)
F1 = ("a big ox", "the ox", 2 / 3), ("", "", 1), ("", "ox", 0), ("ox", "", 0), ("cat", "ox", 0)


def test_anls_and_f1():
    assert [anls(left, right, 0.5) for left, right, _ in ANLS] == [score for *_, score in ANLS]
    found = [token_f1(answer, reference) for answer, reference, _ in F1]
    assert found == pytest.approx([score for *_, score in F1])


@pytest.mark.parametrize(
    ("kind", "keys", "response", "references", "hard"),
    [
        ("exact", {}, " a \n", ["b", "a"], 1),
        *(("exact", {}, "A", ["a"], 0), ("exact", {}, "", [""], 1)),
        *(("exact", {}, "a\nb", ["a\r\nb"], 1), ("exact", {}, "a\r\nb", ["a\r\nb"], 1)),
        ("contains", {}, "a\nb c", ["a\r\nb"], 1),
        ("normalized", {}, "The “Cat’s”! ‚「«x»」‘", ["cat's x"], 1),
        *(("normalized", {}, "cats", ["cat"], 0), ("normalized", {}, "", ["A"], 0)),
        *(("normalized", {}, "\ufeffca\u200bt", ["cat"], 1), ("json", {}, "\ufeff[1]", ["[1]"], 1)),
        *(("json", {}, '["\u200b"]', ['[""]'], 0), ("normalized", {}, "\ufeff+", ["+"], 1)),
        *(("normalized", {}, "a", ["A"], 1), ("normalized", {}, "A.", ["A"], 1)),
        *(("normalized", {}, "+", ["-"], 0), ("f1", {}, "the cat", ["Cat"], 1)),
        *(("anls", {}, "abc", ["xyz", "abc"], 1), ("anls", {}, "", ["abc"], 0)),
        ("anls", {"hard_at": 0.9}, "abcdefghiX", ["abcdefghij"], 1),
        ("choice", {}, "It is clear.\n**Answer:** (d)", ["D"], 1),
        *(("choice", {}, "It is clear.\nAnswer: E", ["D"], 0), ("choice", {}, "d)", ["D"], 1)),
        ("choice", {"choices": CHOICES}, "Answer: Option A", ["Ａ"], 1),
        *(("choice", {"choices": CHOICES}, f"A{one}", ["paris"], 1) for one in ("", "\n\nI know.")),
        ("choice", {"choices": {"A": "5", "B": "5!"}}, "**5!**", ["B"], 1),
        ("choice", {"choices": {"A": "ឡុង\u200bដ៍"}}, "ឡុង\u200bដ៍", ["ឡុង\u200bដ៍"], 1),
        ("choice", {"choices": {"A": "3", "B": "4", "C": "C"}}, "Answer: **B)** 4.", ["B"], 1),
        *(("choice", {"choices": {"で": "", "です": ""}}, one, [one], 1) for one in ("で", "です")),
        ("choice", {"choices": {"yes": "", "no": ""}}, "", ["yes"], 0),
        ("choice", {"choices": {"A": "I hope it is correct"}}, "* I hope it is correct", ["A"], 1),
        ("json", {}, '{"a": 1, "b": [2]}', ['{"b": [2], "a": 1}'], 1),
        *(("json", {}, "[1, 2]", ["[2, 1]"], 0), ("json", {}, "1.0", ["1"], 1)),
        *(("json", {}, "true", ["1"], 0), ("json", {}, '{"a": true}', ['{"a": 1}'], 0)),
        *(("json", {}, "", ["null"], 0), ("json", {}, "NaN", ["null"], 0)),
        ("json", {}, "[" * 100_000, ["[]"], 0),
        ("json", {}, '{"a": 1} and more', ['{"a": 1}'], 0),
        ("json", {"schema": SCHEMA}, '{"a": 1}', [], 1),
        *(("json", {"schema": SCHEMA}, one, [], 0) for one in ('{"a": "1"}', "{}")),
        *(("f1", {}, "", ["cat"], 0), ("contains", {}, "one two", ["one", "two"], 1)),
        *(("regex", {"pattern": r"^\d+$"}, one, [], int(one == "12")) for one in ("12", "a\n12")),
        ("regex", {"pattern": r"^\d+$", "multiline": True}, "a\n12", [], 1),
        ("regex", {"pattern": "abc"}, "ABC", [], 0),
        ("regex", {"pattern": "abc", "ignore_case": True}, "ABC", [], 1),
        ("regex", {"pattern": "sorry", "negate": True}, "here", [], 1),
        ("regex", {"pattern": "sorry", "negate": True}, "sorry", [], 0),
        ("regex", {"pattern": "sorry", "negate": True}, " ", [], 0),
        ("number", {}, "first 3, then 42 km", ["42"], 1),
        ("number", {}, "42, then 3", ["42"], 0),
        *(("number", {}, "12%", ["12%"], 1), ("number", {}, "12 %", ["0.12"], 1)),
        *(("number", {}, r"12\%", ["0.12"], 1), ("number", {}, "0.12", ["12%"], 1)),
        *(("number", {}, "1200%", ["12%"], 0), ("number", {}, "no number", ["42"], 0)),
        *(("number", {}, "10-42", ["42"], 0), ("number", {}, "", ["0"], 0)),
        *(("number", {}, "1,000", ["$1000.00"], 1), ("number", {}, "100.5", ["100"], 0)),
        ("number", {"abs_tol": 0.5}, "100.5", ["100"], 1),
        ("number", {"rel_tol": 0.01}, "100.5", ["100"], 1),
        ("number", {"abs_tol": 0.4}, "100.5", ["100"], 0),
    ],
)
def test_hard_score(grade, kind, keys, response, references, hard):
    assert grade(kind, response, *references, **keys).hard == hard


@pytest.mark.parametrize(
    ("keys", "response", "hard", "soft"),
    [
        *(({"contains": ["a", "b"]}, "ab", 1, 1), ({"contains": ["a", "b"]}, "ax", 0, 0.5)),
        ({"contains": ["a", "b"], "match": "any"}, "ax", 1, 1),
        ({"contains": ["a", "b"], "match": "any"}, "x", 0, 0),
        ({"contains": ["A"]}, "a", 0, 0),
        ({"contains": ["STRASSE"], "ignore_case": True}, "straße", 1, 1),
        *(({"not_contains": ["bad"]}, "good", 1, 1), ({"not_contains": ["bad"]}, "", 0, 0)),
        ({"contains": ["a"], "not_contains": ["x"]}, "ax", 0, 0.5),
        ({"contains": ["a", "b"], "match": "any", "not_contains": ["x"]}, "x", 0, 0),
    ],
)
def test_contains(grade, keys, response, hard, soft):
    score = grade("contains", response, **keys)
    assert (score.hard, score.soft) == (hard, soft)


@pytest.mark.parametrize(
    "kind", ["exact", "normalized", "f1", "anls", "contains", "choice", "json", "number", "regex"]
)
@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_an_accent_may_be_a_character_of_its_own(grade, kind, forms):
    text = {"json": '"Café"', "number": "3 Cafés"}.get(kind, "Café")
    answer, reference = (unicodedata.normalize(form, text) for form in forms)
    keys = {
        "choice": {"choices": {"A": reference, "B": "Bar"}},
        "contains": {"contains": [reference]},
        "regex": {"pattern": unicodedata.normalize(forms[1], "Caf[é-ü]")},
    }
    assert grade(kind, answer, reference, **keys.get(kind, {})).hard


FENCED = {"schema": SCHEMA, "answer": "fence"}
EITHER = "expected '1' (or 1 other), got '3'"


@pytest.mark.parametrize(
    ("kind", "keys", "response", "references", "reason"),
    [
        (
            "contains",
            {"contains": ["a", "b"], "not_contains": ["x"]},
            "x",
            [],
            "lacks 'a' and 'b'; contains the forbidden 'x'",
        ),
        ("regex", {"pattern": r"\d+", "negate": True}, "no 12", [], "'12' must not occur"),
        ("number", {}, "I think it is about 41%", ["42%"], "expected '42%', got '41%'"),
        ("number", {}, "on 12.03.2026", ["12"], "'on 12.03.2026' ends with an unclear number"),
        ("choice", {"choices": CHOICES}, "", ["B"], "expected choice 'B', got an empty answer"),
        ("json", FENCED, '```\n{"a": "1"}\n```', [], '$.a: "1" is not of type "integer"'),
        ("exact", {"answer": "tag"}, "<answer>3</answer>", ["1", "2"], EITHER),
    ],
)
def test_reason(grade, kind, keys, response, references, reason):
    score = grade(kind, response, *references, **keys)
    assert (score.hard, score.reason) == (0, reason)


def test_f1_and_anls_give_partial_credit(grade):
    score = grade("f1", "red cat", "dog", "blue cat")
    assert (score.hard, score.soft) == (0, 0.5)
    score = grade("anls", "abcdefghiX", "abcdefghij")
    assert (score.hard, score.soft, score.answer) == (0, 0.9, "abcdefghiX")
    assert score.reason == "expected 'abcdefghij', got 'abcdefghiX'; ANLS 0.90"


@pytest.mark.parametrize("draft", ["2019-09", "2020-12"])
def test_a_schema_s_unevaluated_properties_are_found_in_bounded_time(grade, draft):
    schema = {
        "$schema": f"https://json-schema.org/draft/{draft}/schema",
        "unevaluatedProperties": False,
        "patternProperties": {"^(a+)+$": {}, "x*": {}},
    }
    assert grade("json", '{"b": 1}', schema=schema).hard == 1  # by an empty match
    schema["patternProperties"] = {"^(a+)+$": {}}
    assert grade("json", '{"%s!": 1}' % ("a" * 50_000), schema=schema).hard == 0
