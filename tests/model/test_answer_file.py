import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt_ci.errors import UsageError
from skillopt_ci.model.cache import UNCLAIMED, CachedCall, CallCache, export_answers, import_answers
from skillopt_ci.model.types import ChatReply, ModelRefusal, Usage

KEYS = ("a" * 64, "b" * 64, "c" * 64)
REPLY = ChatReply("one\u2028two\nthree", "stop", "m", Usage(1, 10, 5, 2, 1, 0.1), trace="ran")


@pytest.fixture
def open_cache(tmp_path: Path) -> Iterator[Callable[[str], CallCache]]:
    opened: list[CallCache] = []

    def make(name: str) -> CallCache:
        opened.append(CallCache(tmp_path / f"{name}.sqlite"))
        return opened[-1]

    yield make
    for cache in opened:
        cache.close()


@pytest.fixture
def here(open_cache: Any) -> CallCache:
    return open_cache("here")


@pytest.fixture
def there(open_cache: Any) -> CallCache:
    return open_cache("there")


def hand_over(here: CallCache, there: CallCache, file: Path, *keys: str) -> int:
    assert export_answers(here, keys, file) == import_answers(there, [file], there.take)
    file.write_bytes(file.read_bytes() * 2)  # as if two shards' files had been put together
    return import_answers(there, [file], there.take)


def test_answers_arrive_as_they_were(here, there, tmp_path):
    here.put(KEYS[0], REPLY, paid_by=UNCLAIMED)
    here.put(KEYS[1], REPLY, paid_by="demo/1@abc")
    assert hand_over(here, there, tmp_path / "deep" / "answers.jsonl", *KEYS) == 4
    assert there.get(KEYS[0]) == CachedCall(REPLY, UNCLAIMED)
    assert there.get(KEYS[1]) == CachedCall(REPLY, "demo/1@abc")


def test_refusals_arrive_too(here, there, tmp_path):
    refusal = ModelRefusal("too long", hint="cut it", usage=Usage(calls=1, cost_usd=None))
    here.put(KEYS[0], refusal, paid_by=UNCLAIMED)
    hand_over(here, there, tmp_path / "answers.jsonl", KEYS[0])
    found = there.get(KEYS[0]).outcome
    assert (found.message, found.hint, found.usage) == ("too long", "cut it", refusal.usage)


def test_an_answer_that_is_there_stands(here, there, tmp_path):
    here.put(KEYS[0], REPLY, paid_by=UNCLAIMED)
    mine = ChatReply("mine", "stop", "m", Usage(calls=1))
    there.put(KEYS[0], mine, paid_by="me")
    hand_over(here, there, tmp_path / "answers.jsonl", KEYS[0])
    assert there.get(KEYS[0]) == CachedCall(mine, "me")


def test_only_the_asked_keys_are_exported(here, tmp_path):
    for key in KEYS:
        here.put(key, REPLY, paid_by=UNCLAIMED)
    file = tmp_path / "answers.jsonl"
    assert export_answers(here, [KEYS[2], KEYS[0], KEYS[2]], file) == 2
    lines = file.read_text(encoding="utf-8").split("\n")
    assert [json.loads(line).get("key") for line in lines if line] == [None, KEYS[2], KEYS[0]]


def test_half_a_character_is_left_out(here, tmp_path):
    here.put(KEYS[0], ChatReply("\ud83d", "stop", "m", Usage(calls=1)), paid_by=UNCLAIMED)
    assert export_answers(here, KEYS, tmp_path / "answers.jsonl") == 0


@settings(max_examples=15)  # each makes two files
@given(text=st.text(), trace=st.text(), cost=st.none() | st.floats(0, 1e6))
def test_any_answer_survives(tmp_path_factory, text, trace, cost):
    folder = tmp_path_factory.mktemp("answers")
    reply = ChatReply(text, "stop", "m", Usage(calls=1, cost_usd=cost), trace)
    with (
        closing(CallCache(folder / "here.sqlite")) as here,
        closing(CallCache(folder / "there.sqlite")) as there,
    ):
        here.put(KEYS[0], reply, paid_by=UNCLAIMED)
        hand_over(here, there, folder / "answers.jsonl", KEYS[0])
        assert there.get(KEYS[0]) == CachedCall(reply, UNCLAIMED)


GOOD: dict[str, Any] = {
    "key": KEYS[0],
    "paid_by": "",
    "usage": {
        "calls": 1,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "cached_tokens": 0,
        "reasoning_tokens": 0,
        "cost_usd": 0.0,
        "estimated": False,
    },
    "reply": {"text": "yes", "finish_reason": "stop", "model": "m", "trace": ""},
}


@pytest.mark.parametrize(
    "change",
    [
        {"key": "../../etc/passwd"},
        {"key": 7},
        {"usage": {**GOOD["usage"], "calls": -1}},
        {"usage": {**GOOD["usage"], "cost_usd": float("nan")}},
        {"usage": {**GOOD["usage"], "cost_usd": -1.0}},
        {"reply": "yes"},
        {"reply": {"text": "yes"}},
        {"more": 1},
    ],
)
def test_nothing_is_taken_of_a_file_with_a_wrong_line(there, tmp_path, change):
    header = {"format": "skillopt-ci answers", "version": 1}
    lines = [header, GOOD, {**GOOD, "key": KEYS[1], **change}]
    file = tmp_path / "answers.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    with pytest.raises(UsageError, match=r":3: not a rollout answer: \D") as caught:
        import_answers(there, [file], there.take)
    assert "Leave this file out" in caught.value.hint
    assert there.get(KEYS[0]) is None


@pytest.mark.parametrize("content", ["", "{}x", '{"format": "other", "version": 1}', "[]", "\n\n"])
def test_what_is_no_file_of_answers_is_refused_and_a_missing_file_named(there, tmp_path, content):
    (tmp_path / "answers.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=r"answers\.jsonl:1"):
        import_answers(there, [tmp_path / "answers.jsonl"], there.take)
    with pytest.raises(UsageError, match=r"gone\.jsonl"):
        import_answers(there, [tmp_path / "gone.jsonl"], there.take)
