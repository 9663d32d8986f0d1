"""All conventions of the simulated worlds, and which of them a piece of work is about."""

from collections.abc import Iterable
from typing import Any

from skillopt_ci.model.simulated import house_style as ledger
from skillopt_ci.model.simulated.convention import Convention
from skillopt_ci.model.simulated.shell import house_style as shell
from skillopt_ci.model.simulated.shell.order import read_order

ALL_CONVENTIONS: tuple[Convention[Any], ...] = (
    *ledger.LEDGER_CONVENTIONS,
    *shell.SHELL_CONVENTIONS,
)

BY_NAME = {convention.name: convention for convention in ALL_CONVENTIONS}


def conventions_of(prompts: Iterable[str]) -> tuple[Convention[Any], ...]:
    """Return the conventions of the house that ``prompts`` come from, the ledger's if in doubt."""
    if any(read_order(prompt) for prompt in prompts):
        return shell.SHELL_CONVENTIONS
    return ledger.LEDGER_CONVENTIONS
