"""SkillOpt's own trainer on the world's tasks, over HTTP; runs in SkillOpt's environment.

``python -m bench.systems.skillopt_run --tasks DIR --base-url URL --seed N --out DIR`` ends with a
line of JSON: the best skill, and every candidate with the skill it was to replace.
"""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from skillopt.datasets.base import BatchSpec, SplitDataLoader
from skillopt.engine.trainer import ReflACTTrainer
from skillopt.envs.base import EnvAdapter
from skillopt.model import chat_target

from bench.systems.grading import extracted

_SYSTEM = "You work on case files. Follow your skill.\n\n# Skill\n\n{skill}"

#: What `configs/_base_/default.yaml` of the release says, in the trainer's own flat spelling.
DEFAULTS: dict[str, Any] = {
    "num_epochs": 4,
    "train_size": 0,
    "batch_size": 40,
    "accumulation": 1,
    "minibatch_size": 8,
    "merge_batch_size": 8,
    "analyst_workers": 16,
    "failure_only": False,
    "edit_budget": 4,
    "min_edit_budget": 2,
    "lr_scheduler": "cosine",
    "lr_control_mode": "fixed",
    "skill_update_mode": "patch",
    "use_slow_update": True,
    "slow_update_samples": 20,
    "slow_update_gate_with_selection": False,
    "longitudinal_pair_policy": "mixed",
    "use_meta_skill": True,
    "use_skill_aware_reflection": False,
    "use_gate": True,
    "gate_metric": "hard",
    "sel_env_num": 0,
    "test_env_num": 0,
    "eval_test": True,
    "split_mode": "split_dir",
    "reasoning_effort": "medium",
}


class EnoughSteps(Exception):
    """Ends a run between two steps: whole epochs are too coarse for a comparison by cost."""


class CaseLoader(SplitDataLoader):
    """The world's tasks as SkillOpt's split directory."""


class CaseAdapter(EnvAdapter):
    """One chat call per case, graded by exact match."""

    def __init__(self, split_dir: str, workers: int, seed: int, out: Path, stop_after: int) -> None:
        self.workers = workers
        self.history = out / "history.json"
        self.stop_after = stop_after
        self.analyst_workers = DEFAULTS["analyst_workers"]
        self.failure_only = DEFAULTS["failure_only"]
        self.minibatch_size = DEFAULTS["minibatch_size"]
        self.edit_budget = DEFAULTS["edit_budget"]
        self.dataloader = CaseLoader(split_dir=split_dir, split_mode="split_dir", seed=seed)

    def setup(self, cfg: dict[str, Any]) -> None:
        super().setup(cfg)
        self.dataloader.setup(cfg)

    def get_dataloader(self) -> CaseLoader:
        return self.dataloader

    def build_env_from_batch(self, batch: BatchSpec, **_: Any) -> list[dict[str, Any]]:
        return list(batch.payload or [])

    def build_train_env(self, batch_size: int, seed: int, **kw: Any) -> list[dict[str, Any]]:
        batch = self.dataloader.build_train_batch(batch_size=batch_size, seed=seed, **kw)
        return self.build_env_from_batch(batch)

    def build_eval_env(
        self, env_num: int, split: str, seed: int, **kw: Any
    ) -> list[dict[str, Any]]:
        batch = self.dataloader.build_eval_batch(env_num=env_num, split=split, seed=seed, **kw)
        return self.build_env_from_batch(batch)

    def rollout(
        self, env_manager: list[dict[str, Any]], skill_content: str, out_dir: str, **_: Any
    ) -> list[dict[str, Any]]:
        done = json.loads(self.history.read_text()) if self.history.exists() else ()
        if self.stop_after and len(done) >= self.stop_after:
            raise EnoughSteps
        system = _SYSTEM.format(skill=skill_content)
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(lambda item: _attempt(item, system, Path(out_dir)), env_manager))

    def get_task_types(self) -> list[str]:
        return sorted({item["task_type"] for item in self.dataloader.train_items})


def _attempt(item: dict[str, Any], system: str, out: Path) -> dict[str, Any]:
    response, _ = chat_target(system=system, user=item["question"], stage="rollout")
    right = extracted(response) == item["answer"]
    folder = out / "predictions" / item["id"]
    folder.mkdir(parents=True, exist_ok=True)
    said = [
        {"role": "user", "content": item["question"]},
        {"role": "agent", "content": response},
    ]
    (folder / "conversation.json").write_text(json.dumps(said))
    return {
        "id": item["id"],
        "hard": int(right),
        "soft": float(right),
        "task_type": item["task_type"],
        "task_description": item["question"],
        "question": item["question"],
        "reference_text": item["answer"],
        "predicted_answer": extracted(response),
        "fail_reason": "" if right else "wrong answer",
        "n_turns": 1,
    }


def candidates(out: Path, initial: str) -> list[dict[str, Any]]:
    """Every candidate with the skill that it was to replace, in order.

    SkillOpt takes guidance at an epoch's end over without measuring it.
    """
    history = json.loads((out / "history.json").read_text())
    current, found = initial, []
    for number, record in enumerate(history):
        file = out / "steps" / f"step_{record['step']:04d}" / "candidate_skill.md"
        if record["action"] in {"accept", "accept_new_best", "reject"} and file.exists():
            candidate, accepted = file.read_text(), record["action"] != "reject"
            found.append(_change(current, candidate, accepted=accepted, gated=True))
            current = candidate if accepted else current
        if number + 1 == len(history) or history[number + 1]["epoch"] != record["epoch"]:
            standing = (out / "skills" / f"skill_v{record['step']:04d}.md").read_text()
            if record["epoch"] > 1 and standing != current:
                found.append(_change(current, standing, accepted=True, gated=False))
            current = standing
    return found


def _change(before: str, after: str, *, accepted: bool, gated: bool) -> dict[str, Any]:
    return {"before": before, "after": after, "accepted": accepted, "gated": gated}


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--config", default="{}", help="settings other than the defaults, as JSON")
    given = parser.parse_args()
    endpoint = {
        "model_backend": "azure_openai",
        "azure_openai_endpoint": given.base_url,
        "azure_openai_auth_mode": "openai_compatible",
        "azure_openai_api_key": "none",
        "optimizer_model": "optimizer",
        "target_model": "target",
    }
    initial = given.tasks / "initial.md"
    paths = {"out_root": str(given.out), "skill_init": str(initial), "env": "cases"}
    cfg = {**DEFAULTS, **endpoint, **paths, "seed": given.seed, **json.loads(given.config)}
    stop_after = cfg.pop("stop_after", 0)
    given.out.mkdir(parents=True, exist_ok=True)
    adapter = CaseAdapter(str(given.tasks), given.workers, given.seed, given.out, stop_after)
    with suppress(EnoughSteps):
        ReflACTTrainer(cfg, adapter).train()
    best = (given.out / "best_skill.md").read_text()
    found = candidates(given.out, initial.read_text())
    (given.out / "result.json").write_text(json.dumps({"best": best, "candidates": found}))


if __name__ == "__main__":
    main()
