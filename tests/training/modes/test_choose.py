import pytest

from skillopt_ci.config.config import Optimizer
from skillopt_ci.prompts.library import NAMES
from skillopt_ci.training.ask import MAX_OUTPUT_TOKENS
from skillopt_ci.training.modes import update_mode

MODES = ["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"]
STAGES = ["analyst_error", "analyst_success", "merge_failure", "merge_success", "merge_final"]


def chosen(name: str, **more: object) -> Optimizer:
    return Optimizer.model_validate({"skill_update_mode": name, **more})


@pytest.mark.parametrize("name", MODES)
def test_the_configured_mode_is_chosen(name: str) -> None:
    assert update_mode(chosen(name)).name == name


@pytest.mark.parametrize("name", MODES)
def test_every_stage_of_a_mode_has_a_prompt(name: str) -> None:
    suffix = update_mode(chosen(name)).prompt_suffix
    assert {f"{stage}{suffix}" for stage in STAGES} <= set(NAMES)


def test_whole_documents_may_be_as_long_as_configured() -> None:
    full = update_mode(chosen("full_rewrite_minibatch", rewrite_max_completion_tokens=9_000))
    assert full.reply_tokens == 9_000
    rewriting = update_mode(chosen("rewrite_from_suggestions", rewrite_max_completion_tokens=9_000))
    assert rewriting.reply_tokens == MAX_OUTPUT_TOKENS
