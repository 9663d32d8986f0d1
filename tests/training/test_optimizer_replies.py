"""What an optimizer's reply may do: nothing but what it says, and nothing silently."""

import json
import time

import pytest
from command_line import in_process, overrides

from skillopt_ci.skill.edits import Edit, apply_edits
from skillopt_ci.training.replies import EDITS, WireError, extract_json, parse_analyst

DRAFT = '{"op": "append", "content": "draft"}'
HALF = '{"op": "append", "content": "Always'
FINAL = '{"edits": [{"op": "append", "content": "final"}]}'
NONE = '{"edits": []}'
WORDS = "I am not sure what to say."


def test_a_run_ends_when_no_reply_of_the_optimizer_can_be_used(checkout, model_server):
    model_server.let_optimizer(lambda *_: WORDS)
    once = overrides("train.num_epochs=1", "evaluation.eval_test=false")
    done = in_process(checkout.folder, "run", *once)
    assert done.returncode == 5, done.stdout
    assert WORDS in done.stderr


def test_steps_end_like_that_one_by_one_as_well_and_show_what_was_said(checkout, model_server):
    model_server.let_optimizer(lambda *_: WORDS)
    assert [in_process(checkout.folder, "step").returncode for _ in range(3)] == [0, 5, 5]
    told = [f"Step {number}: no reply of the optimizer could be used" for number in (3, 2, 1)]
    assert checkout.git("log", "--format=%s", "-3", "skillopt/demo").splitlines() == told
    assert "repl" in in_process(checkout.folder, "log").stdout
    message = checkout.git("log", "-1", "--format=%B", "skillopt/demo")
    for shown in (message, in_process(checkout.folder, "show", "1").stdout):
        assert WORDS in " ".join(shown.split())


@pytest.mark.parametrize(
    ("setting", "asked"),
    [
        ("optimizer.skill_update_mode=rewrite_from_suggestions", "Suggestions to carry out"),
        ("optimizer.lr_scheduler=autonomous", "Proposed items"),
    ],
)
def test_a_run_ends_when_no_later_reply_is_usable(checkout, model_server, setting, asked):
    proposed = {"edits": [{"op": "append", "content": "x"}]}
    proposed["revise_suggestions"] = [{"instruction": "Do x."}]

    def half_words(system: str, prompt: str) -> str:
        again = prompt.startswith("Your reply could not be used")
        return WORDS if again or asked in prompt else json.dumps({"patch": proposed})

    model_server.let_optimizer(half_words)
    done = in_process(checkout.folder, "run", *overrides(setting, "evaluation.eval_test=false"))
    assert done.returncode == 5, done.stdout
    assert WORDS in done.stderr
    assert done.stderr.count(" of 4, epoch ") == 3
    assert WORDS in " ".join(checkout.git("log", "-1", "--format=%B", "skillopt/demo").split())


def test_one_usable_reply_is_enough(checkout, model_server):
    asked: list[str] = []

    def mostly_words(system: str, prompt: str) -> str:
        asked.append(prompt)
        again = prompt.startswith("Your reply could not be used")
        return WORDS if again or prompt == asked[0] else '{"patch": {"edits": []}}'

    model_server.let_optimizer(mostly_words)
    done = in_process(checkout.folder, "run", *overrides("evaluation.eval_test=false"))
    assert done.returncode == 0, done.stderr
    subject = checkout.git("log", "--reverse", "--format=%s", "skillopt/demo").splitlines()[2]
    assert subject == "Step 1: no edit was proposed; 1 of 2 replies could not be used"


@pytest.mark.parametrize(
    ("reply", "last"),
    [
        (f'```json\n{{"edits": [{HALF}\n```\nCut off. Again:\n```json\n{NONE}\n```', NONE),
        (f'```json\n{{"edits": [{DRAFT},\n```\nAgain:\n```json\n{FINAL}\n```', FINAL),
        (f'{{"edits": [{DRAFT},\nNo, rather:\n{FINAL}', FINAL),
        ('```json\n{"a":\n```\n{"b": 1}', '{"b": 1}'),
        ('{"a":\n{"b": 1}\nThat is all.', '{"b": 1}'),
    ],
    ids=["string in a fence", "array in a fence", "array", "value in a fence", "value"],
)
def test_of_a_cut_off_draft_and_an_object_the_object_counts(reply, last):
    assert extract_json(reply) == json.loads(last)


@pytest.mark.parametrize("between", ["\n", "\nNo, rather:\n", '\n\nHere is "the" final one:\n'])
@pytest.mark.parametrize("indent", [None, 2])
def test_wherever_a_draft_is_cut_off_the_object_after_it_counts(indent, between):
    said = ['say "hi", then {go}', "line\nbreak [x]"]
    edits = [{"op": "append", "content": text} for text in said]
    draft = json.dumps({"patch": {"reasoning": "a, b: c", "edits": edits}}, indent=indent)
    final = {"patch": {"reasoning": 'so "it" is', "edits": edits[:1]}}
    answer = json.dumps(final, indent=indent)
    for cut in range(1, len(draft)):
        for opening, end in (("", ""), ("```json\n", ""), ("```json\n", "\n```")):
            for last in (answer, f"```json\n{answer}\n```", f"{answer}\nI hope this helps."):
                text = f"{opening}{draft[:cut]}{end}{between}{last}"
                assert extract_json(text) == final, text


@pytest.mark.parametrize("end", ["}", "}\n```"], ids=["plain", "in a fence"])
def test_a_text_without_its_end_becomes_no_edit(end):
    opening = "```json\n" if "```" in end else ""
    try:
        found = extract_json(f'{opening}{{"edits": [{HALF} name {{the vendor{end}')
    except WireError:
        return
    assert "Always" not in str(found)


@pytest.mark.parametrize("target", ["\nbe\n", " be ", "be\n", "\tbe"])
@pytest.mark.parametrize("op", ["delete", "replace", "insert_after"])
def test_a_target_that_stands_alone_is_not_found_inside_a_word(op, target):
    changed, (report,) = apply_edits("Alphabeta\n", [Edit(op=op, target=target, content="new")])
    assert not (report.status.applied and changed.startswith(("Alphata", "Alphanewta")))
    assert "Alphabeta" in changed
    assert str(report.status) != "applied_insert_after"


@pytest.mark.parametrize(
    ("text", "target"),
    [("don't", " t "), ("12.50", " 50"), ("cafe\u0301s", "cafe "), ("12.50", "12 ")],
)
def test_accents_apostrophes_and_decimals_belong_to_words(text, target):
    changed, _ = apply_edits(text, [Edit(op="delete", target=target)])
    assert changed == text


@pytest.mark.parametrize("gap", ["", " ", "\n"])
def test_a_value_that_is_missing_is_not_made_up(gap):
    with pytest.raises(WireError):
        extract_json(f'{{"edits": [{{"op": "replace", "target": "t", "content":{gap}}}]}}')


@pytest.mark.parametrize("target", ["be ", "\tbe", "Al ", "\tAl"])
def test_a_target_with_other_space_around_it_is_not_found_in_a_part_of_a_word(target):
    text = "Alphabe\nBetabe\n"
    changed, (report,) = apply_edits(text, [Edit(op="delete", target=target)])
    assert (changed, report.status.applied) == (text, False)


def test_a_line_that_stands_alone_is_found_though_a_word_holds_it():
    changed, _ = apply_edits("Alphabeta\n\n  be\nGamma\n", [Edit(op="delete", target="\nbe\n")])
    assert "Alphabeta" in changed


def test_many_fences_are_read_in_linear_time():
    text = "```\n" * 6_000 + '{"a": 1}\n' * 3_000
    began = time.process_time()
    assert extract_json(text) == {"a": 1}
    # Fifty times what one pass takes, a fifth of what the square does.
    assert time.process_time() - began < 0.2


def test_a_reply_holds_a_limited_number_of_edits():
    edits = [{"op": "append", "content": f"- rule {number}"} for number in range(20_000)]
    text = json.dumps({"patch": {"reasoning": "", "edits": edits}})
    try:
        kept = len(parse_analyst(EDITS, text, "failure", 8).patch.edits)
    except WireError:
        kept = 0
    assert kept <= 1_000
