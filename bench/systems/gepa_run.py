"""GEPA's ``optimize`` on the world's tasks, over HTTP; runs in GEPA's environment.

Defaults throughout; the budget is given in metric calls. Writes ``result.json`` like the runner of
SkillOpt: the best candidate, and every proposal with its parent.
"""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gepa
import httpx
from gepa.core.adapter import EvaluationBatch
from gepa.strategies.instruction_proposal import InstructionProposalSignature

from bench.systems.grading import extracted

_PARENT = re.compile(r"task for me:\n```\n(.*?)\n```\n\nThe following are examples", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Chat:
    """An OpenAI-compatible server."""

    client: httpx.Client
    base_url: str

    def __call__(self, model: str, *messages: dict[str, str]) -> str:
        reply = self.client.post(
            f"{self.base_url}/chat/completions", json={"model": model, "messages": messages}
        )
        reply.raise_for_status()
        return str(reply.json()["choices"][0]["message"]["content"])


@dataclass(slots=True)
class Cases:
    """GEPA's adapter: one chat call per case, the skill as the system prompt."""

    chat: Chat
    workers: int
    propose_new_texts: None = None

    def evaluate(
        self, batch: Sequence[Any], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[Any, Any]:
        system = {"role": "system", "content": candidate["skill"]}
        with ThreadPoolExecutor(self.workers) as pool:
            said = list(pool.map(lambda item: self._ask(system, item), batch))
        scores = [
            float(extracted(one) == item["answer"]) for one, item in zip(said, batch, strict=True)
        ]
        traces = [
            {"item": item, "response": one, "score": score}
            for item, one, score in zip(batch, said, scores, strict=True)
        ]
        return EvaluationBatch(
            outputs=said, scores=scores, trajectories=traces if capture_traces else None
        )

    def _ask(self, system: dict[str, str], item: dict[str, str]) -> str:
        return self.chat("target", system, {"role": "user", "content": item["question"]})

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        shown = [
            {
                "Inputs": trace["item"]["question"],
                "Generated Outputs": trace["response"],
                "Feedback": _feedback(trace),
            }
            for trace in eval_batch.trajectories
        ]
        del candidate
        return dict.fromkeys(components_to_update, shown)


def _feedback(trace: Mapping[str, Any]) -> str:
    """The wording of GEPA's default evaluator."""
    answer = trace["item"]["answer"]
    if trace["score"]:
        return f"The generated response is correct. It includes the correct answer '{answer}'."
    return f"The generated response is incorrect. The correct answer is '{answer}'."


@dataclass(slots=True)
class Reflector:
    """The reflection model, which remembers what it proposed for which parent."""

    chat: Chat
    proposals: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, prompt: Any) -> str:
        text = self.chat("optimizer", {"role": "user", "content": str(prompt)})
        found = _PARENT.search(str(prompt))
        proposed = InstructionProposalSignature.output_extractor(text)["new_instruction"]
        self.proposals.append((found[1] if found else "", proposed))
        return text


def main() -> None:
    """Optimize as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--metric-calls", type=int, required=True)
    parser.add_argument("--minibatch", type=int, default=3)
    given = parser.parse_args()
    train, val = (
        json.loads((given.tasks / split / "items.json").read_text()) for split in ("train", "val")
    )
    given.out.mkdir(parents=True, exist_ok=True)
    with httpx.Client(timeout=300, limits=httpx.Limits(max_connections=64)) as client:
        chat = Chat(client, given.base_url)
        reflector = Reflector(chat)
        result = gepa.optimize(
            seed_candidate={"skill": (given.tasks / "initial.md").read_text()},
            trainset=train,
            valset=val,
            adapter=Cases(chat, given.workers),
            reflection_lm=reflector,
            max_metric_calls=given.metric_calls,
            reflection_minibatch_size=given.minibatch,
            run_dir=str(given.out),
            seed=given.seed,
        )
    pool = {candidate["skill"].strip() for candidate in result.candidates}
    found = [
        {"before": parent, "after": proposed, "accepted": proposed.strip() in pool}
        for parent, proposed in reflector.proposals
        if proposed.strip() != parent.strip()
    ]
    best = result.best_candidate["skill"]
    (given.out / "result.json").write_text(json.dumps({"best": best, "candidates": found}))


if __name__ == "__main__":
    main()
