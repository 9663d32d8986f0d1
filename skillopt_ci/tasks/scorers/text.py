"""Scorers that compare the answer with reference texts: exact, normalised, F1, ANLS."""

import re
import string
from collections import Counter

from skillopt_ci.config.scorers import AnlsScorer, ExactScorer, F1Scorer, NormalizedScorer
from skillopt_ci.tasks.scorers.grading import reaches, verdict
from skillopt_ci.tasks.scorers.score import Score
from skillopt_ci.tasks.scorers.wording import mismatch
from skillopt_ci.tasks.task import Task

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_DROP_PUNCTUATION = str.maketrans("", "", string.punctuation)


def grade_exact(_spec: ExactScorer, task: Task, answer: str) -> Score:
    """Solved when a reference equals the answer, surrounding space aside."""
    solved = answer.strip() in {reference.strip() for reference in task.references}
    return _graded(solved, task, answer)


def grade_normalized(_spec: NormalizedScorer, task: Task, answer: str) -> Score:
    """Solved when a reference equals the answer after SQuAD's normalisation."""
    return _graded(_equal_normalized(task, answer), task, answer)


def grade_f1(_spec: F1Scorer, task: Task, answer: str) -> Score:
    """Soft is the best F1 over the references, hard asks for normalised equality."""
    best = max(token_f1(answer, reference) for reference in task.references)
    return _graded(_equal_normalized(task, answer), task, answer, best, "F1")


def grade_anls(spec: AnlsScorer, task: Task, answer: str) -> Score:
    """Soft is the best similarity over the references."""
    best = max(anls(answer, reference, spec.threshold) for reference in task.references)
    return _graded(reaches(best, spec.hard_at), task, answer, best, "ANLS")


def normalized(text: str) -> str:
    """Lower case without ASCII punctuation, English articles and extra space.

    A text of which nothing would be left (the answer "A", the operator "+") stands for itself.
    """
    bare = _ARTICLE.sub(" ", text.lower().translate(_DROP_PUNCTUATION))
    return " ".join(bare.split()) or text.strip().lower()


def token_f1(answer: str, reference: str) -> float:
    """Harmonic mean of precision and recall over bags of normalised words, from 0 to 1."""
    left, right = Counter(normalized(answer).split()), Counter(normalized(reference).split())
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 1.0


def anls(answer: str, reference: str, threshold: float) -> float:
    """Share of characters that need no edit; 0 from a relative distance of ``threshold`` on."""
    from rapidfuzz.distance import Levenshtein  # noqa: PLC0415 - only this scorer pays for it

    left, right = (" ".join(text.lower().split()) for text in (answer, reference))
    distance = Levenshtein.normalized_distance(left, right)
    return 1.0 - distance if distance < threshold or distance == 0 else 0.0


def _equal_normalized(task: Task, answer: str) -> bool:
    return normalized(answer) in {normalized(reference) for reference in task.references}


def _graded(
    solved: bool, task: Task, answer: str, soft: float | None = None, measure: str = ""
) -> Score:
    detail = f"; {measure} {soft:.2f}" if soft is not None else ""
    reason = "equals a reference" if solved else mismatch(task.references, answer) + detail
    return verdict(solved, reason, answer, soft=soft)
