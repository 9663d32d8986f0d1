"""Fixtures of the simulated models: dice, their rates, notes and a server."""

from collections.abc import Callable, Iterator

import pytest

from skillopt_ci.demo import optimizer, target
from skillopt_ci.demo.server import Behaviour, SimulatedServer
from skillopt_ci.demo.world import Dice
from skillopt_ci.messages import Message
from tests.support.serving import running

SetRates = Callable[..., None]


@pytest.fixture
def dice() -> Dice:
    return Dice(0, "test")


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> SetRates:
    """Set rates of the target and the optimizer by name."""

    def put(**changed: float) -> None:
        for module in (target, optimizer):
            own = {name: rate for name, rate in changed.items() if name in module.RATES}
            monkeypatch.setattr(module, "RATES", {**module.RATES, **own})

    return put


@pytest.fixture
def careful(rates: SetRates) -> None:
    """An optimizer that sees everything and never errs."""
    rates(**dict.fromkeys(optimizer.RATES, 0.0) | {"insight": 1.0, "vigilance": 1.0})


@pytest.fixture
def server() -> Iterator[SimulatedServer]:
    with running(Behaviour()) as started:
        yield started


def asked(system: str, user: str) -> tuple[Message, ...]:
    return (Message("system", system), Message("user", user))
