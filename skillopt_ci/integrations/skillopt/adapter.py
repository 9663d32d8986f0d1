"""SkillOpt's environment adapters: their items become tasks, their rollout solves and grades."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from skillopt_ci.integrations import bridge
from skillopt_ci.model.types import ChatClient, Role
from skillopt_ci.rollout.environment import Reflecting, Split
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.tasks.task import Task
from skillopt_ci.util import pick


def _evidence(rollouts: Sequence[Rollout]) -> tuple[list[dict[str, object]], dict[str, str]]:
    rows, files, seen = list[dict[str, object]](), dict[str, str](), Counter[str]()
    for rollout in rollouts:
        task = rollout.task_id
        seen[task] += 1
        name = task if seen[task] == 1 else f"{task}~{seen[task]}"
        left = dict[str, Any]()
        with suppress(GraderError):
            left = bridge.unpacked(rollout.artifacts)
        if "row" not in left:
            facts = "hard soft fail_reason=reason task_type n_turns predicted_answer=answer"
            row = pick(rollout, facts)
            said = [pick(one, "role content") for one in rollout.messages if one.role != "system"]
            # ASCII, because SkillOpt reads it in the locale's encoding.
            left = {"row": row, "files": {f"{task}/conversation.json": json.dumps(said)}}
        rows.append({**left["row"], "id": name})
        for path, text in left["files"].items():
            within = path.removeprefix(f"{task}/")
            files[path if within == path else f"{name}/{within}"] = text
    return rows, files


class SkillOptOptions(bridge.BridgeOptions):
    adapter: str = Field(min_length=1)
    """One of SkillOpt's own (`searchqa`), `package.module:Class` or `path/to/file.py:Class`."""
    config: str | dict[str, object] = Field(default_factory=dict)
    """SkillOpt's configuration: a YAML file of its own, or the keys, flat or in its sections."""
    prompts: bool = True
    """Use the adapter's prompts for the analysts, where it has its own."""
    reflect: Literal["ours", "adapter"] = "ours"
    """Who reads trajectories and proposes edits: our analysts, or the adapter's own `reflect`."""
    prompt_files: str | None = None
    """A folder of prompts that the package lacks: `<name>.md`, `<environment>/<name>.md`."""


class SkillOptEnvironment(bridge.BridgeEnvironment[SkillOptOptions]):
    kind = "skillopt"
    package = "skillopt"
    module = "skillopt_ci.integrations.skillopt.worker"
    shape = SkillOptOptions

    def tasks(self, split: Split) -> tuple[Task, ...]:
        return tuple(map(bridge.told_task, self.worker.tasks[split]))

    def prompts(self) -> Mapping[str, str]:
        return self.worker.facts["prompts"] if self._read.prompts else {}

    def job(self, task: Task, place: Workplace) -> Mapping[str, object]:
        training = place.stage == "rollout"
        return {
            "item": task.metadata["item"],
            "training": training,
            "evidence": training and self.reflects,
        }

    @property
    def reflects(self) -> bool:
        return self._read.reflect == "adapter"

    async def reflect(
        self, asked: Reflecting, client: ChatClient
    ) -> Sequence[Mapping[str, object]]:
        rows, files = _evidence(asked.rollouts)
        settings = pick(asked.gradient, "analyst_workers failure_only minibatch_size")
        if asked.budget is not None:
            settings["edit_budget"] = asked.budget
        job = {
            "rows": rows,
            "files": files,
            "settings": settings,
            **pick(asked, "skill update_mode seed step_buffer meta_skill"),
            "notes_from": sorted(asked.notes_from),
        }
        talk = bridge.Conversation(client, "analyst", 0, roles=(Role.OPTIMIZER,))
        async with aclosing(talk.hold(self.worker.attempt, {"reflect": job})) as steps:
            async for _ in steps:
                pass  # the models' answers suffice
        return list(talk.result["patches"])

    def identity(self) -> Mapping[str, object]:
        """Options and versions, without ``reflect``, which does not affect scores."""
        options = {key: one for key, one in self.options.items() if key != "reflect"}
        return {**super().identity(), "options": options}

    def score(self, result: Mapping[str, Any]) -> Score:
        """The scores in the adapter's row; as in SkillOpt, the hard score may be partial."""
        hard, soft = (
            bridge.checked_share(result[key], f"the adapter's {key} score")
            for key in ("hard", "soft")
        )
        return Score(hard, soft, str(result["reason"]), str(result["answer"]))


#: Larger files are ignored: no analyst reads them.
MOST_BYTES = 2_000_000


def files_below(folder: Path) -> dict[str, str]:
    """The text files below ``folder``, by relative path; skips links and large files."""
    found = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_BYTES:
            continue
        with suppress(UnicodeDecodeError):  # a workbook or a picture: analysts only read text
            found[path.relative_to(folder).as_posix()] = path.read_text(encoding="utf-8")
    return found


def lay_out(files: Mapping[str, str], folder: Path) -> None:
    """Write ``files`` below ``folder``. Raises ValueError for a path that leads out of it."""
    for name, text in files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{name!r} leads out of the folder of predictions")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
