"""The simulated optimizer: answers each stage of training with JSON, and makes mistakes.

It parses the prompts back into values, of which missing parts are empty. Its analysts find failures
by comparing answers with references.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from skillopt_ci.demo.world import (
    CONVENTIONS,
    Dice,
    conflicting_line,
    conventions_followed,
    read_note,
    stances,
    subject,
)
from skillopt_ci.messages import Message
from skillopt_ci.text import plural

#: More edits than any analyst proposes.
UNLIMITED = 1_000

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"#{2,6} +(.*\S)")
_STAGE = re.compile(r"^[^\w\n]*Stage:\W*(\w+)", re.MULTILINE)
_LIMIT = re.compile(r"at most (?:L\s*=\s*)?(\d+)", re.IGNORECASE)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_TURN = re.compile(r"^\[(system|user|assistant|agent|tool)\][ \t]*", re.MULTILINE)
_POOL_LINE = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)
_SUPPORT = re.compile(r"\bsupport=(\d+)\W*$")
_LISTS = ("Patches to merge", "Group ", "Suggestions to carry out")


@dataclass(slots=True)
class Section:
    title: str = ""
    lines: list[str] = field(default_factory=list)
    fenced: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip()

    @property
    def data(self) -> str:
        return "\n".join(self.fenced).strip("\n") or self.text


@dataclass(frozen=True, slots=True)
class Trajectory:
    references: tuple[str, ...]
    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class AnalystBrief:
    """An analyst's assignment; ``limit`` is the most edits that it may propose."""

    skill: str
    limit: int
    previous: str
    trajectories: tuple[Trajectory, ...]


def sections(prompt: str) -> list[Section]:
    found, fence = [Section()], ""
    for line in prompt.split("\n"):
        here, stripped = found[-1], line.strip()
        marker = _FENCE.match(line)
        if fence and len(stripped) >= len(fence) and set(stripped) == {fence[0]}:
            fence = ""
        elif fence:
            here.lines.append(line)
            here.fenced.append(line)
        elif marker:
            fence = marker[1]
        elif heading := _HEADING.fullmatch(stripped):
            found.append(Section(heading[1]))
        else:
            here.lines.append(line)
    return found[1:]


def stage_of(messages: Sequence[Message]) -> str:
    found = _STAGE.search("\n".join(m.content for m in messages if m.role == "system"))
    return found[1] if found else ""


def first_prompt(messages: Sequence[Message]) -> str:
    return next((m.content for m in messages if m.role == "user"), "")


def read_analyst_brief(prompt: str) -> AnalystBrief:
    parts = sections(prompt)
    assignment = _titled(parts, "Edits Budget", "Suggestions Budget", "Update Format").text
    limit = _LIMIT.search(assignment)
    usual = UNLIMITED if assignment else 4
    return AnalystBrief(
        skill=_titled(parts, "Current Skill").data,
        limit=int(limit[1]) if limit else usual,
        previous=_titled(parts, "Previous Steps").text,
        trajectories=tuple(_trajectories(parts, "Trajectory ", "Conversation")),
    )


def read_failures(prompt: str) -> list[Trajectory]:
    told = _trajectories(sections(prompt), "Task ", "Conversation under the current")
    # Tasks without an answer are only mentioned in the prompt.
    return [one for one in told if one.answer and one.answer not in one.references]


def read_proposals(prompt: str, key: str) -> list[dict[str, Any]]:
    """Entries of a merge or rewrite; ``key`` is ``content``, ``instruction`` or ``new_skill``."""
    return [
        {
            "op": str(one.get("op") or one.get("type") or ""),
            "target": str(one.get("target") or ""),
            "content": str(one.get(key) or ""),
            "support_count": count if isinstance(count := one.get("support_count"), int) else 1,
            "source_type": str(one.get("source_type") or "")
            or ("success" if "success" in part.title else "failure"),
        }
        for part in sections(prompt)
        if part.title.startswith(_LISTS)
        for one in _objects(json.loads(part.data), "op" if key == "content" else key)
    ]


def read_section(prompt: str, title: str) -> str:
    return _titled(sections(prompt), title).data


def read_pool(prompt: str, *titles: str) -> dict[int, int]:
    return {
        int(index): int(support[1]) if (support := _SUPPORT.search(text)) else 1
        for index, text in _POOL_LINE.findall(_titled(sections(prompt), *titles).data)
    }


def _titled(parts: Iterable[Section], *titles: str) -> Section:
    return next((part for part in parts if part.title.startswith(titles)), Section())


def _trajectories(
    parts: Sequence[Section], heading: str, conversation: str
) -> Iterator[Trajectory]:
    starts = [i for i, part in enumerate(parts) if part.title.startswith(heading)]
    for start, end in pairwise((*starts, len(parts))):
        block = parts[start:end]
        pieces = _TURN.split(_titled(block, conversation).text)[1:]
        turns = list(zip(pieces[::2], pieces[1::2], strict=True))
        answers = [one for role, text in turns if role != "system" for one in _ANSWER.findall(text)]
        hidden = _titled(block, "Hidden Reference").text
        yield Trajectory(
            references=tuple(re.findall(r"^- (.*\S)", hidden, re.MULTILINE)),
            prompt=next((text for role, text in turns if role == "user"), ""),
            answer=answers[-1].strip() if answers else "",
        )


def _objects(value: object, key: str) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict) and key in value:
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _objects(item, key)


#: Probabilities, per occasion.
RATES = {
    "insight": 0.2,  # an analyst sees, from one trajectory, the convention behind its failure
    "vigilance": 0.8,  # it sees that a line of the skill is behind a kind of failure
    "harmful": 0.25,  # it proposes something that contradicts the conventions
    "platitude": 0.25,  # … something that helps nobody
    "duplicate": 0.3,  # … a rule that the skill has already
    "missing_target": 0.1,  # … to change a text that is not there
    "leak": 0.05,  # … a reference answer
    "link": 0.05,  # … a web page
    "malformed": 0.06,  # the reply is not what was asked for
    "gullible": 0.6,  # a merge keeps an edit that a single patch proposes without any evidence
}
#: Analysts' mistakes, in the order in which they are tried.
MISHAPS = ("harmful", "platitude", "duplicate", "missing_target", "leak", "link")
PLATITUDES = (
    "Read the whole note before writing anything.",
    "Take care to be accurate and complete.",
    "Check your work once more before you answer.",
    "Keep a calm, professional tone.",
)
#: The most causes of failures that a slow update addresses.
MOST_CAUSES = 2

Edit = dict[str, Any]
Reply = dict[str, Any]


def propose(messages: Sequence[Message], dice: Dice) -> str:
    """The reply for the stage that the system prompt names; without one, a judge's reply."""
    stage, prompt = stage_of(messages), first_prompt(messages)
    if not stage and any(re.search(r"[\"'`]score[\"'`]", one.content) for one in messages):
        return grade(prompt)
    reply = STAGES[stage](prompt, dice) if stage in STAGES else {}
    if reply and dice.chance("malformed", RATES["malformed"]):
        text = json.dumps(reply, ensure_ascii=False)
        prose = "The answers look mostly fine; a few rules about formatting would help."
        types = json.dumps({"patch": "see above", "edits": 3, "selected_indices": "all"})
        return dice.pick("malformation", (text[: len(text) // 3], prose, types))
    text = json.dumps(reply, ensure_ascii=False, indent=2)
    fence = f"```json\n{text}\n```"
    introduced = f"I have looked at everything. My answer:\n\n{fence}\n"
    return dice.pick("wording", (text, fence, introduced))


def broken_conventions(trajectories: Sequence[Trajectory]) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for one in trajectories:
        if (note := read_note(one.prompt)) is not None:
            followed = conventions_followed(note, one.answer)
            wanted = [conventions_followed(note, reference) for reference in one.references]
            if followed is not None and any(wanted):
                counts.update(next(filter(None, wanted)) - followed)
    ranked = sorted(filter(counts.__getitem__, CONVENTIONS), key=lambda name: -counts[name])
    return {name: counts[name] for name in ranked}


def analyse_failures(brief: AnalystBrief, dice: Dice) -> tuple[Reply, str, list[Edit]]:
    def noticed(name: str) -> bool:
        misled = conflicting_line(brief.skill, name) is not None
        odds = RATES["vigilance"] if misled else 1 - (1 - RATES["insight"]) ** missed[name]
        return dice.chance(f"insight {name}", odds)

    missed = broken_conventions(brief.trajectories)
    seen = [name for name in missed if noticed(name)]
    edits = [edit for name in seen for edit in _remedy(name, missed[name], brief, dice)]
    causes = "; ".join(CONVENTIONS[name].failure for name in seen)
    summary = [
        {"failure_type": name, "count": missed[name], "description": CONVENTIONS[name].failure}
        for name in seen
    ]
    return (
        {"batch_size": len(brief.trajectories), "failure_summary": summary},
        f"Several answers differ from their references in the same way: {causes}."
        if seen
        else "The failures do not share a cause that I can see.",
        _with_mishap(edits[: brief.limit], brief, dice, MISHAPS),
    )


def analyse_successes(brief: AnalystBrief, dice: Dice) -> tuple[Reply, str, list[Edit]]:
    return (
        {
            "batch_size": len(brief.trajectories),
            "success_patterns": ["The answers follow the conventions that the skill states."],
        },
        "What works is in the skill already.",
        _with_mishap([], brief, dice, ("platitude",)),
    )


def _remedy(name: str, count: int, brief: AnalystBrief, dice: Dice) -> list[Edit]:
    rules = CONVENTIONS[name].rules
    fresh = [rule for rule in rules if rule not in brief.previous]
    rule = dice.pick(f"wording {name}", fresh or rules)
    wrong = conflicting_line(brief.skill, name)
    if "for" in stances(brief.skill)[name]:
        return [{"op": "delete", "target": wrong, "support_count": count}] if wrong else []
    bullets = [line for line in brief.skill.splitlines() if line.startswith("- ")]
    edit: Edit = {"op": "append", "content": f"- {rule}"}
    if wrong is not None:
        edit = {"op": "replace", "target": wrong, "content": f"- {rule}"}
    elif bullets and dice.chance(f"place {rule}", 0.6):
        edit = {"op": "insert_after", "target": bullets[-1], "content": f"- {rule}"}
    return [{**edit, "support_count": count}]


def _with_mishap(
    edits: list[Edit], brief: AnalystBrief, dice: Dice, kinds: Sequence[str]
) -> list[Edit]:
    for kind in kinds:
        if dice.chance(kind, RATES[kind]) and (edit := mishap(kind, brief, dice)) is not None:
            return [*edits[: max(0, brief.limit - 1)], edit][: brief.limit]
    return edits


def mishap(kind: str, brief: AnalystBrief, dice: Dice) -> Edit | None:
    if kind == "missing_target":
        target = dice.pick("missing heading", ("## Formatting rules", "## Layout", "## Checklist"))
        content = f"{target}\n\nEvery line follows the rules below."
        edit: Edit = {"op": "replace", "target": target, "content": content, "support_count": 1}
        return None if target in brief.skill else edit
    said, known = stances(brief.skill), f"{brief.previous}\n{brief.skill}"
    stated = (one for name, one in CONVENTIONS.items() if "for" in said[name])
    references = (answer for one in brief.trajectories for answer in one.references)
    web = "Further rules are on https://ledger-handbook.example"
    draw, options = {
        "harmful": ("harmful choice", [c.harmful for c in CONVENTIONS.values()]),
        "platitude": ("platitude choice", [*PLATITUDES]),
        "duplicate": ("duplicate choice", [rule for one in stated for rule in one.rules]),
        "leak": ("leaked answer", [f"A right line looks like this: `{a}`" for a in references]),
        "link": ("linked page", [f"{web}/{page}." for page in ("style", "examples", "faq")]),
    }[kind]
    if kind in ("harmful", "platitude"):
        options = [one for one in options if one not in known]
    if not options:
        return None
    return {"op": "append", "content": f"- {dice.pick(draw, options)}", "support_count": 1}


def merged(edits: Sequence[Edit], dice: Dice) -> tuple[list[Edit], str]:
    groups: dict[str, Edit] = {}
    for edit in edits:
        own_words = f"{edit['op']} {edit['target']} {edit['content']}".casefold()
        about = subject(edit["content"] or edit["target"])
        key = about[0] if about else own_words
        groups[key] = _settled(groups[key], edit) if key in groups else edit
    kept = [
        edit
        for edit in groups.values()
        if edit["support_count"] > 1 or dice.chance(f"keep {edit['content']}", RATES["gullible"])
    ]
    return kept, f"{len(edits)} proposed edits name {len(groups)} things; {len(kept)} stay."


def _settled(first: Edit, second: Edit) -> Edit:
    support = "support_count"
    if subject(first["content"]) == subject(second["content"]):
        return {**first, support: first[support] + second[support]}
    return first if first[support] >= second[support] else second


def merge_edits(prompt: str, dice: Dice) -> Reply:
    kept, reasoning = merged(read_proposals(prompt, "content"), dice)
    return {"reasoning": reasoning, "edits": kept}


def rank(prompt: str, _dice: Dice) -> Reply:
    pool = read_pool(prompt, "Edit pool", "Suggestion pool")
    limits = re.findall(r"[Ss]elect at most (\d+)", prompt)
    ranked = sorted(pool, key=lambda index: (-pool[index], index))
    return {
        "reasoning": "Edits that answer the most failures come first.",
        "selected_indices": ranked[: int(limits[-1]) if limits else None],
    }


# The end of an epoch: guidance for the target, advice for the optimizer.


def slow_update(prompt: str, dice: Dice) -> Reply:
    previous, failures = read_section(prompt, "Previous Guidance"), read_failures(prompt)
    lines, causes = re.findall(r"^- .*", previous, re.MULTILINE), 0
    covered, stated = stances("\n".join(lines)), stances(read_section(prompt, "Current Skill"))
    missed = [name for name in broken_conventions(failures) if not covered[name]]
    for name in missed[:MOST_CAUSES]:
        if dice.chance(f"foresight {name}", RATES["vigilance"]):
            rule = dice.pick(f"guidance {name}", CONVENTIONS[name].rules)
            lines.append(f"- {'Check last: ' if stated[name] else ''}{rule}")
            causes += 1
    return {
        "reasoning": f"{plural(len(failures), 'task')} unsolved; {plural(causes, 'cause')} found.",
        "slow_update_content": "\n".join(lines),
    }


def meta_skill(prompt: str) -> Reply:
    left = [*broken_conventions(read_failures(prompt))][:3]
    lines = [
        "- Rules that name one convention and show one example are followed.",
        *(f"- Still open: {CONVENTIONS[name].failure}." for name in left),
    ]
    return {
        "reasoning": "What was tried, held against what failed.",
        "meta_skill_content": "\n".join(lines),
    }


def grade(prompt: str) -> str:
    fenced = re.findall(
        r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(.*?)^ {0,3}\1", prompt, re.MULTILINE | re.DOTALL
    )
    *known, answer = [set(re.findall(r"\w+", text.casefold())) for _, text in fenced] or [set()]
    shared = len(answer & set().union(*known)) / max(1, len(answer))
    reason = f"{shared:.0%} of the answer's words are those of the task and the rubric."
    return json.dumps({"score": round(shared, 2), "reason": reason})


Analysis = Callable[[AnalystBrief, Dice], tuple[Reply, str, list[Edit]]]


def _analyst(analyse: Analysis, prompt: str, dice: Dice) -> Reply:
    found, reasoning, edits = analyse(read_analyst_brief(prompt), dice)
    return {**found, "patch": {"reasoning": reasoning, "edits": edits}}


#: The stages that the optimizer can answer; tests add other update modes.
STAGES: dict[str, Callable[[str, Dice], Reply]] = {
    "analyst_error": partial(_analyst, analyse_failures),
    "analyst_success": partial(_analyst, analyse_successes),
    **dict.fromkeys(("merge_failure", "merge_success", "merge_final"), merge_edits),
    "ranking": rank,
    "slow_update": slow_update,
    "meta_skill": lambda prompt, _: meta_skill(prompt),
}
