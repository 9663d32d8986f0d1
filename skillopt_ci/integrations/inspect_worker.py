"""The worker's side of Inspect AI tasks; imports nothing of ours but the worker's protocol."""

import gc
import random
import sys
from collections.abc import Mapping
from copy import copy
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from inspect_ai import Task, eval, task_with  # noqa: A004
from inspect_ai._eval.context import init_model_context
from inspect_ai._eval.loader import load_tasks
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.hooks import Hooks, SampleScoring, hooks
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import ChatMessageSystem, Model, ModelOutput, get_model, modelapi
from inspect_ai.model._providers.openai_compatible import OpenAICompatibleAPI
from inspect_ai.scorer import Target, includes, value_to_float
from inspect_ai.scorer._scorer import unique_scorer_name
from inspect_ai.solver import Generate, Solver, TaskState, chain, solver
from inspect_ai.util import LimitExceededError
from openai import APIStatusError, DefaultAsyncHttpxClient, PermissionDeniedError
from pydantic_core import to_jsonable_python

from skillopt_ci.errors import UsageError
from skillopt_ci.util import user_text
from skillopt_ci.worker import Side

#: Inspect's limits by our names; others have no counterpart here.
_LIMITS = {
    **dict.fromkeys(("time", "working"), "time"),
    **dict.fromkeys(("message", "turn"), "steps"),
    "token": "tokens",
    "cost": "cost",
}


class _Lent(OpenAICompatibleAPI):
    def handle_bad_request(self, ex: APIStatusError) -> ModelOutput | Exception:
        if isinstance(ex, PermissionDeniedError):  # a limit: Inspect scores the work so far
            raise LimitExceededError("custom", value=1, limit=1, message=ex.message)
        return super().handle_bad_request(ex)


#: The run's models, which a task may ask for as it loads. Each attempt tells their address.
_LENT = {
    name: _Lent(f"skillopt-ci/{name}", "http://localhost", "-", stream=False)
    for name in ("target", "judge")
}


@modelapi("skillopt-ci")
def _lent() -> Any:
    def find(model_name: str, **_: object) -> _Lent:
        if model_name not in _LENT:
            raise UsageError(f"there is no model skillopt-ci/{model_name}, only target and judge")
        return _LENT[model_name]

    return find


def open_side(options: Mapping[str, Any], root: Path) -> "InspectSide":
    """Load the task that ``options`` name. Raises UsageError unless there is exactly one."""
    sys.path.append(str(root))
    name = options["task"]
    file = root / name.partition("@")[0]
    if file.suffix == ".py":
        compile(user_text(file), file, "exec")  # Inspect would find no task in a file with errors
    random.seed(0)  # so that a dataset that the task shuffles is divided alike each time
    init_model_context(get_model("skillopt-ci/target"), {"grader": get_model("skillopt-ci/judge")})
    found = load_tasks([name], dict(options.get("args") or {}))
    if len(found) != 1:
        names = ", ".join(task.name for task in found) or "none"
        raise UsageError(f"{name!r} names {len(found)} tasks ({names}); say which, as file.py@task")
    _rehearse()
    hooks("skillopt-ci", "tells when the solver has ended")(Told)
    return InspectSide(found[0])


def _rehearse() -> None:
    """Make Inspect import its modules before attempts fork; mockllm's calls download a table."""
    task = Task([Sample("-", target="-")], solver=_read_skill("-"), scorer=includes())
    gc.disable()  # collections during the imports would waste time
    with TemporaryDirectory() as folder:
        _evaluate(task, get_model("mockllm/model"), get_model("mockllm/model"), Path(folder))
    gc.freeze()  # collections in forks would copy these objects' pages
    gc.enable()


class InspectSide(Side):
    shares_process = True  # as Inspect's own evaluations do

    def __init__(self, task: Task) -> None:
        self._task = task
        # Samples without an id are numbered as in Inspect, which refuses duplicates too.
        self._samples = {
            str(number if sample.id is None else sample.id): sample
            for number, sample in enumerate(task.dataset, start=1)
        }
        if len(self._samples) < len(task.dataset):
            raise UsageError("several samples of its dataset have the same id")

    def tasks(self) -> list[dict[str, Any]]:
        return [_told(key, sample) for key, sample in self._samples.items()]

    def facts(self) -> dict[str, Any]:
        scorers = self._task.scorer or []
        first = {"first_scorer": unique_scorer_name(scorers[0], [])} if len(scorers) > 1 else {}
        # increment when the same samples and answers are scored differently
        known = {"grading": 2, "versions": {"inspect_ai": version("inspect_ai")}}
        return {"identity": {**known, **first}}

    def attempt(self, job: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        for api in _LENT.values():
            api.base_url, api.api_key = job["base_url"], job["token"]
            # Plain HTTP on this machine needs no certificates, which take time to load.
            api.http_client = DefaultAsyncHttpxClient(verify=False)
            api.initialize()
        target, judge = (get_model(f"skillopt-ci/{name}") for name in _LENT)
        # An evaluation modifies task and sample, and this process makes further attempts.
        task = task_with(
            copy(self._task),
            dataset=MemoryDataset([self._samples[job["sample"]].model_copy(deep=True)]),
            setup=chain(self._task.setup or [], _read_skill(job["skill"])),
            model=target,  # Inspect prefers it to that of the evaluation
            epochs=1,
        )
        log = _evaluate(task, target, judge, folder)
        if not log.samples:
            return {"failure": log.error.message if log.error else "no sample was evaluated"}
        return _result(log.samples[0], bool(task.score_on_error))


class Told(Hooks):
    async def on_sample_scoring(self, _: SampleScoring) -> None:
        await _LENT["target"].client.post("/grading", cast_to=object)


def _evaluate(task: Task, target: Model, judge: Model, folder: Path) -> EvalLog:
    return eval(
        task,
        model=target,
        model_roles={"grader": judge},
        display="log",  # draws no tables
        acp_server=False,
        ctl_server=False,
        log_dir=str(folder / "logs"),
        log_format="json",
        log_realtime=False,
        log_level="error",
        fail_on_error=False,
        score_display=False,
        max_samples=1,
    )[0]


@solver
def _read_skill(skill: str) -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
        if skill.strip():
            state.messages.insert(0, ChatMessageSystem(content=skill))
        return state

    return solve


def _result(sample: EvalSample, scored_on_error: bool) -> dict[str, Any]:
    if sample.error is not None and not (scored_on_error and sample.scores):
        # Inspect scores what a limit ended, but not what failed.
        what = "the scorer failed after a limit" if sample.limit else "Inspect ended the sample"
        return {"failure": f"{what}: {sample.error.message}", "scoring": bool(sample.limit)}
    scores = {
        name: {
            "value": _value(score.value, value_to_float()),
            "answer": score.answer or "",
            "explanation": score.explanation or "",
        }
        for name, score in (sample.scores or {}).items()
    }
    limit = _LIMITS.get(sample.limit.type) if sample.limit else None
    return {"response": sample.output.completion, "scores": scores, "limit": limit}


def _value(value: Any, number: Any) -> Any:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {key: _value(one, number) for key, one in items}
    return number(value)


def _told(key: str, sample: Sample) -> dict[str, Any]:
    said = sample.input
    messages = (
        [{"role": "user", "content": said}]
        if isinstance(said, str)
        else [{"role": one.role, "content": one.text} for one in said if one.role != "tool"]
    )
    if sample.choices:
        messages.append({"role": "user", "content": "\n- ".join(["Choices:", *sample.choices])})
    metadata = to_jsonable_python(sample.metadata or {}, fallback=str, inf_nan_mode="null")
    return {
        "id": key,
        "messages": messages,
        "references": [one for one in Target(sample.target) if one],
        "type": str(metadata.get("task_type") or metadata.get("category") or ""),
        "metadata": {**metadata, "sample": key},
    }
