import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from environments import OpenEnvironment, Script, ScriptedModel, attempt_now, opening
from opened_sides import check_openings

from skillopt_ci.config.config import Gradient
from skillopt_ci.errors import EnvironmentFailure, UsageError
from skillopt_ci.integrations.bridge import unpacked
from skillopt_ci.integrations.skillopt.adapter import SkillOptEnvironment
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatRequest, ModelRefusal, ModelUnavailable, Role
from skillopt_ci.rollout.environment import Reflecting
from skillopt_ci.rollout.types import Rollout, Status
from skillopt_ci.scorers.base import GraderError

pytest.importorskip("skillopt", reason="the extra `skillopt` is not installed")
pytestmark = pytest.mark.integration

#: The wheel of SkillOpt 0.2.0 lacks its prompt files; these are ours.
PROMPTS = {
    "searchqa/rollout_system.md": "Answer questions.\n{skill_section}Use <answer></answer>.\n",
    "searchqa/analyst_error.md": "You find out why answers about places are wrong.",
    "analyst_success.md": "You find out why answers are right.",
}

ADAPTER = """
from skillopt.datasets.base import SplitDataLoader
from skillopt.envs.base import EnvAdapter
import json
from pathlib import Path
from skillopt.model import chat_optimizer, chat_target

class Loader(SplitDataLoader):
    pass

class Little(EnvAdapter):
    def __init__(self, split_dir, mode="fine"):
        self.loader, self.mode = Loader(split_dir=split_dir, split_mode="split_dir"), mode

    def setup(self, cfg):
        super().setup(cfg)
        self.loader.setup(cfg)

    def get_dataloader(self):
        return self.loader

    def build_train_env(self, batch_size, seed, **kwargs):
        raise NotImplementedError

    build_eval_env = build_train_env

    def build_env_from_batch(self, batch, **kwargs):
        return [(batch.phase, batch.split, batch.seed, item) for item in batch.payload]

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        ((phase, split, seed, item),) = env_manager
        row = {"id": str(item["id"]), "hard": 0.5, "soft": 0.25, "n_turns": 1}
        match skill_content:
            case "failed":
                return [{**row, "agent_ok": False, "fail_reason": "error: no disk"}]
            case "late":
                return [{**row, "fail_reason": "task-timeout-60s"}]
            case "silent":
                return []
            case "wild":
                return [{**row, "hard": 3}]
            case _:
                text, _ = chat_target(system=skill_content, user="go", retries=3)
                fed = kwargs.get("use_eval_feedback", False)
                return [{**row, "response": text, "fail_reason": f"{phase} {split} {fed} {seed}"}]

    def get_task_types(self):
        return ["places"]

class Rays(Little):
    def requires_ray(self):
        return True

class Contrast(Little):
    def reflect(self, results, skill_content, out_dir, **kwargs):
        asked = {"rows": results, "skill": skill_content, **kwargs}
        asked["mine"] = [self.minibatch_size, self.failure_only, self.edit_budget]
        asked["cfg"] = self._cfg["skill_update_mode"]
        asked["files"] = {}
        for path in sorted(Path(kwargs["prediction_dir"]).rglob("*.*")):
            asked["files"][str(path.relative_to(kwargs["prediction_dir"]))] = path.read_text()
        if self.mode == "silent":
            return None
        text, _ = chat_optimizer(system="Contrast.", user=json.dumps(asked), retries=3)
        return [None, {"patch": {"edits": []}, "said": text}]

class NotOne:
    pass
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skillopt")
    for name, text in PROMPTS.items():
        (folder / "prompts" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "prompts" / name).write_text(text, encoding="utf-8")
    for offset, split in enumerate(("train", "val", "test")):
        (folder / "data" / split).mkdir(parents=True)
        items = [item(offset * 10 + n) for n in range(3)]
        (folder / "data" / split / "items.json").write_text(json.dumps(items), encoding="utf-8")
    (folder / "little.py").write_text(ADAPTER, encoding="utf-8")
    structured = "env:\n  name: searchqa\n  split_mode: split_dir\n  split_dir: data\n"
    (folder / "searchqa.yaml").write_text(structured, encoding="utf-8")
    return folder


def item(number: int) -> dict[str, object]:
    text = {"question": f"Where is {number}?", "context": f"[DOC] {number} is in Rome."}
    return {"id": f"q/{number}", "answers": ["Rome", "Roma"], **text}


@pytest.fixture(scope="module")
def opened(root: Path) -> Iterator[OpenEnvironment]:
    with opening(root) as open_one:
        yield lambda adapter, **more: open_one({"type": "skillopt", "adapter": adapter, **more})


def searchqa(opened: OpenEnvironment) -> Any:
    return opened("searchqa", config="searchqa.yaml", prompt_files="prompts")


def little(opened: OpenEnvironment) -> Any:
    return opened("little.py:Little", config={"split_dir": "data", "seed": 0})


def test_items_are_tasks_with_their_answers(opened):
    found = searchqa(opened)
    assert [task.id for task in found.tasks("selection")] == ["q/10", "q/11", "q/12"]
    task = found.tasks("train")[0]
    asked = json.loads(task.messages[0].content)
    assert asked == {"question": "Where is 0?", "context": "[DOC] 0 is in Rome."}
    assert (task.references, task.task_type) == (("Rome", "Roma"), "qa")


def test_a_generated_split_leaves_the_repository_alone(opened, root):
    keys = {"split_mode": "ratio", "data_path": "data/train/items.json", "split_ratio": "1:1:1"}
    found = opened("searchqa", config={**keys, "split_output_dir": "made"}, prompt_files="prompts")
    assert [len(found.tasks(split)) for split in ("train", "selection", "test")] == [1, 1, 1]
    assert not (root / "made").exists()


def test_searchqa_asks_our_target_and_grades_itself(opened):
    found = searchqa(opened)
    task = found.tasks("train")[1]
    made = attempt_now(found, task, lambda _: "It is <answer>the rome</answer>", "# Brevity")
    system, user, said = made.attempt.messages
    assert system.content == "Answer questions.\n## Skill\n# Brevity\n\nUse <answer></answer>.\n"
    assert "Where is 1?" in user.content
    assert said.content == made.attempt.response
    assert (made.score.hard, made.score.soft, made.score.answer) == (1.0, 1.0, "the rome")


def test_a_models_failure_is_never_scored_nor_retried_for_half_a_minute(opened):
    found, asked = searchqa(opened), list[ChatRequest]()
    for error in (ModelUnavailable("down"), ModelRefusal("filtered")):

        def fail(request: ChatRequest, error: Exception = error) -> Exception:
            asked.append(request)
            return error

        with pytest.raises(type(error)):
            attempt_now(found, found.tasks("train")[0], fail)
    assert len(asked) == 2


def test_the_adapters_own_prompts_are_the_analysts(opened):
    own = searchqa(opened).prompts()
    assert own["analyst_error"] == PROMPTS["searchqa/analyst_error.md"]
    assert "analyst_success" not in own  # the one for all environments is none of its own
    without = opened("searchqa", config="searchqa.yaml", prompt_files="prompts", prompts=False)
    assert without.prompts() == {}


@pytest.mark.parametrize(
    ("stage", "said"), [("rollout", "train train True 0"), ("selection", "eval valid_seen False 0")]
)
def test_an_adapter_is_told_what_it_rolls_out_for(opened, stage, said):
    found = little(opened)
    task = found.tasks("train" if stage == "rollout" else "selection")[0]
    made = attempt_now(found, task, lambda _: "went", stage=stage)
    assert (made.score.hard, made.score.soft, made.score.reason) == (0.5, 0.25, said)


@pytest.mark.parametrize(
    ("skill", "kind", "said"),
    [
        ("failed", EnvironmentFailure, "error: no disk"),
        ("late", EnvironmentFailure, "task-timeout-60s"),
        ("silent", EnvironmentFailure, "the adapter gave no result for 'q/0'"),
        ("wild", GraderError, "the adapter's hard score is 3"),
    ],
)
def test_what_skillopt_scores_0_for_its_own_failures_is_infrastructure(opened, skill, kind, said):
    found = little(opened)
    with pytest.raises(kind, match=said):
        attempt_now(found, found.tasks("train")[0], lambda _: "", skill)


def test_mistakes_are_told_for_people(opened, root):
    with pytest.raises(UsageError, match="there is no adapter at skillopt"):
        opened("serchqa", prompt_files="prompts").tasks("train")
    (root / "bare").mkdir()
    (root / "bare" / "rollout_system.md").write_text("", encoding="utf-8")
    bare = {"config": "searchqa.yaml", "prompt_files": "bare", "reflect": "adapter"}
    cases = [
        ({"adapter": "searchqa"}, "lacks its prompt files"),
        ({"adapter": "searchqa", "prompt_files": "prompts"}, "IsADirectoryError"),
        ({"adapter": "searchqa", **bare}, "needs the prompts analyst_error and analyst_success"),
        ({"adapter": "little.py:NotOne"}, "'little.py:NotOne' is not an EnvAdapter"),
        ({"adapter": "little.py:Rays", "config": {"split_dir": "data"}}, "Ray cannot be bridged"),
        ({"adapter": "little.py:Little", "config": {"split_dir": "nowhere"}}, "Missing 'train/'"),
    ]
    check_openings(SkillOptEnvironment.module, root, cases)


def rollouts(found: Any, *answers: str) -> tuple[Rollout, ...]:
    """Attempts at the first training tasks, as the runner hands them to reflection."""
    made = []
    for task, text in zip(found.tasks("train"), answers, strict=False):
        one = attempt_now(found, task, lambda _, text=text: text)
        made.append(
            Rollout(
                task_id=task.id,
                status=Status.SCORED,
                hard=one.score.hard,
                soft=one.score.soft,
                reason=one.score.reason,
                answer=one.score.answer,
                messages=one.attempt.messages,
                artifacts=one.attempt.artifacts,
            )
        )
    return tuple(made)


def reflected(found: Any, shown: tuple[Rollout, ...], script: Script, **more: Any) -> Any:
    """The patches of ``found`` on ``shown``, and the model that was asked."""
    gradient = Gradient(minibatch_size=2, failure_only=more.pop("failure_only", False))
    asked = Reflecting(shown, "# Skill", "patch", 3, gradient, seed=7, **more)
    model = ScriptedModel(script)
    return asyncio.run(found.reflect(asked, model)), model.requests


def patch(request: ChatRequest) -> str:
    """A reply that names the first task that it was shown."""
    number = request.messages[-1].content.split("(id=")[1].split(")")[0]
    edit = {"op": "append", "content": f"Mind {number}."}
    return json.dumps({"batch_size": 2, "patch": {"reasoning": "", "edits": [edit]}})


def reflecting(opened: OpenEnvironment) -> Any:
    return opened("searchqa", config="searchqa.yaml", prompt_files="prompts", reflect="adapter")


def test_searchqas_reflection_asks_our_optimizer_in_a_fixed_order(opened):
    found = reflecting(opened)
    shown = rollouts(found, "<answer>Paris</answer>", "<answer>Rome</answer>", "Oslo")
    patches, requests = reflected(found, shown, patch)
    assert [one["source_type"] for one in patches] == ["failure", "success"]
    assert patches[1]["patch"]["edits"][0]["content"] == "Mind q/1."
    assert {(one.role, one.stage) for one in requests} == {(Role.OPTIMIZER, "analyst")}
    heading = "Failed Trajectories (2 total)"
    told = next(one for one in requests if heading in one.messages[1].content)
    assert told.messages[0].content == PROMPTS["searchqa/analyst_error.md"]
    assert "at most L=3 edits" in told.messages[1].content
    assert "expected ['Rome', 'Roma']" in told.messages[1].content


def test_what_an_attempt_left_nothing_of_is_told_from_its_conversation(opened):
    found = reflecting(opened)
    (first,) = rollouts(found, "Paris")
    bare = replace(first, artifacts=b"", reason="refused: Paris", status=Status.REFUSED)
    _, (asked,) = reflected(found, (bare,), patch)
    for told in ("Failure reason: refused: Paris", "[assistant] Paris"):
        assert told in asked.messages[1].content


def test_reflection_wants_the_files_of_training_attempts_alone(opened):
    found = reflecting(opened)
    for stage, kept in (("rollout", True), ("selection", False)):
        made = attempt_now(found, found.tasks("selection")[0], lambda _: "Rome", stage=stage)
        assert ("files" in unpacked(made.attempt.artifacts)) is kept
    assert found.identity() == searchqa(opened).identity()  # who reflects changes no score


def test_a_refused_question_costs_that_question_alone_and_an_outage_all(opened):
    found = reflecting(opened)
    shown = rollouts(found, "Paris", "<answer>Rome</answer>")

    def refuse_failures(request: ChatRequest) -> str | Exception:
        failed = "Failed Trajectories" in request.messages[1].content
        return ModelRefusal("filtered") if failed else patch(request)

    patches, requests = reflected(found, shown, refuse_failures)
    assert [one["source_type"] for one in patches] == ["success"]
    assert len(requests) == 2  # not asked again
    with pytest.raises(ModelUnavailable, match="down"):
        reflected(found, shown, lambda _: ModelUnavailable("down"))


def contrast(opened: OpenEnvironment, mode: str = "fine") -> Any:
    config = {"split_dir": "data", "mode": mode}
    return opened("little.py:Contrast", config=config, reflect="adapter")


def test_an_adapters_own_reflection_sees_the_whole_batch_and_may_propose_nothing(opened):
    found = contrast(opened)
    (one,) = rollouts(found, "one")
    twice = replace(one, messages=(*one.messages, Message("user", "And?")), artifacts=b"")
    told = {"failure_only": True, "step_buffer": "Earlier.", "meta_skill": "Before."}
    patches, (asked,) = reflected(found, (one, twice), lambda _: "seen", **told)
    assert patches == [{"patch": {"edits": []}, "said": "seen"}]
    told = json.loads(asked.messages[1].content)
    assert [row["id"] for row in told["rows"]] == ["q/0", "q/0~2"]
    assert told["rows"][0]["fail_reason"] == "train train True 42"  # its row as it was
    assert list(told["files"]) == ["q/0~2/conversation.json"]
    assert (told["mine"], told["cfg"], told["random_seed"]) == ([2, True, 3], "patch", 7)
    assert (told["step_buffer_context"], told["meta_skill_context"]) == ("Earlier.", "Before.")
    assert reflected(contrast(opened, "silent"), (one,), patch) == ([], [])
