"""The scorer for answers that are JSON."""

import json
from typing import Any

from skillopt_ci.config.scorers import JsonScorer
from skillopt_ci.tasks.scorers.grading import needs_references, verdict
from skillopt_ci.tasks.scorers.score import GraderError, Score
from skillopt_ci.tasks.scorers.wording import mismatch, one_line, quote
from skillopt_ci.tasks.task import Task


def grade_json(spec: JsonScorer, task: Task, answer: str) -> Score:
    """Solved when the answer satisfies the schema or, without one, equals a reference as data.

    Raises :class:`GraderError` when the schema refers to something that is not in it.
    """
    try:
        value = _parse(answer)
    except (ValueError, RecursionError) as error:
        return verdict(False, one_line(f"{quote(answer)} is not JSON: {error}"), answer)
    if spec.schema_ is not None:
        fault = _violation(spec.schema_, value)
        return verdict(not fault, fault or "satisfies the schema", answer)
    solved = any(same_json(value, _parse(reference)) for reference in task.references)
    reason = "equals a reference" if solved else mismatch(task.references, answer)
    return verdict(solved, reason, answer)


def same_json(left: object, right: object) -> bool:
    """Equality of JSON values: members in any order, 1 equals 1.0, true does not equal 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return left == right


def check_json_references(spec: JsonScorer, task: Task) -> str | None:
    """Why the references cannot be compared with JSON; None if they can."""
    if spec.schema_ is not None:
        return None
    for reference in task.references:
        try:
            _parse(reference)
        except (ValueError, RecursionError) as error:
            return f"the reference {quote(reference)} is not JSON: {error}"
    return needs_references(spec, task)


def _violation(schema: dict[str, Any], value: Any) -> str:
    # Only a scorer with a schema pays for these.
    from jsonschema.exceptions import best_match  # noqa: PLC0415
    from jsonschema.validators import Draft202012Validator, validator_for  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    # An empty registry: a schema must not make the grader fetch anything.
    validator = validator_for(schema, default=Draft202012Validator)(schema, registry=Registry())
    try:
        error = best_match(validator.iter_errors(value))
    except Unresolvable as unresolvable:
        raise GraderError(f"the JSON Schema refers to {unresolvable}, which is not in it") from None
    return one_line(f"{error.json_path}: {error.message}") if error else ""


def _parse(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")
