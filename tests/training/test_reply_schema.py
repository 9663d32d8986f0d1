"""The schemas against the prompts that ask for the same, and against what reads the replies."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from update_modes import FULL_REWRITE, PATCH, REWRITE

from skillopt_ci.errors import BudgetExhausted, ModelSetupError
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable, ReplySchema
from skillopt_ci.progress import Note, Observer
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.training import replies
from skillopt_ci.training.ask import Lost, OptimizerChat
from skillopt_ci.training.replies import WireError, parse_analyst, parse_merge, parse_ranking
from skillopt_ci.training.update import UpdateMode

PROMPTS = Prompts.load()
MODES: list[UpdateMode[Any]] = [PATCH, REWRITE, FULL_REWRITE]


def example(*prompts: str) -> Any:
    """The reply that prompts show, with the first of several words where they offer a choice."""
    found: dict[str, object] = {}
    for prompt in prompts:
        block = re.search(r"```json\n(.*?)```", PROMPTS.texts[prompt], re.DOTALL)
        found |= json.loads(re.sub(r'"([^" |]+) \|[^"]*"', r'"\1"', block[1]))
    return found


def cases() -> Iterator[tuple[str, ReplySchema, Any]]:
    for mode in MODES:
        payload, end = mode.payload, mode.prompt_suffix
        for source, name in (("failure", "analyst_error"), ("success", "analyst_success")):
            for notes in (False, True):
                schema = replies.analyst(payload, source, notes=notes, wishes=False)
                more = [f"{name}_skill_aware"] if notes else []
                yield f"{name}{end}-{notes}", schema, example(name + end, *more)
        for name in ("merge_failure", "merge_success"):
            schema = replies.merge(payload, final=False, wishes=False)
            yield f"{name}{end}", schema, example(name + end)
        schema = replies.merge(payload, final=True, wishes=False)
        yield f"merge_final{end}", schema, example(f"merge_final{end}")
    yield "ranking", replies.RANKING, example("ranking")
    yield "ranking_rewrite", replies.RANKING, example("ranking_rewrite")
    yield "lr_autonomous", replies.LEARNING_RATE, example("lr_autonomous")
    yield "rewrite", replies.REWRITE, example("rewrite")
    yield "appendix", replies.REMINDERS, example("appendix_consolidate")
    for stage in ("slow_update", "meta_skill"):
        yield stage, replies.WRITTEN[stage], example(stage)


CASES = list(cases())
by_case = pytest.mark.parametrize(
    ("schema", "reply"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)


@by_case
def test_what_the_prompt_asks_for_fits(schema, reply):
    validator = Draft202012Validator(dict(schema.schema))
    assert [*validator.iter_errors(reply)] == []
    first = next(iter(reply))
    for other in ({**reply, "more": 1}, {key: reply[key] for key in reply if key != first}):
        with pytest.raises(ValidationError):
            validator.validate(other)


def parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    for inner in schema.get("properties", {}).values():
        yield from parts(inner)
    if "items" in schema:
        yield from parts(schema["items"])


@by_case
def test_the_form_is_the_strict_one(schema, reply):
    assert re.fullmatch(r"[a-z_]{1,64}", schema.name)
    Draft202012Validator.check_schema(dict(schema.schema))
    for part in parts(schema.schema):
        assert isinstance(part["type"], str)
        if part["type"] == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])
            assert "reasoning" not in part["required"][1:]  # it comes before what follows from it


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_a_reply_that_fits_is_read(mode):
    key, analysis = mode.payload.key, example(f"analyst_error{mode.prompt_suffix}")
    analysis["patch"][key][0]["note_ids"] = ["review-1"]
    schema = replies.analyst(mode.payload, "failure", notes=False, wishes=True)
    Draft202012Validator(dict(schema.schema)).validate(analysis)
    read = parse_analyst(mode.payload, json.dumps(analysis), "failure", 8)
    assert (len(read.patch.edits), read.patch.edits[0].note_ids) == (1, ("review-1",))

    merged = example(f"merge_final{mode.prompt_suffix}")
    assert len(parse_merge(mode.payload, json.dumps(merged)).edits) == 1


def test_a_choice_that_fits_is_read():
    assert parse_ranking(json.dumps(example("ranking")), 9, 9)[0] == (4, 0)


def number(text: str) -> int:
    if not text.strip().isdigit():
        raise WireError("Expected a number.")
    return int(text)


@pytest.fixture
def asked(prompts: Prompts, observer: Observer) -> Callable[..., int | Lost]:
    def run(client: Any, **more: Any) -> int | Lost:
        chat = OptimizerChat(client, prompts, observer)
        return asyncio.run(chat.ask("minibatch 1/2", "how many?", number, prompt="ranking", **more))

    return run


def test_a_good_reply_is_parsed(scripted, asked, prompts):
    client = scripted(lambda request: "7")
    assert asked(client) == 7
    (request,) = client.requests
    assert (request.stage, request.max_output_tokens) == ("ranking", 16_384)
    system = Message("system", prompts.texts["ranking"])
    assert request.messages == (system, Message("user", "how many?"))


def test_a_bad_reply_gets_one_retry_that_shows_it(scripted, asked, events):
    client = scripted(lambda request: "8" if len(request.messages) > 2 else "eight")
    assert asked(client) == 8
    shown = client.requests[1].messages
    assert (shown[:2], shown[2]) == (client.requests[0].messages, Message("assistant", "eight"))
    assert "Expected a number." in shown[3].content
    assert events == []


def test_a_second_bad_reply_is_lost_with_a_note(scripted, asked, events):
    client = scripted(lambda request: "none")
    assert asked(client).reply == client.requests[1].messages[2].content
    assert len(client.requests) == 2
    assert events == [Note("minibatch 1/2: no usable answer. Expected a number.", level="warning")]


def test_an_empty_reply_is_shown_as_a_word(scripted, asked):
    client = scripted(lambda request: "")
    asked(client)
    assert client.requests[1].messages[2].content == "(empty reply)"


@pytest.mark.parametrize("error", [ModelRefusal("filtered"), ModelUnavailable("down")])
def test_a_refusal_or_an_outage_is_lost_with_a_note(error, scripted, asked, events):
    assert asked(scripted(lambda request: error)) == Lost(error)
    assert len(events) == 1


@pytest.mark.parametrize("error", [ModelSetupError("no key"), BudgetExhausted("calls")])
def test_what_no_other_question_can_survive_is_raised(error, scripted, asked):
    with pytest.raises(type(error)):
        asked(scripted(lambda request: error))


def test_an_outage_is_raised_where_the_step_depends_on_the_answer(scripted, asked, events):
    with pytest.raises(ModelUnavailable):
        asked(scripted(lambda request: ModelUnavailable("down")), vital=True)
    assert len(events) == 1


@pytest.mark.parametrize(("first", "then"), [(16_384, 32_000), (64_000, 64_000)])
def test_a_reply_cut_off_is_told_so_and_gets_room(scripted, asked, events, first, then):
    client = scripted(lambda request: "{", finish_reason="length")
    asked(client, tokens=first)
    assert "It was cut off at the token limit. Expected a number." in events[0].text
    assert "cut off at the token limit" in client.requests[1].messages[-1].content
    # a reasoning model may have spent all of it before it answered; Claude Opus 4 takes no more
    assert [one.max_output_tokens for one in client.requests] == [first, then]
