from collections.abc import Callable

import pytest
import simulated_modes

from skillopt_ci.demo import client, optimizer
from skillopt_ci.demo.world import Dice
from skillopt_ci.messages import Message

SetRates = Callable[..., None]


@pytest.fixture
def dice() -> Dice:
    return Dice(0, "test")


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> SetRates:

    def put(**changed: float) -> None:
        for module in (client, optimizer, simulated_modes):
            own = {name: rate for name, rate in changed.items() if name in module.RATES}
            monkeypatch.setattr(module, "RATES", {**module.RATES, **own})

    return put


@pytest.fixture
def careful(rates: SetRates) -> None:
    none = dict.fromkeys((*optimizer.RATES, *simulated_modes.RATES), 0.0)
    rates(**none | {"insight": 1.0, "vigilance": 1.0})


def asked(system: str, user: str) -> tuple[Message, ...]:
    return (Message("system", system), Message("user", user))
