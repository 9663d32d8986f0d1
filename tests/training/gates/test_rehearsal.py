"""Duels with dice show what a gate does."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.config import GateConfig
from skillopt_ci.training.calibrate import lifted, rehearse

RATES = [0.2, 0.5, 0.8] * 10


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(-1, 1))
def test_lifting_keeps_to_rates(rates: list[float], lift: float) -> None:
    moved = lifted(rates, lift)
    assert all(-1e-9 <= rate <= 1 + 1e-9 for rate in moved)
    mean, before = sum(moved) / len(moved), sum(rates) / len(rates)
    assert mean == pytest.approx(min(1.0, max(0.0, before + lift)), abs=1e-6)


@pytest.mark.parametrize("policy", ["paired", "sequential"])
def test_equal_skills_seldom_win_and_better_ones_often(
    policy: Literal["paired", "sequential"],
) -> None:
    settings = GateConfig(policy=policy, confidence=0.8)
    (same, attempts), (better, _) = (
        rehearse(RATES, lift, settings, 200, 1) for lift in (0.0, 0.25)
    )
    assert same < 0.28
    assert better > 0.6
    assert attempts < len(RATES) * 2


def test_the_strict_gate_takes_chance_for_a_gain() -> None:
    accepted, attempts = rehearse(RATES, 0.0, GateConfig(), 300, 1)
    assert 0.3 < accepted < 0.55
    assert attempts < len(RATES)


def test_the_seed_decides() -> None:
    assert rehearse(RATES, 0.1, GateConfig(), 20, 1) == rehearse(RATES, 0.1, GateConfig(), 20, 1)
