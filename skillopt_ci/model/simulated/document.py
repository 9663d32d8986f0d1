"""The simulated optimizer's whole documents: written by analysts, merged into one."""

from collections import Counter
from collections.abc import Sequence

from skillopt_ci.model.simulated.analyst import Spelling
from skillopt_ci.model.simulated.brief import read_items, read_skill
from skillopt_ci.model.simulated.dice import Dice
from skillopt_ci.model.simulated.revision import Change, change_of, revised
from skillopt_ci.model.simulated.skill_reading import subject
from skillopt_ci.model.simulated.temperament import Temperament


def as_document(skill: str, dice: Dice, temperament: Temperament) -> Spelling:
    """Return how an analyst who reads ``skill`` puts a proposal: the edits carried out."""

    def spell(reasoning: str, edits: Sequence[dict[str, object]]) -> dict[str, object]:
        changes = [change_of(edit) for edit in edits]
        candidates = [_candidate(skill, changes, len(edits), dice, temperament)] if edits else []
        return {"reasoning": reasoning, "skill_candidates": candidates}

    return spell


def merge_documents(prompt: str, dice: Dice, temperament: Temperament) -> dict[str, object]:
    """Return one document with what is new in the given ones; of one subject the first counts."""
    skill, items = read_skill(prompt), read_items(prompt, "new_skill")
    changes = _changes(skill, [item.text("new_skill") for item in items])
    support = sum(item.support for item in items)
    return {
        "reasoning": f"{len(items)} documents change {len(changes)} things.",
        "skill_candidates": [_candidate(skill, changes, support, dice, temperament)],
    }


def _candidate(
    skill: str, changes: Sequence[Change], support: int, dice: Dice, temperament: Temperament
) -> dict[str, object]:
    return {
        "title": f"Revise {len(changes)} rules",
        "change_summary": [change.summary for change in changes],
        "new_skill": revised(skill, changes, dice, temperament),
        "support_count": support,
    }


def _changes(skill: str, documents: Sequence[str]) -> list[Change]:
    """Return the rules that are new in some document, and those that most have dropped."""
    known = [line for line in skill.splitlines() if line.startswith("- ")]
    added: dict[str, str] = {}
    dropped: Counter[str] = Counter()
    for document in documents:
        rules = [line for line in document.splitlines() if line.startswith("- ")]
        dropped.update(set(known).difference(rules))
        for rule in rules:
            if rule not in known:
                about = subject(rule)
                added.setdefault(about[0] if about else rule, rule)
    gone = [rule for rule in known if dropped[rule] * 2 > len(documents)]
    return [*(Change(old=rule) for rule in gone), *(Change(new=rule) for rule in added.values())]
