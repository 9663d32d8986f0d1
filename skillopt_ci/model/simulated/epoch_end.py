"""The simulated optimizer at an epoch's end: guidance for the target, memory for itself."""

from skillopt_ci.model.simulated.analyst import broken_conventions
from skillopt_ci.model.simulated.brief import ComparisonBrief
from skillopt_ci.model.simulated.dice import Dice
from skillopt_ci.model.simulated.houses import BY_NAME
from skillopt_ci.model.simulated.skill_reading import stances
from skillopt_ci.model.simulated.temperament import Temperament

_REMINDER = "Check last: "

#: Causes of failures that one slow update goes into.
MOST = 2


def advise(brief: ComparisonBrief, dice: Dice, temperament: Temperament) -> dict[str, object]:
    """Return the last guidance and, for what fails most and it does not speak of, a line more.

    What the skill does not say becomes a rule, what it says and the target forgets a reminder.
    """
    covered, stated = stances("\n".join(brief.guidance)), stances(brief.skill)
    missed = [name for name in broken_conventions(brief.failures) if not covered[name]][:MOST]
    seen = [name for name in missed if dice.chance(f"foresight {name}", temperament.vigilance)]
    rules = {name: dice.pick(f"guidance {name}", BY_NAME[name].rules) for name in seen}
    new = [f"- {_REMINDER if stated[name] else ''}{rule}" for name, rule in rules.items()]
    return {
        "reasoning": f"{len(brief.failures)} tasks still fail; {len(rules)} causes stand out.",
        "slow_update_content": "\n".join((*brief.guidance, *new)),
    }


def remember(brief: ComparisonBrief) -> dict[str, object]:
    """Return a memory that names the kinds of failures that are left."""
    left = [BY_NAME[name].failure for name in broken_conventions(brief.failures)][:3]
    lines = [
        "- Rules that name one convention and show one example are followed.",
        *(f"- Still open: {failure}." for failure in left),
    ]
    return {
        "reasoning": "What was tried, held against what failed.",
        "meta_skill_content": "\n".join(lines),
    }
