"""A batch of rollouts as SkillOpt's ``reflect`` expects it: rows, files, and its settings."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from skillopt_ci.environments.bridge import unpacked
from skillopt_ci.messages import Message
from skillopt_ci.rollout.environment import Reflecting
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.scorers.base import GraderError

Files = Mapping[str, str]


def reflection_job(asked: Reflecting) -> Mapping[str, object]:
    """What the worker is to do: ``reflect`` on the rollouts, with the settings of the run."""
    rows, files = _evidence(asked.rollouts)
    gradient = asked.gradient
    settings: dict[str, object] = {
        "analyst_workers": gradient.analyst_workers,
        "failure_only": gradient.failure_only,
        "minibatch_size": gradient.minibatch_size,
    }
    if asked.budget is not None:
        settings["edit_budget"] = asked.budget
    job = {
        "rows": rows,
        "files": files,
        "settings": settings,
        "skill": asked.skill,
        "update_mode": asked.update_mode,
        "seed": asked.seed,
        "step_buffer": asked.step_buffer,
        "meta_skill": asked.meta_skill,
        "notes_from": sorted(asked.notes_from),
    }
    return {"reflect": job}


def _evidence(rollouts: Sequence[Rollout]) -> tuple[list[dict[str, object]], dict[str, str]]:
    """Rows and files of all ``rollouts``; of several attempts at an item each has an id of its own.

    Attempts are told apart by a number behind the id, from the second one on.
    """
    rows, files, seen = list[dict[str, object]](), dict[str, str](), Counter[str]()
    for rollout in rollouts:
        seen[rollout.task_id] += 1
        number = seen[rollout.task_id]
        name = rollout.task_id if number == 1 else f"{rollout.task_id}~{number}"
        row, own = _told(rollout)
        rows.append({**row, "id": name})
        for path, text in own.items():
            within = path.removeprefix(f"{rollout.task_id}/")
            files[path if within == path else f"{name}/{within}"] = text
    return rows, files


def _told(rollout: Rollout) -> tuple[Mapping[str, object], Files]:
    """The adapter's own row and files, or what we know where it left none (a refusal, a limit)."""
    left = _left(rollout.artifacts)
    if "row" in left:
        return left["row"], left["files"]
    row = {
        "hard": rollout.hard,
        "soft": rollout.soft,
        "fail_reason": rollout.reason,
        "task_type": rollout.task_type,
        "n_turns": rollout.n_turns,
        "predicted_answer": rollout.answer,
    }
    # read with the locale's encoding there
    talk = json.dumps([_said(one) for one in rollout.messages if one.role != "system"])
    return row, {f"{rollout.task_id}/conversation.json": talk}


def _left(artifacts: bytes) -> Mapping[str, Any]:
    try:
        return unpacked(artifacts)
    except GraderError:
        return {}


def _said(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": message.content}
