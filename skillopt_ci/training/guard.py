"""Guard: what a skill may not learn, however well it would score.

Judged are the lines that a change adds. What stood in a skill of the run before is no news, and is
never refused. A reason names the rule and where it applies, and never repeats what was refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from skillopt_ci.config.config import Guard
from skillopt_ci.skill.document import word_count
from skillopt_ci.skill.regions import strip_markers
from skillopt_ci.training.guard_answers import Answers
from skillopt_ci.training.guard_orders import order_to_the_optimizer
from skillopt_ci.training.guard_secrets import secret_in
from skillopt_ci.training.guard_text import hidden_character, new_address


@dataclass(frozen=True, slots=True)
class GuardContext:
    """What the guard knows of a run: ``known`` joins the skills that it had before.

    ``keys`` are secret values that this process can see.
    """

    rules: Guard = field(default_factory=Guard)
    known: str = ""
    answers: Answers = field(default_factory=Answers)
    keys: tuple[str, ...] = ()


def refuse_document(before: str, after: str, context: GuardContext) -> str | None:
    """Return why ``after`` may not take the place of ``before``, or None.

    A change that only takes away is always allowed.
    """
    added = added_text(before, after)
    known = f"{context.known}\n{before}"
    return next(_complaints(added, known, context), None) or _too_long(before, after, context.rules)


def refuse_text(text: str, context: GuardContext) -> str | None:
    """Return why ``text`` may not be added anywhere, or None; its length is not judged."""
    return next(_complaints(text, context.known, context), None)


def added_text(before: str, after: str) -> str:
    """Return the lines of ``after`` that ``before`` does not have, without region markers."""
    old = set(before.split("\n"))
    return strip_markers("\n".join(line for line in after.split("\n") if line not in old))


def _complaints(added: str, known: str, context: GuardContext) -> Iterator[str]:
    rules = context.rules
    if not added.strip():
        return
    if rules.secrets and (kind := secret_in(added, known, context.keys)):
        yield f"it holds {kind}"
    if rules.invisible_characters and (name := hidden_character(added, known)):
        yield f"it holds an invisible character, {name}"
    if rules.new_urls and (host := new_address(added, known)):
        yield f"it brings in a web address on {host} that stood in no skill before"
    if rules.reference_answers and (task := context.answers.given_away(added, known)):
        yield f"it gives away the reference answer of task {task}"
    if rules.optimizer_instructions and (what := order_to_the_optimizer(added, known)):
        yield f"it speaks to the optimizer: {what}"


def _too_long(before: str, after: str, rules: Guard) -> str | None:
    words, limit = word_count(after), rules.max_words
    if not limit or words <= limit or words <= word_count(before):
        return None
    return f"the document would have {words} words, more than the {limit} allowed"
