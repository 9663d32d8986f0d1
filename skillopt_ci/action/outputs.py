"""The action's outputs, folded from the JSON objects that a command printed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

Result = Mapping[str, Any]


def _output(text: str) -> Any:
    return field(default="", metadata={"text": text})


@dataclass(frozen=True, slots=True)
class Outputs:
    """What later steps of a job can read; empty where there is nothing to say."""

    result: str = _output(
        "`done`, `nothing-to-do`, `inconclusive` (a budget ended it), `superseded` (another run "
        "was first), `skipped` (the event asks for nothing) or `failed`."
    )
    action: str = _output("What the last step came to, such as `accept_new_best` or `reject`.")
    step: str = _output("Number of the last step.")
    score_before: str = _output("Score of the skill before the first step, or at base.")
    score_after: str = _output("Score of the last candidate, or at head.")
    improved: str = _output("`true` if a candidate was merged, or the compared skill is better.")
    commit: str = _output("Tip of the skills branch.")
    pull_request: str = _output("Number of the pull request.")
    finding: str = _output(
        "For `eval` of a pull request: `improvement`, `regression`, `no clear difference` or "
        "`inconclusive`."
    )
    report: str = _output("Markdown file with what the comment says, relative to the workspace.")
    page: str = _output(
        "One HTML file that shows the whole run, relative to the workspace; after what trains, "
        "`comment` and `report`."
    )
    cost_usd: str = _output("US dollars that this job spent; empty if a price is unknown.")
    matrix: str = _output(
        "For `plan`: the matrix of `rollout` jobs; for `discover`: of runs. For `fromJSON`."
    )
    phase: str = _output("For `plan`: what the rollouts are for; empty if there is nothing to do.")

    def by_name(self) -> dict[str, str]:
        """Each output's value by its name in ``action.yml``."""
        return {output_name(entry.name): getattr(self, entry.name) for entry in fields(self)}


def output_texts() -> dict[str, str]:
    """Each output's description by its name in ``action.yml``."""
    return {output_name(entry.name): entry.metadata["text"] for entry in fields(Outputs)}


def output_name(attribute: str) -> str:
    """The output's name in ``action.yml``."""
    return attribute.replace("_", "-")


def fold(results: Sequence[Result]) -> Outputs:
    """The outputs of a job in which a command printed ``results``, in this order."""
    if not results or "bytes" in results[-1]:
        return Outputs()
    last = results[-1]
    if "matrix" in last:
        return Outputs(matrix=_compact(last["matrix"]), phase=_text(last.get("phase")))
    if "skills" in last:
        return _evaluation(last)
    if "score_initial" in last:
        return _standing(last)
    if "best_gain" in last and len(results) == 1:
        return _end(last)
    return _steps(results)


def _steps(results: Sequence[Result]) -> Outputs:
    steps = [result for result in results if "score_before" in result]
    outputs = Outputs(
        commit=_text(results[-1].get("commit")),
        cost_usd=_text(_total(result["cost_usd"] for result in results if "cost_usd" in result)),
    )
    if not steps:
        return outputs
    last = steps[-1]
    return replace(
        outputs,
        action=_text(last.get("action")),
        step=_text(last.get("step")),
        score_before=_text(steps[0]["score_before"]),
        score_after=_text(last.get("score_after")),
        improved=_text(any(str(step.get("action")).startswith("accept") for step in steps)),
    )


def _evaluation(result: Result) -> Outputs:
    skills, difference = result["skills"], result.get("difference")
    return Outputs(
        score_before=_text(skills[0]["hard"] if len(skills) > 1 else None),
        score_after=_text(skills[-1]["hard"]),
        improved=_text(None if difference is None else difference["hard"] > 0),
        cost_usd=_text(result.get("cost_usd")),
    )


def _standing(result: Result) -> Outputs:
    before, after = result["score_initial"], result["score_current"]
    return Outputs(
        step=_text(result.get("step")),
        score_before=_text(before),
        score_after=_text(after),
        improved=_text(None if before is None else after > before),
        commit=_text(result.get("commit")),
    )


def _end(result: Result) -> Outputs:
    initial, best, gain = (result[key] for key in ("initial", "best", "best_gain"))
    return Outputs(
        step=_text(result["step"]),
        score_before=_text((initial["test"] or {}).get("hard")),
        score_after=_text((best["test"] or {}).get("hard")),
        improved=_text(None if gain is None else gain["mean"] > 0),
        commit=_text(result["commit"]),
    )


def _total(costs: Iterable[float | None]) -> float | None:
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
