import pytest

from skillopt_ci.demo.models import MODELS, complete, find_model, tokens
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import Message

ASKED = (Message("user", "Note: Paid 480 EUR to Oak Tower on 7 March 2026."),)


@pytest.mark.parametrize("model", MODELS)
def test_the_same_request_gets_the_same_reply(model: str) -> None:
    first = complete(model, ASKED, seed=1, attempt=0, limit=None)
    assert first == complete(model, ASKED, seed=1, attempt=0, limit=None)
    assert first.finish_reason == "stop"


def test_attempts_and_seeds_give_independent_samples() -> None:
    replies = {
        complete("simulated-target", ASKED, seed=seed, attempt=attempt, limit=None).text
        for seed in range(5)
        for attempt in range(5)
    }
    assert len(replies) > 1


def test_a_limit_cuts_the_reply_and_says_so() -> None:
    cut = complete("simulated-target", ASKED, seed=0, attempt=0, limit=3)
    assert (len(cut.text), cut.completion_tokens, cut.finish_reason) == (12, 3, "length")


def test_tokens_are_a_quarter_of_the_characters_rounded_up() -> None:
    assert [tokens("x" * length) for length in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_an_unknown_model_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ModelSetupError, match="Did you mean 'simulated-target'") as raised:
        find_model("simulated-tagret", where="model.target.model")
    assert raised.value.message.startswith("model.target.model: ")
