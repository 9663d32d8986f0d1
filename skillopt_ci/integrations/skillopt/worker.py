"""The worker's side of a SkillOpt adapter: its items, and the rollout of one item."""

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from skillopt import model, prompts
from skillopt.config import flatten_config, load_config
from skillopt.datasets.base import BatchSpec, SplitDataLoader
from skillopt.envs.base import EnvAdapter
from skillopt.optimizer.skill_aware import configure_skill_aware_reflection
from skillopt.prompts import load_prompt

from skillopt_ci.errors import UsageError
from skillopt_ci.integrations.skillopt.adapter import files_below, lay_out
from skillopt_ci.liveness import scratch_folder
from skillopt_ci.tasks.records import kind_of
from skillopt_ci.util import user_module
from skillopt_ci.worker import Side


def reflect(adapter: EnvAdapter, job: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    """The patches that the adapter proposes; in a fixed order if it writes them to files."""
    predictions, patches = folder / "predictions", folder / "patches"
    for path in (predictions, patches):
        path.mkdir()
    lay_out(job["files"], predictions)
    for name, value in job["settings"].items():
        setattr(adapter, name, value)
    getattr(adapter, "_cfg", {})["skill_update_mode"] = job["update_mode"]
    notes = job["notes_from"]
    configure_skill_aware_reflection(bool(notes), "both" if "success" in notes else "failure_only")
    returned = adapter.reflect(
        job["rows"],
        job["skill"],
        str(folder),
        prediction_dir=str(predictions),
        patches_dir=str(patches),
        random_seed=job["seed"],
        step_buffer_context=job["step_buffer"],
        meta_skill_context=job["meta_skill"],
    )
    kept = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(patches.glob("*.json"))]
    # SkillOpt returns patches in the order of arrival, but numbers its files.
    proposed = [dict(patch) for patch in returned or () if patch]
    return sorted(proposed, key=lambda patch: kept.index(patch) if patch in kept else len(kept))


def minibatch_prompts(adapter: EnvAdapter) -> dict[str, str | None]:
    return {
        "analyst_error": adapter.get_error_minibatch_prompt(),
        "analyst_success": adapter.get_success_minibatch_prompt(),
    }


def generic_prompt(name: str) -> str:
    """SkillOpt's prompt for all environments; empty if the installed package lacks it."""
    try:
        return str(load_prompt(name))
    except FileNotFoundError:
        return ""


#: SkillOpt's names for our splits, and for their folders.
_SPLITS = {"train": "train", "selection": "valid_seen", "test": "valid_unseen"}
_FOLDERS = {"train": "train", "selection": "val", "test": "test"}
#: SkillOpt's default.
_SEED = 42
_REFERENCES = ("answers", "answer", "gold_answers", "gold_answer", "ground_truth", "references")
#: Update modes, and the suffixes of their prompts' names.
_MODES = {
    "patch": "",
    "rewrite_from_suggestions": "_rewrite",
    "full_rewrite_minibatch": "_full_rewrite",
}
#: How SkillOpt marks its own failures, as opposed to the model's; it scores them 0.
_FAILURES = ("error:", "unexpected:", "task-timeout-")


def open_side(options: Mapping[str, Any], root: Path) -> "SkillOptSide":
    """Set up the adapter that ``options`` name. Raises UsageError."""
    sys.path.append(str(root))
    _find_prompts(options, root)
    given = options.get("config") or {}
    config = flatten_config(load_config(str(root / given)) if isinstance(given, str) else given)
    config.setdefault("out_root", "")
    config.pop("split_output_dir", None)  # the repository is read-only; a temporary folder is not
    kind = _adapter(options["adapter"], root)
    accepted = inspect.signature(kind.__init__).parameters
    adapter = kind(**{key: value for key, value in config.items() if key in accepted})
    if adapter.requires_ray():
        raise UsageError(f"{options['adapter']}: adapters that need Ray cannot be bridged")
    side = SkillOptSide(adapter, config)
    reflects = options.get("reflect") == "adapter" and kind.reflect is EnvAdapter.reflect
    asked = minibatch_prompts(adapter) if reflects else {}
    lacking = [name for name, text in asked.items() if text is None and not generic_prompt(name)]
    if lacking:
        raise UsageError(
            f"reflect: adapter needs the prompts {' and '.join(lacking)}, which the installed "
            "package skillopt lacks: put them into the folder prompt_files, or leave reflect out"
        )
    return side


class SkillOptSide(Side):
    """An adapter, set up; files that it generates at set-up go to a temporary folder."""

    def __init__(self, adapter: EnvAdapter, config: dict[str, Any]) -> None:
        self._scratch = scratch_folder("adapter")
        self._adapter = adapter
        self._seed = int(_SEED if config.get("seed") is None else config["seed"])
        adapter.setup({**config, "out_root": self._scratch.name})
        self._loader = loader = adapter.get_dataloader()
        if not hasattr(loader, "get_split_items"):
            raise UsageError("the adapter has no data loader that lists its items by split")
        self._items = {ours: list(loader.get_split_items(name)) for ours, name in _SPLITS.items()}

    def tasks(self) -> dict[str, list[dict[str, Any]]]:
        return {
            split: [self._told(split, number, item) for number, item in enumerate(items)]
            for split, items in self._items.items()
        }

    def facts(self) -> dict[str, Any]:
        return {
            "identity": {"versions": {"skillopt": version("skillopt")}},
            "prompts": dict(self._own_prompts()),
        }

    def _own_prompts(self) -> Iterator[tuple[str, str]]:
        for mode, suffix in _MODES.items():
            self._adapter._cfg["skill_update_mode"] = mode  # the adapter reads it there
            for name, text in minibatch_prompts(self._adapter).items():
                if text and text not in (generic_prompt(f"{name}{suffix}"), generic_prompt(name)):
                    yield f"{name}{suffix}", text

    def attempt(self, job: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        _point_at(job["base_url"], job["token"], "optimizer" if "reflect" in job else "judge")
        if "reflect" in job:
            return {"patches": reflect(self._adapter, job["reflect"], folder)}
        split, number = job["item"]
        item = self._items[split][number]
        env = self._adapter.build_env_from_batch(self._batch(split, item), out_root=str(folder))
        feedback = {"use_eval_feedback": True} if job["training"] else {}
        rows = self._adapter.rollout(env, job["skill"], str(folder), **feedback)
        row = next((row for row in rows if str(row.get("id")) == str(item["id"])), None)
        if row is None:
            return {"failure": f"the adapter gave no result for {item['id']!r}"}
        return _result(row) | (_evidence(row, folder) if job["evidence"] else {})

    def _batch(self, split: str, item: Any) -> BatchSpec:
        if isinstance(self._loader, SplitDataLoader):
            self._loader._splits[_FOLDERS[split]] = [item]  # only in this forked process
            if split == "train":
                return self._loader.build_train_batch(1, self._seed)
            return self._loader.build_eval_batch(1, _SPLITS[split], self._seed)
        phase = "train" if split == "train" else "eval"
        return BatchSpec(phase, _SPLITS[split], self._seed, 1, [item])

    def _told(self, split: str, number: int, item: Mapping[str, Any]) -> dict[str, Any]:
        references = next((item[key] for key in _REFERENCES if item.get(key)), ())
        listed = references if isinstance(references, list | tuple) else [references]
        hidden = {"id", "task_type", "reference_text", *_REFERENCES}
        asked = {key: value for key, value in item.items() if key not in hidden}
        text = json.dumps(asked, indent=1, ensure_ascii=False, default=str)
        kinds = self._adapter.get_task_types()
        return {
            "id": str(item["id"]),
            "messages": [{"role": "user", "content": text}],
            "references": [str(one) for one in listed],
            "type": kind_of(item) or (kinds[0] if len(kinds) == 1 else ""),
            "metadata": {"item": [split, number]},
            "reference_text": self._adapter.build_reference_text(dict(item)),
        }


def _find_prompts(options: Mapping[str, Any], root: Path) -> None:
    """Make SkillOpt find the prompt files that are missing from its wheel on PyPI (0.2.0)."""
    folder, installed = options.get("prompt_files"), Path(prompts.__file__).parent
    if not folder:
        bundled = "/" not in options["adapter"] and ":" not in options["adapter"]
        if bundled and not any(installed.glob("*.md")):
            raise UsageError(
                "the installed package skillopt lacks its prompt files, without which its own "
                "adapters cannot work: install it from a checkout (pip install -e), or name a "
                "folder with them as prompt_files"
            )
        return
    read = prompts._read_file  # the function that reads all prompts

    def read_anywhere(path: str) -> Any:
        parts = Path(path).relative_to(installed.parent).parts
        own = root / folder / (f"{parts[1]}/{parts[-1]}" if parts[0] == "envs" else parts[-1])
        return read(path) or read(str(own))

    prompts._read_file = read_anywhere


def _adapter(name: str, root: Path) -> type[EnvAdapter]:
    source, _, wanted = name.rpartition(":")
    where = source or f"skillopt.envs.{name}.adapter"
    try:
        module = user_module(where, root)
    except ModuleNotFoundError as error:
        raise UsageError(f"there is no adapter at {where}: {error}") from error
    here = (
        one for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__
    )
    for value in [getattr(module, wanted, None)] if source else here:
        if inspect.isclass(value) and issubclass(value, EnvAdapter):
            return value
    raise UsageError(f"{name!r} is not an EnvAdapter of SkillOpt's")


def _point_at(base_url: str, token: str, optimizer: str) -> None:
    """Make SkillOpt's model layer call the run's models, whatever its configuration says."""
    model.configure_azure_openai(endpoint=base_url, api_key=token, auth_mode="openai_compatible")
    for role in ("target", "optimizer"):
        getattr(model, f"set_{role}_backend")("openai_chat")
    model.set_target_deployment("target")
    # Outside reflection, adapters only use the optimizer for grading.
    model.set_optimizer_deployment(optimizer)


def _result(row: Mapping[str, Any]) -> dict[str, Any]:
    reason = str(row.get("fail_reason") or "")
    if (row.get("agent_ok") is False and reason) or reason.startswith(_FAILURES):
        return {"failure": reason}
    hard = row.get("hard", 0)
    return {
        "hard": hard,
        "soft": row.get("soft", hard),
        "reason": reason,
        "response": str(row.get("response") or row.get("predicted_answer") or ""),
        "answer": str(row.get("predicted_answer") or ""),
    }


def _evidence(row: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    told = json.loads(json.dumps(row, default=str, ensure_ascii=False))
    return {"row": told, "files": files_below(folder / "predictions")}
