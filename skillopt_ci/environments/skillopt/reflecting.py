"""In the worker: the adapter's own ``reflect`` on a batch of rollouts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from skillopt.envs.base import EnvAdapter
from skillopt.optimizer.skill_aware import configure_skill_aware_reflection
from skillopt.prompts import load_prompt

from skillopt_ci.environments.skillopt.evidence import lay_out


def reflect(adapter: EnvAdapter, job: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    """The patches that the adapter proposes; in a fixed order, as far as it keeps them in files.

    The settings of the run stand where SkillOpt's trainer would have put its own.
    """
    predictions, patches = folder / "predictions", folder / "patches"
    for path in (predictions, patches):
        path.mkdir()
    lay_out(job["files"], predictions)
    for name, value in job["settings"].items():
        setattr(adapter, name, value)
    configuration = getattr(adapter, "_cfg", {})
    configuration["skill_update_mode"] = job["update_mode"]
    notes = job["notes_from"]
    configure_skill_aware_reflection(bool(notes), "both" if "success" in notes else "failure_only")
    found = adapter.reflect(
        job["rows"],
        job["skill"],
        str(folder),
        prediction_dir=str(predictions),
        patches_dir=str(patches),
        random_seed=job["seed"],
        step_buffer_context=job["step_buffer"],
        meta_skill_context=job["meta_skill"],
    )
    return _in_order([dict(one) for one in found or () if one], patches)


def lacking_prompts(adapter: EnvAdapter) -> tuple[str, ...]:
    """The prompts that the inherited ``reflect`` would look for in vain."""
    if type(adapter).reflect is not EnvAdapter.reflect:
        return ()
    own = {
        "analyst_error": adapter.get_error_minibatch_prompt(),
        "analyst_success": adapter.get_success_minibatch_prompt(),
    }
    return tuple(name for name, text in own.items() if text is None and not generic_prompt(name))


def generic_prompt(name: str) -> str:
    """SkillOpt's prompt for all environments; empty where the installed package lacks it."""
    try:
        return str(load_prompt(name))
    except FileNotFoundError:
        return ""


def _in_order(found: Sequence[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """``found`` in the order of the files that hold them; SkillOpt returns them as they came."""
    kept = list(_kept(folder))
    last = len(kept)
    return sorted(found, key=lambda one: kept.index(one) if one in kept else last)


def _kept(folder: Path) -> Iterator[Any]:
    for path in sorted(folder.glob("*.json")):
        yield json.loads(path.read_text(encoding="utf-8"))
