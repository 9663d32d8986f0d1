"""The simulated optimizer's notes, and its answers in update modes that the quickstart lacks.

Importing this module teaches them to it: :data:`skillopt_ci.demo.optimizer.STAGES`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from skillopt_ci.demo import optimizer
from skillopt_ci.demo.optimizer import STAGES, Edit, Reply, analyse_failures, analyse_successes
from skillopt_ci.demo.world import Dice, subject

#: Probabilities, per occasion.
RATES = {
    "forgetful": 0.1,  # whoever writes a whole document loses one of its rules
    "meddlesome": 0.25,  # … changes what is not theirs to change
    "rash": 0.1,  # the chosen learning rate is higher than the number of changes
}

# Whole documents: lines that go and lines that come.


@dataclass(frozen=True, slots=True)
class Change:
    """The line ``old`` becomes the lines ``new``; either may be empty, ``old`` may be unknown."""

    old: str = ""
    new: str = ""

    @classmethod
    def of(cls, edit: Edit) -> Change:
        """Return what an edit would do to the lines of the document."""
        old = edit.get("target") if edit["op"] in ("replace", "delete") else ""
        return cls(str(old or ""), str(edit.get("content") or ""))

    @classmethod
    def told(cls, instruction: str) -> Change:
        """Return the change that :attr:`instruction` puts into words."""
        if not instruction.startswith("Remove: "):
            return cls(new=instruction)
        old, _, new = instruction.removeprefix("Remove: ").partition("\nWrite instead: ")
        return cls(old, new)

    @property
    def instruction(self) -> str:
        if not self.old:
            return self.new
        return f"Remove: {self.old}" + (f"\nWrite instead: {self.new}" if self.new else "")

    @property
    def summary(self) -> str:
        """The change in one line."""
        new = " ".join(self.new.removeprefix("- ").split())
        if not self.old:
            return f"Add: {new}"
        return f"Replace by: {new}" if new else f"Drop: {self.old.removeprefix('- ')}"


def revised(document: str, changes: Iterable[Change], dice: Dice) -> str:
    """Return the document with ``changes``; a rule may get lost and frontmatter be reworded."""
    lines = document.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("<!-- ")), len(lines))
    body, tail = lines[:start], lines[start:]

    def rules() -> list[int]:
        return [place for place, line in enumerate(body) if line.startswith("- ")]

    for change in changes:
        new = change.new.splitlines()
        if change.old and change.old in body:
            place = body.index(change.old)
            body[place : place + 1] = new
        elif known := rules():
            body[known[-1] + 1 : known[-1] + 1] = new
        else:
            body += [*([""] if body and body[-1] else []), *new]
    if dice.chance("forgetful", RATES["forgetful"]) and (known := rules()):
        del body[dice.pick("lost rule", known)]
    if dice.chance("meddlesome", RATES["meddlesome"]):
        return "\n".join(line.replace("description:", "about:") for line in body)
    return "\n".join([*body, *tail])


def _document(skill: str, changes: Sequence[Change], support: int, dice: Dice) -> Reply:
    return {
        "title": f"Revise {len(changes)} rules",
        "change_summary": [change.summary for change in changes],
        "new_skill": revised(skill, changes, dice),
        "support_count": support,
    }


def merge_suggestions(prompt: str, dice: Dice) -> Reply:
    kept, reasoning = optimizer.merged(optimizer.read_proposals(prompt, "instruction"), dice)
    suggestions = [
        {
            **_suggestion(Change.told(one["content"]), one),
            "type": one["op"],
            "source_type": one["source_type"],
        }
        for one in kept
    ]
    return {"reasoning": reasoning, "revise_suggestions": suggestions}


def merge_documents(prompt: str, dice: Dice) -> Reply:
    """Return one document with the rules that are new in some of the given ones.

    Of one subject the first rule counts; rules that most documents have dropped go.
    """
    skill, proposals = (
        optimizer.read_section(prompt, "Current Skill"),
        optimizer.read_proposals(prompt, "new_skill"),
    )
    known = [line for line in skill.splitlines() if line.startswith("- ")]
    added: dict[str, str] = {}
    dropped: Counter[str] = Counter()
    for one in proposals:
        rules = [line for line in one["content"].splitlines() if line.startswith("- ")]
        dropped.update(set(known).difference(rules))
        for rule in rules:
            if rule not in known:
                added.setdefault(about[0] if (about := subject(rule)) else rule, rule)
    gone = [rule for rule in known if dropped[rule] * 2 > len(proposals)]
    changes = [*(Change(old=rule) for rule in gone), *(Change(new=rule) for rule in added.values())]
    support = sum(one["support_count"] for one in proposals)
    return {
        "reasoning": f"{len(proposals)} documents change {len(changes)} things.",
        "skill_candidates": [_document(skill, changes, support, dice)],
    }


def rewrite(prompt: str, dice: Dice) -> Reply:
    """Return the document that the prompt shows, with the suggestions carried out."""
    changes = [
        Change.told(one["content"]) for one in optimizer.read_proposals(prompt, "instruction")
    ]
    return {
        "reasoning": "The suggestions were carried out where they belong.",
        "change_summary": [change.summary for change in changes],
        "new_skill": revised(optimizer.read_section(prompt, "Current Skill"), changes, dice),
    }


def choose_learning_rate(prompt: str, dice: Dice) -> Reply:
    """Return how many of the proposed items to apply, now and then in words or too many.

    Once most tasks are solved, the steps are small.
    """
    pool = optimizer.read_pool(prompt, "Proposed items")
    backed = sum(support > 1 for support in pool.values())
    found = re.search(r"rollout_hard: ([01]\.\d+)", prompt)
    mostly_solved = found is not None and float(found[1]) >= 0.5
    number = min(backed, 2) if mostly_solved else backed
    if dice.chance("rash", RATES["rash"]):
        number = len(pool) + 1
    return {
        "learning_rate": dice.pick("spelling", (number, float(number), f"{number} of them")),
        "reasoning": f"{backed} of the changes are backed by more than one trajectory.",
        "confidence": "high" if mostly_solved else "medium",
        "risk_notes": ["Several changes at once hide which of them helped."],
    }


# The stages.


def _suggestion(change: Change, edit: Edit) -> Reply:
    kind = "add_rule" if not change.old else "clarify" if change.new else "remove_rule"
    return {
        "type": kind,
        "title": change.summary[:60],
        "motivation": "Answers differ from their references here.",
        "instruction": change.instruction,
        "priority_hint": "high" if edit["support_count"] > 1 else "low",
        "support_count": edit["support_count"],
    }


def spelt(mode: str, skill: str, edits: Sequence[Edit], dice: Dice) -> Reply:
    """Return the edits in the form that the update mode wants."""
    changes = [Change.of(edit) for edit in edits]
    match mode:
        case "_rewrite":
            suggestions = [_suggestion(*one) for one in zip(changes, edits, strict=True)]
            return {"revise_suggestions": suggestions}
        case "_full_rewrite":
            written = [_document(skill, changes, len(edits), dice)] if edits else []
            return {"skill_candidates": written}
        case _:
            return {"edits": edits}


def _analyst(analyse: optimizer.Analysis, mode: str, prompt: str, dice: Dice) -> Reply:
    brief = optimizer.read_analyst_brief(prompt)
    found, reasoning, edits = analyse(brief, dice)
    return {**found, "patch": {"reasoning": reasoning, **spelt(mode, brief.skill, edits, dice)}}


STAGES |= {
    "ranking_rewrite": optimizer.rank,
    "rewrite": rewrite,
    "lr_autonomous": choose_learning_rate,
}
for _mode, _merge in (("_rewrite", merge_suggestions), ("_full_rewrite", merge_documents)):
    STAGES[f"analyst_error{_mode}"] = partial(_analyst, analyse_failures, _mode)
    STAGES[f"analyst_success{_mode}"] = partial(_analyst, analyse_successes, _mode)
    STAGES |= {f"merge_{group}{_mode}": _merge for group in ("failure", "success", "final")}

#: What analysts of failures remind of, if they are asked for that, and what is left of it.
REMINDERS = ["Look at the note once more.", "Look at the date once more."]


def _reminding(analyst: Callable[[str, Dice], Reply], prompt: str, dice: Dice) -> Reply:
    return {**analyst(prompt, dice), "appendix_notes": REMINDERS}


for _mode in ("", "_rewrite", "_full_rewrite"):
    _stage = f"analyst_error{_mode}"
    STAGES[_stage] = partial(_reminding, STAGES[_stage])
STAGES["appendix_consolidate"] = lambda _prompt, _dice: {"appendix_notes": REMINDERS[:1]}
