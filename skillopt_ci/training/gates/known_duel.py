"""A duel whose results are all known beforehand."""

from dataclasses import replace
from fractions import Fraction

from skillopt_ci.training.gates.duel import Answer, Terms, duel
from skillopt_ci.training.gates.tally import Tallies


def known_duel(terms: Terms, current: Tallies, candidate: Tallies) -> bool:
    """Whether ``candidate`` wins its first round; further rounds would need new attempts."""
    once = terms.settings.model_copy(update={"attempts": 1, "early_stop": False})
    about = replace(terms, settings=once)
    battle = duel(about, current, candidate)
    try:
        next(battle)
        while True:
            battle.send(Answer({}))
    except StopIteration as done:
        outcome = done.value
    if once.policy != "strict":
        return bool(outcome.convincing)
    gain = sum(outcome.standoff.differences(about), Fraction()) + about.bonus
    return gain >= 0 if about.tie_wins else gain > 0
