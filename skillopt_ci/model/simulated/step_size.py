"""The simulated choice of a learning rate: one change for each that is well backed."""

import re

from skillopt_ci.model.simulated.brief import read_pool
from skillopt_ci.model.simulated.dice import Dice
from skillopt_ci.model.simulated.temperament import Temperament

#: From this share of solved tasks on, the steps are small.
_MOSTLY = 0.5
_SMALL = 2
_HARD = re.compile(r"rollout_hard: ([01]\.\d+)")


def choose_size(prompt: str, dice: Dice, temperament: Temperament) -> dict[str, object]:
    """Return how many of the proposed items to apply, now and then in words or too many."""
    pool = read_pool(prompt, "Proposed items")
    backed = sum(1 for entry in pool if entry.support > 1)
    found = _HARD.search(prompt)
    solved = float(found[1]) if found else 0.0
    number = backed if solved < _MOSTLY else min(backed, _SMALL)
    if dice.chance("rash", temperament.rash):
        number = len(pool) + 1
    return {
        "learning_rate": dice.pick("spelling", (number, float(number), f"{number} of them")),
        "reasoning": f"{backed} of the changes are backed by more than one trajectory.",
        "confidence": "medium" if solved < _MOSTLY else "high",
        "risk_notes": ["Several changes at once hide which of them helped."],
    }
