"""Comparison pairs as text for the optimizer: regressions first, everything untrusted in fences."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from skillopt_ci.config.config import Gradient
from skillopt_ci.messages import fenced
from skillopt_ci.prompts import library
from skillopt_ci.report.text import plural
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.pairs import Category, Pair, Side
from skillopt_ci.training.trajectory import conversation, keep_ends

_TITLES: Mapping[Category, str] = MappingProxyType(
    {
        Category.REGRESSED: "Regressions (HIGHEST PRIORITY)",
        Category.PERSISTENT_FAIL: "Persistent failures",
        Category.IMPROVED: "Improvements",
        Category.STABLE_SUCCESS: "Stable successes",
    }
)


def render_pairs(
    pairs: Sequence[Pair], earlier_skill: str, current_skill: str, gradient: Gradient
) -> str:
    """Return the comparison section: counts, then the pairs by category.

    All but stable successes come with both conversations, each of at most
    ``gradient.max_trajectory_chars`` characters. The tasks must be training tasks: their reference
    answers are shown.
    """
    groups = {kind: [pair for pair in pairs if pair.category is kind] for kind in _TITLES}
    counts = ", ".join(f"{len(group)} {_words(kind)}" for kind, group in groups.items())
    parts = [f"{plural(len(pairs), 'task')}: {counts}."]
    for category, group in groups.items():
        if group:
            parts.append(f"### {_TITLES[category]}: {len(group)}")
            skills = (earlier_skill, current_skill)
            parts += [_block(pair, skills, gradient) for pair in group]
    return library.section("Comparison", *parts)


def _block(pair: Pair, skills: tuple[str, str], gradient: Gradient) -> str:
    limit = gradient.max_trajectory_chars
    parts = [f"#### Task {_one_line(pair.task.id)}", fenced("\n".join(_facts(pair, limit)))]
    if pair.category is not Category.STABLE_SUCCESS:
        parts += _references(pair.task, limit)
        sides = (("previous", pair.before), ("current", pair.after))
        for (name, side), skill in zip(sides, skills, strict=True):
            rollout = side.telling
            if gradient.trace_to_optimizer and rollout.trace:
                parts += [f"##### Trace under the {name} skill"]
                parts += [fenced(keep_ends([rollout.trace], limit)[0])]
            entries = conversation(rollout.messages, {skill: f"[{name} skill as above]"}, limit)
            parts += [f"##### Conversation under the {name} skill", *map(fenced, entries)]
    return "\n\n".join(parts)


def _references(task: Task, limit: int) -> list[str]:
    listed = "\n".join(f"- {reference}" for reference in task.references)
    hidden = [text for text in (listed, task.reference_text) if text]
    kept = list(filter(None, keep_ends(hidden, limit)))
    return ["##### Hidden Reference", *map(fenced, kept)] if kept else []


def _facts(pair: Pair, max_chars: int) -> Iterator[str]:
    for name, side in (("previous", pair.before), ("current", pair.after)):
        shown = side.telling
        yield f"{name}: {_verdict(side)}, soft {side.soft:.2f}, answer {_answer(shown, max_chars)}"
        if shown.failed and shown.reason:
            yield f"{name} failure reason: {keep_ends([_one_line(shown.reason)], max_chars)[0]}"


def _verdict(side: Side) -> str:
    """In one word, where all attempts came to the same."""
    solved, made = sum(one.succeeded for one in side.attempts), len(side.attempts)
    if 0 < solved < made:
        return f"PASS in {solved} of {made} attempts"
    return "PASS" if solved else "FAIL"


def _answer(rollout: Rollout, max_chars: int) -> str:
    return keep_ends([_one_line(rollout.answer) or "(none)"], max_chars)[0]


def _words(category: Category) -> str:
    return category.value.replace("_", " ")


def _one_line(text: str) -> str:
    return " ".join(text.split())
