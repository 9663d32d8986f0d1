from collections.abc import Callable

import pytest

from skillopt_ci.config.loading import Loaded
from skillopt_ci.config.reference import config_sha256, influences

Load = Callable[..., Loaded]


def test_it_is_a_sha256_and_the_same_for_the_same_settings(load_with: Load) -> None:
    first, second = (config_sha256(load_with().config) for _ in range(2))
    assert first == second
    assert len(bytes.fromhex(first)) == 32


@pytest.mark.parametrize(
    "override",
    [
        "train.seed=1",
        "train.staleness=1",
        "model.target.model=other",
        "model.target.temperature=0.5",
        "model.judge={provider: simulated, model: m}",
        "optimizer.learning_rate=5",
        "scorer={type: f1}",
        "tasks.limit=3",
        "prompts=folder",
        "rollout.attempts=2",
        "rollout.limits.steps=5",
        "rollout.solver={type: scripted}",
    ],
)
def test_what_influences_training_changes_it(load_with: Load, override: str) -> None:
    assert config_sha256(load_with("", override).config) != config_sha256(load_with().config)


@pytest.mark.parametrize(
    "override",
    [
        "cache.enabled=false",
        "git.remote=null",
        "budget.run.calls=3",
        "gradient.analyst_workers=2",
        "rollout.retries=9",
        "rollout.events=false",
        "rollout.attempts=1",
        "model.target.timeout=1",
        "model.optimizer.retries=1",
        "model.target.max_concurrency=1",
        "model.target.api_key_env=KEY",
        "model.target.price={input: 1, output: 2}",
    ],
)
def test_what_does_not_leaves_it(load_with: Load, override: str) -> None:
    assert config_sha256(load_with("", override).config) == config_sha256(load_with().config)


def test_spelling_out_a_default_leaves_it(load_with: Load) -> None:
    spelt = load_with("train: {seed: 42}\n").config
    assert config_sha256(spelt) == config_sha256(load_with().config)


def test_batches_under_the_current_skill_are_not_said_to_be(load_with: Load) -> None:
    """Runs that began before there was the choice keep their name."""
    assert "staleness" not in influences(load_with().config)["train"]  # type: ignore[operator]
    stale = influences(load_with("", "train.staleness=1").config)
    assert stale["train"]["staleness"] == 1  # type: ignore[index]
