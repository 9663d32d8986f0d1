import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from skillopt_ci.model.types import ModelRefusal, ModelUnavailable
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.training.modes import Desk, RewriteMode, Updated
from skillopt_ci.training.replies import Suggestion

Scripted = Callable[..., Any]
Rewrite = Callable[..., Updated]
EDITS = (Suggestion("add_rule", "Dates", "Write dates\nas ISO.", "seen", "high", "failure", 4),)


def document(text: str, **more: object) -> str:
    return json.dumps(
        {"reasoning": "so", "change_summary": ["ISO dates"], "new_skill": text, **more}
    )


@pytest.fixture
def rewritten(make_desk: Callable[..., Desk]) -> Rewrite:
    def run(client: Any, edits: tuple[Suggestion, ...] = EDITS) -> Updated:
        desk = make_desk(client, step_buffer="tried before", meta_skill="secret memory")
        return asyncio.run(RewriteMode(9_000).update("# Old\n", edits, desk))

    return run


def test_the_reply_is_the_new_document(scripted: Scripted, rewritten: Rewrite) -> None:
    updated = rewritten(scripted(lambda request: document("\n# New  \n\n\n")))
    assert updated == Updated("# New\n", change_summary=("ISO dates",), reasoning="so")


def test_the_optimizer_is_shown_skill_suggestions_and_earlier_steps(
    scripted: Scripted, rewritten: Rewrite, prompts: Prompts
) -> None:
    client = scripted(lambda request: document("# New"))
    rewritten(client)
    (request,) = client.requests
    assert (request.stage, request.max_output_tokens) == ("rewrite", 9_000)
    assert request.messages[0].content == prompts.text("rewrite")
    headings = [line for line in client.prompts[0].splitlines() if line.startswith("## ")]
    assert headings == [
        "## Current Skill",
        "## Previous Steps in This Epoch",
        "## Suggestions to carry out (1 total)",
    ]
    assert '"instruction": "Write dates\\nas ISO."' in client.prompts[0]


def test_the_rewriter_does_not_read_the_meta_skill(scripted: Scripted, rewritten: Rewrite) -> None:
    client = scripted(lambda request: document("# New"))
    rewritten(client)
    assert "secret memory" not in client.prompts[0]


def test_without_suggestions_nobody_is_asked(scripted: Scripted, rewritten: Rewrite) -> None:
    client = scripted(lambda request: document("# New"))
    assert rewritten(client, ()) == Updated("# Old\n")
    assert client.requests == []


@pytest.mark.parametrize(
    "answer", ["no", document(" \n"), '{"new_skill": null}', ModelRefusal("will not")]
)
def test_without_a_usable_document_the_old_one_stays(
    answer: str | Exception, scripted: Scripted, rewritten: Rewrite
) -> None:
    updated = rewritten(scripted(lambda request: answer))
    assert (updated.skill, updated.outcome) == ("# Old\n", "skip_no_rewrite")
    assert updated.reasoning


def test_one_bad_reply_may_be_mended(scripted: Scripted, rewritten: Rewrite) -> None:
    client = scripted(
        lambda request: document("# New") if len(request.messages) > 2 else document("")
    )
    assert rewritten(client).skill == "# New\n"


def test_an_outage_is_no_verdict_on_the_suggestions(scripted: Scripted, rewritten: Rewrite) -> None:
    with pytest.raises(ModelUnavailable):
        rewritten(scripted(lambda request: ModelUnavailable("down")))


def test_a_suggestion_is_listed_on_one_line() -> None:
    line = RewriteMode(1).pool_line(2, EDITS[0])
    assert line.startswith('[2] type="add_rule" title="Dates" motivation="seen" instruction="')
    assert line.endswith('\\nas ISO." priority="high" support=4')
    assert "\n" not in line


def test_the_budget_speaks_of_suggestions() -> None:
    assert "## Suggestions Budget\n\nPropose at most L=2 suggestions." in RewriteMode(1).assignment(
        2
    )
