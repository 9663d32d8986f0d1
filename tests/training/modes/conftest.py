"""A desk with a scripted optimizer."""

from collections.abc import Callable
from typing import Any

import pytest

from skillopt_ci.progress import Observer
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.training.modes import Desk


@pytest.fixture
def make_desk(prompts: Prompts, observer: Observer) -> Callable[..., Desk]:
    def make(client: Any, **more: str) -> Desk:
        return Desk(client=client, prompts=prompts, observer=observer, **more)

    return make
