"""What an estimate takes for granted."""

from types import SimpleNamespace
from typing import Any

import pytest

from skillopt_ci.config.config import Config
from skillopt_ci.estimate.estimate import Assumed, assumed


def config(**sections: Any) -> Config:
    role = {"provider": "simulated", "model": "s"}
    told = {"run": "r", "skill": "S.md", "model": {"target": role, "optimizer": role}, **sections}
    if "environment" not in told:
        told["tasks"] = {"train": "a", "selection": "b"}
    return Config.model_validate(told)


def history(*actions: str) -> Any:
    return [SimpleNamespace(kind="step", action=one) for one in actions]


def step(attempts: int, calls: int) -> Any:
    usage = {"rollout": SimpleNamespace(calls=calls)}
    rollout = SimpleNamespace(tasks=(None,) * attempts)
    return SimpleNamespace(proposal=SimpleNamespace(rollout=rollout, usage=usage))


def test_without_history_a_rule_of_thumb_holds() -> None:
    assert assumed(config(), None, (), ()) == Assumed()
    careful = config(evaluation={"gate": {"policy": "paired"}})
    assert assumed(careful, 0.8, (), ()).accepted == 0.35
    assert assumed(careful, 0.8, (), ()).solved == 0.8


def test_history_speaks_the_louder_the_longer_it_is() -> None:
    little = assumed(config(), 0.5, history("reject"), ()).accepted
    much = assumed(config(), 0.5, history(*["reject"] * 20, "skip_no_patches"), ())
    assert 0 < much.accepted < little < 0.5
    assert assumed(config(), 0.5, history(*["accept_new_best"] * 20), ()).accepted > 0.9
    assert 0 < much.empty < 0.1


AGENT = {"solver": {"type": "agent"}, "computer": {"type": "unconfined"}}


@pytest.mark.parametrize(
    ("sections", "steps", "calls"),
    [
        ({}, [step(10, 80)], (1, 1.0, 1)),
        ({"rollout": AGENT}, [], (0, 10.0, 50)),
        ({"rollout": {**AGENT, "limits": {"steps": 4}}}, [], (0, 4.0, 4)),
        ({"rollout": {**AGENT, "limits": {"steps": None}}}, [step(10, 80)], (0, 8.0, 200)),
        ({"rollout": {"solver": {"type": "scripted"}}}, [], (0, 0.0, 0)),
        ({"environment": {"type": "inspect", "task": "t.py"}}, [], (0, 1.0, 50)),
        ({"environment": {"type": "inspect", "task": "t.py"}}, [step(4, 12)], (0, 3.0, 50)),
    ],
)
def test_calls_of_an_attempt(sections: Any, steps: list[Any], calls: Any) -> None:
    assert assumed(config(**sections), None, (), steps).calls == calls
