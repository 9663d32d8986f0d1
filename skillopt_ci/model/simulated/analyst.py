"""The simulated analysts: what goes wrong, judged by references or by what a checker said."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from skillopt_ci.model.simulated.brief import AnalystBrief, Trajectory
from skillopt_ci.model.simulated.dice import Dice
from skillopt_ci.model.simulated.houses import ALL_CONVENTIONS, BY_NAME
from skillopt_ci.model.simulated.ledger import conventions_followed
from skillopt_ci.model.simulated.mishap import MISHAPS
from skillopt_ci.model.simulated.note import read_note
from skillopt_ci.model.simulated.shell import house_style as shell
from skillopt_ci.model.simulated.shell.order import read_order
from skillopt_ci.model.simulated.skill_reading import conflicting_line, stances
from skillopt_ci.model.simulated.temperament import Temperament

Edit = dict[str, object]
#: Puts reasoning and edits into the form that the update mode wants.
Spelling = Callable[[str, Sequence[Edit]], dict[str, object]]


def as_edits(reasoning: str, edits: Sequence[Edit]) -> dict[str, object]:
    """Return a proposal in the form of edits."""
    return {"reasoning": reasoning, "edits": edits}


def analyse_failures(
    brief: AnalystBrief, dice: Dice, temperament: Temperament, spell: Spelling = as_edits
) -> dict[str, object]:
    """Return the reply to a failure minibatch: what it saw, and edits against it."""
    missed = broken_conventions(brief.trajectories)
    seen = [name for name in missed if _noticed(name, missed[name], brief, dice, temperament)]
    wished = _wished(brief, missed, dice)
    asked = {name for name, _ in wished}
    learnt = (_remedy(name, missed[name], brief, dice) for name in seen if name not in asked)
    edits = [*(edit for _, edit in wished), *(edit for remedy in learnt for edit in remedy)]
    return {
        "batch_size": len(brief.trajectories),
        "failure_summary": [
            {"failure_type": name, "count": missed[name], "description": BY_NAME[name].failure}
            for name in seen
        ],
        "patch": spell(
            _reasoning(seen), _with_mishap(edits[: brief.limit], brief, dice, temperament)
        ),
    }


def analyse_successes(
    brief: AnalystBrief, dice: Dice, temperament: Temperament, spell: Spelling = as_edits
) -> dict[str, object]:
    """Return the reply to a success minibatch: mostly that all is well."""
    edits = [edit for _, edit in _wished(brief, {}, dice)][: brief.limit]
    return {
        "batch_size": len(brief.trajectories),
        "success_patterns": ["The answers follow the conventions that the skill states."],
        "patch": spell(
            "What works is in the skill already.",
            _with_mishap(edits, brief, dice, temperament, only="platitude"),
        ),
    }


def broken_conventions(trajectories: Sequence[Trajectory]) -> Mapping[str, int]:
    """Return how many trajectories break each convention, the most broken first."""
    counts: Counter[str] = Counter()
    for trajectory in trajectories:
        counts.update(_broken(trajectory))
    ranked = sorted((c.name for c in ALL_CONVENTIONS if counts[c.name]), key=lambda n: -counts[n])
    return {name: counts[name] for name in ranked}


def _broken(trajectory: Trajectory) -> frozenset[str]:
    if read_order(trajectory.prompt) is not None:
        return frozenset(c.name for c in shell.SHELL_CONVENTIONS if c.failure in trajectory.reason)
    note = read_note(trajectory.prompt)
    if note is None:
        return frozenset()
    followed = conventions_followed(note, trajectory.answer)
    wanted = [conventions_followed(note, reference) for reference in trajectory.references]
    if followed is None or not any(wanted):
        return frozenset()
    return next(names for names in wanted if names) - followed


def _noticed(
    name: str, count: int, brief: AnalystBrief, dice: Dice, temperament: Temperament
) -> bool:
    misled = conflicting_line(brief.skill, name) is not None
    odds = temperament.vigilance if misled else 1 - (1 - temperament.insight) ** count
    return dice.chance(f"insight {name}", odds)


def _remedy(name: str, count: int, brief: AnalystBrief, dice: Dice) -> list[Edit]:
    """Return the edit against a kind of failure; none if the skill covers it already."""
    taken = stances(brief.skill)[name]
    fresh = [rule for rule in BY_NAME[name].rules if rule not in brief.previous]
    rule = dice.pick(f"wording {name}", fresh or BY_NAME[name].rules)
    wrong = conflicting_line(brief.skill, name)
    if wrong is not None and "for" in taken:
        return [{"op": "delete", "target": wrong, "support_count": count}]
    if wrong is not None:
        edit = {"op": "replace", "target": wrong, "content": f"- {rule}"}
        return [{**edit, "support_count": count}]
    if "for" in taken:
        return []
    return [{**_addition(rule, brief, dice), "support_count": count}]


def _wished(brief: AnalystBrief, missed: Mapping[str, int], dice: Dice) -> list[tuple[str, Edit]]:
    """Return the edits that reviewers' notes ask for, by convention."""
    asking: dict[str, list[str]] = {}
    for note, text in brief.wishes.items():
        for name, taken in stances(text).items():
            if taken == {"for"}:
                asking.setdefault(name, []).append(note)
    return [
        (name, {**edit, "note_ids": notes})
        for name, notes in asking.items()
        for edit in _remedy(name, missed.get(name, 1), brief, dice)
    ]


def _addition(rule: str, brief: AnalystBrief, dice: Dice) -> Edit:
    bullets = [line for line in brief.skill.splitlines() if line.startswith("- ")]
    if bullets and dice.chance(f"place {rule}", 0.6):
        return {"op": "insert_after", "target": bullets[-1], "content": f"- {rule}"}
    return {"op": "append", "content": f"- {rule}"}


def _with_mishap(
    edits: list[Edit],
    brief: AnalystBrief,
    dice: Dice,
    temperament: Temperament,
    only: str | None = None,
) -> list[Edit]:
    for kind, mishap in MISHAPS.items():
        if only in (None, kind) and dice.chance(kind, getattr(temperament, kind)):
            edit = mishap(brief, dice)
            if edit is not None:
                return [*edits[: max(0, brief.limit - 1)], edit][: brief.limit]
    return edits


def _reasoning(seen: Sequence[str]) -> str:
    if not seen:
        return "The failures do not share a cause that I can see."
    causes = "; ".join(BY_NAME[name].failure for name in seen)
    return f"Several answers differ from their references in the same way: {causes}."
