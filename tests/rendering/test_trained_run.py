"""A run on hostile tasks with a hostile model: what stands on GitHub acts no more than a stone."""

from __future__ import annotations

import json

import pytest
from hostile import HOSTILE, problems

from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.read import open_reader, view
from skillopt_ci.report.comment import body, pinned_comment, step_check, step_comment
from skillopt_ci.report.markdown import Links
from skillopt_ci.report.view import RunView
from skillopt_ci.skill.document import fence_closed
from tests.conftest import Checkout, ModelServer

LINKS = Links("https://github.com/octo/skills", "https://github.com/octo/skills/actions/runs/7")
#: What a task file may hold: names on one line, without characters that nobody sees.
NAMES = [name for text in HOSTILE if (name := " ".join(text.split())[:150]).isprintable() and name]
#: What a model can write through JSON and git.
WORDS = "\n".join(text for text in HOSTILE if not {"\x00", "\ud800"} & set(text))

UNGUARDED = [
    f"guard.{rule}=false"
    for rule in ("new_urls", "optimizer_instructions", "invisible_characters", "reference_answers")
]


@pytest.fixture
def hostile_run(checkout: Checkout, model_server: ModelServer) -> RunView:
    """Two steps in which tasks are called, and edits say, whatever is worst."""
    for split, texts in (("train", NAMES[::2]), ("selection", NAMES[1::2])):
        lines = checkout.show("main", f"tasks/{split}.jsonl").splitlines()
        named = [
            json.dumps(json.loads(line) | {"id": f"{number} {text}"})
            for number, (line, text) in enumerate(zip(lines * 3, texts, strict=False))
        ]
        checkout.write(f"tasks/{split}.jsonl", "\n".join(named) + "\n")
    model_server.edit = lambda line: {"op": "append", "content": fence_closed(f"- {line}\n{WORDS}")}
    for _ in range(2):
        checkout.step(*UNGUARDED)
    return view(open_reader(Globals({}, checkout.folder)))


def test_nothing_that_is_shown_acts(hostile_run):
    assert len(hostile_run.steps) == 2
    assert any(edit.applied for step in hostile_run.steps for edit in step.proposal.edits)
    comments = [make(hostile_run, LINKS) for make in (pinned_comment, step_comment, body)]
    texts = (*comments, step_check(hostile_run, LINKS).summary)
    assert [problems(text) for text in texts] == [[], [], [], []]
