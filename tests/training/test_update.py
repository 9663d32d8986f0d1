"""What a mode asks of analysts, and how the next document comes about."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import simulated_modes  # noqa: F401 - teaches the simulated optimizer
from hypothesis import given
from hypothesis import strategies as st
from training_runs import train_all, train_once
from update_modes import FULL_REWRITE, PATCH, REWRITE

from skillopt_ci.cli.build import open_run
from skillopt_ci.cli.init import make_repository
from skillopt_ci.cli.options import Globals
from skillopt_ci.ledger.folder import RunFolder
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatReply, ChatRequest, ModelRefusal, ModelUnavailable, Usage
from skillopt_ci.progress import Observer, silent
from skillopt_ci.prompts.library import NAMES, Prompts
from skillopt_ci.skill.edits import Edit, EditStatus
from skillopt_ci.skill.regions import REGIONS, protected_parts
from skillopt_ci.training.ask import MAX_OUTPUT_TOKENS, OptimizerChat
from skillopt_ci.training.replies import SkillCandidate, Suggestion
from skillopt_ci.training.update import Updated, UpdateMode, update
from tests.conftest import Checkout

Update = Callable[..., Updated]
STAGES = ["analyst_error", "analyst_success", "merge_failure", "merge_success", "merge_final"]
EDITS = (Suggestion("add_rule", "Dates", "Write dates\nas ISO.", "seen", "high", "failure", 4),)
PROMPTS = Prompts.load()
MARKERS = [mark for region in REGIONS for mark in (region.start, region.end)]
PIECES = [*MARKERS, "---\n", "name: x\n", "rule", "\n", "\n\n"]
texts = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)


@pytest.mark.parametrize("mode", [PATCH, REWRITE, FULL_REWRITE])
def test_every_stage_of_a_mode_has_a_prompt(mode):
    assert {f"{stage}{mode.prompt_suffix}" for stage in STAGES} <= set(NAMES)


def test_whole_documents_may_be_as_long_as_configured():
    assert (FULL_REWRITE.reply_tokens, REWRITE.reply_tokens) == (9_000, MAX_OUTPUT_TOKENS)


def test_the_budget_is_a_number_or_none_at_all():
    assert PATCH.assignment(3) == "## Edits Budget\n\nPropose at most L=3 edits."
    unlimited = PATCH.assignment(None)
    assert unlimited.startswith("## Edits Budget\n\nThere is no fixed limit")
    assert not any(character.isdigit() for character in unlimited)
    assert "## Suggestions Budget\n\nPropose at most L=2 suggestions." in REWRITE.assignment(2)


def test_who_writes_documents_is_told_the_format_and_no_number():
    assert FULL_REWRITE.assignment(4) == FULL_REWRITE.assignment(None)
    assert FULL_REWRITE.assignment(4).startswith("## Update Format\n")
    assert "4" not in FULL_REWRITE.assignment(4)


def test_a_suggestion_is_listed_on_one_line():
    _, line, _ = REWRITE.pool(EDITS).split("\n")
    assert line.startswith('[0] type="add_rule" title="Dates" motivation="seen" instruction="')
    assert line.endswith('\\nas ISO." priority="high" support=4')


@pytest.fixture
def updated(prompts: Prompts, observer: Observer) -> Update:
    def run(mode: UpdateMode[Any], client: Any, *edits: object) -> Updated:
        told = {"step_buffer": "tried", "meta_skill": "secret memory"}
        chat = OptimizerChat(client, prompts, observer, **told)
        return asyncio.run(update("# Old\n", edits, mode=mode, chat=chat))

    return run


def test_edits_are_applied_and_nobody_is_asked(scripted, updated):
    client = scripted(lambda request: "never")
    edits = (Edit("append", content="- new"), Edit("delete", target="missing"))
    found = updated(PATCH, client, *edits)
    assert (found.skill, found.outcome) == ("# Old\n\n- new\n", "updated")
    statuses = [report.status for report in found.reports]
    assert statuses == [EditStatus.APPENDED, EditStatus.DELETE_NOT_FOUND]
    assert client.requests == []


@pytest.mark.parametrize(
    ("edit", "applied"),
    [
        (Edit("append", content="* Round up."), False),
        (Edit("insert_after", target="# Old", content="- Round up.\n- Be brief."), False),
        (Edit("append", content="- Round up.\n- Say why."), True),
        (Edit("append", content="- Round up by 5."), True),
        (Edit("replace", target="- Be brief.", content="- Round up."), True),
    ],
)
def test_an_edit_that_only_repeats_lines_of_the_skill_is_refused(scripted, updated, edit, applied):
    client = scripted(lambda request: "never")
    found = updated(PATCH, client, Edit("append", content="- Round up.\n- Be brief."), edit)
    report = found.reports[1]
    assert report.status.applied is applied
    assert (found.skill != "# Old\n\n- Round up.\n- Be brief.\n") is applied
    assert report.reason == ("" if applied else "the skill says that already")


def test_the_first_candidate_is_the_new_document(scripted, updated):
    client = scripted(lambda request: "never")
    candidates = (SkillCandidate("# A", "t", ("one",)), SkillCandidate("# B"))
    assert updated(FULL_REWRITE, client, *candidates) == Updated("# A\n", change_summary=("one",))
    assert updated(FULL_REWRITE, client) == Updated("# Old\n", "skip_no_rewrite")
    assert client.requests == []


def document(text: str, **more: object) -> str:
    said = {"reasoning": "so", "change_summary": ["ISO dates"], "new_skill": text}
    return json.dumps({**said, **more})


def test_a_rewrite_is_the_new_document(scripted, updated):
    found = updated(REWRITE, scripted(lambda request: document("\n# New  \n\n\n")), *EDITS)
    assert found == Updated("# New\n", change_summary=("ISO dates",), reasoning="so")


def test_the_rewriter_is_shown_skill_suggestions_and_earlier_steps(scripted, updated, prompts):
    client = scripted(lambda request: document("# New"))
    updated(REWRITE, client, *EDITS)
    (request,) = client.requests
    assert (request.stage, request.max_output_tokens) == ("rewrite", 9_000)
    assert request.messages[0].content == prompts.texts["rewrite"]
    headings = [line for line in client.prompts[0].splitlines() if line.startswith("## ")]
    assert headings == [
        "## Current Skill",
        "## Previous Steps in This Epoch",
        "## Suggestions to carry out (1 total)",
    ]
    assert '"instruction": "Write dates\\nas ISO."' in client.prompts[0]
    assert "secret memory" not in client.prompts[0]


def test_without_suggestions_nobody_is_asked(scripted, updated):
    client = scripted(lambda request: document("# New"))
    assert updated(REWRITE, client) == Updated("# Old\n")
    assert client.requests == []


@pytest.mark.parametrize(
    "answer", ["no", document(" \n"), '{"new_skill": null}', ModelRefusal("will not")]
)
def test_without_a_usable_document_the_old_one_stays(answer, scripted, updated):
    found = updated(REWRITE, scripted(lambda request: answer), *EDITS)
    assert (found.skill, found.outcome) == ("# Old\n", "skip_no_rewrite")
    assert found.reasoning


def test_a_bad_rewrite_may_be_mended_and_an_outage_is_no_verdict(scripted, updated):
    client = scripted(lambda asked: document("# New") if len(asked.messages) > 2 else document(""))
    assert updated(REWRITE, client, *EDITS).skill == "# New\n"
    with pytest.raises(ModelUnavailable):
        updated(REWRITE, scripted(lambda request: ModelUnavailable("down")), *EDITS)


class Rewriter:
    """An optimizer that writes ``document`` whatever it is asked."""

    def __init__(self, document: str) -> None:
        self.document = document

    async def complete(self, request: ChatRequest) -> ChatReply:
        assert request.messages[0] == Message("system", PROMPTS.texts["rewrite"])
        return ChatReply(json.dumps({"new_skill": self.document}), "stop", "m", Usage(calls=1))


@given(skill=texts, written=texts, target=texts)
def test_protected_parts_stay_as_they_are_in_every_mode(skill, written, target):
    chat = OptimizerChat(Rewriter(written), PROMPTS, silent)
    changes: list[tuple[UpdateMode[Any], object]] = [
        (PATCH, Edit("replace", target, written)),
        (REWRITE, Suggestion("add_rule", "t", "i")),
        (FULL_REWRITE, SkillCandidate(written)),
    ]
    for mode, edit in changes:
        found = asyncio.run(update(skill, [edit], mode=mode, chat=chat))
        assert protected_parts(found.skill) == protected_parts(skill)


def test_what_is_not_protected_is_new():
    skill = f"---\nname: x\n---\n\n# Old\n\n{MARKERS[0]}\nMind.\n{MARKERS[1]}\n"
    chat = OptimizerChat(Rewriter("# New"), PROMPTS, silent)
    found = asyncio.run(update(skill, EDITS, mode=REWRITE, chat=chat))
    assert found.skill == skill.replace("Old", "New")


# Whole runs in every update mode, on the simulated models and the bundled example.

FOLDER = RunFolder("quickstart")
SKILL = "skills/ledger/SKILL.md"
GUIDANCE = "<!-- SLOW_UPDATE_START -->\nMind the refunds.\n<!-- SLOW_UPDATE_END -->"
QUICK = ("train.num_epochs=2", "tasks.limit=12", "train.batch_size=6", "gradient.minibatch_size=2")
MODES = ["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"]


class Office(Checkout):
    """A repository with the bundled example."""

    def train(self, *overrides: str, once: bool = False) -> int:
        session = open_run(Globals({}, self.folder, overrides=(*QUICK, *overrides)), silent)
        with session.ledger.lock():
            return asyncio.run((train_once if once else train_all)(session, lambda _: None))

    def records(self) -> list[StepRecord]:
        read = partial(self.show, "skillopt/quickstart")
        names = self.git("ls-tree", "--name-only", "skillopt/quickstart", f"{FOLDER.path}/steps/")
        return [StepRecord.model_validate_json(read(name)) for name in names.split("\n")]

    def show(self, revision: str, path: str = SKILL) -> str:
        return super().show(revision, path)

    def log(self, what: str) -> list[str]:
        log = self.git("log", "--topo-order", f"--format={what}", "skillopt/quickstart")
        return log.split("\n")


def opened(folder: Path) -> Office:
    make_repository(folder)
    skill = folder / SKILL
    skill.write_text(f"{skill.read_text()}\n{GUIDANCE}\n", encoding="utf-8")
    Office(folder).git("commit", "--quiet", "--all", "--amend", "--no-edit")
    return Office(folder)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return opened(tmp_path / "office")


@pytest.fixture(scope="module", params=MODES)
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Office]:
    """A mode, and a repository after a whole run in it, to be read only."""
    name: str = request.param
    office = opened(tmp_path_factory.mktemp(name) / "office")
    office.train(*mode(name))
    return name, office


def mode(name: str) -> tuple[str, ...]:
    return (f"optimizer.skill_update_mode={name}", "optimizer.use_slow_update=false")


def test_every_candidate_keeps_what_is_protected(trained):
    _, office = trained
    wanted = protected_parts(office.show("main"))
    texts = {office.show(commit) for commit in office.log("%H")}
    assert wanted[-1] == GUIDANCE
    assert len(texts) > 1
    assert all(protected_parts(text) == wanted for text in texts)


def test_record_tells_the_mode_and_what_it_did(trained):
    name, office = trained
    changed = [record.proposal for record in office.records() if record.proposal.changed]
    assert {proposal.mode for proposal in changed} == {name}
    for proposal in changed:
        assert bool(proposal.edits) == (name == "patch")
        assert bool(proposal.suggestions) == (name == "rewrite_from_suggestions")
        assert ("rewrite" in proposal.usage) == (name == "rewrite_from_suggestions")
        assert bool(proposal.change_summary) == (name != "patch")
        # subjects of candidate and verdict say in words what a rewrite changed
        said = "".join(proposal.change_summary[:1])[:20]
        assert sum(said in subject for subject in office.log("%s")) >= 2


def test_autonomous_learning_rate_is_decided_and_recorded(office):
    office.train("optimizer.lr_control_mode=autonomous", *mode("patch"))
    rates = [(one.proposal.learning_rate, one.proposal) for one in office.records()]
    decided = [(rate, proposal) for rate, proposal in rates if rate is not None]
    assert decided
    for rate, proposal in decided:
        assert rate.available == proposal.n_edits_merged
        assert proposal.edit_budget == rate.learning_rate
        assert len(proposal.edits) == min(rate.learning_rate, rate.available)


def test_without_a_learning_rate_nothing_is_ranked_away(office):
    office.train("optimizer.lr_control_mode=none", "optimizer.learning_rate=1", *mode("patch"))
    proposals = [record.proposal for record in office.records()]
    assert {proposal.edit_budget for proposal in proposals} == {None}
    assert {proposal.selection for proposal in proposals} == {"untouched"}
    assert max(len(proposal.edits) for proposal in proposals) > 1


def test_full_rewrites_have_no_learning_rate(office):
    office.train("optimizer.lr_control_mode=autonomous", *mode("full_rewrite_minibatch"), once=True)
    (record,) = office.records()
    assert (record.proposal.edit_budget, record.proposal.learning_rate) == (None, None)


def dumb(office: Office, stage: str) -> str:
    """Replace a prompt by one that the simulated optimizer has no answer to."""
    (office.folder / "prompts").mkdir()
    (office.folder / "prompts" / f"{stage}.md").write_text("Do something.", encoding="utf-8")
    return "prompts=prompts"


def test_without_a_rewrite_the_step_is_one_plain_commit(office):
    office.train(dumb(office, "rewrite"), *mode("rewrite_from_suggestions"), once=True)
    (record,) = office.records()
    assert (record.decision.action, record.proposal.changed) == ("skip_no_rewrite", False)
    assert record.proposal.suggestions
    assert office.log("%s")[0] == "Step 1: no usable document was written"


def test_without_a_usable_learning_rate_nothing_is_applied(office):
    rate = (dumb(office, "lr_autonomous"), "optimizer.lr_scheduler=autonomous")
    office.train(*rate, *mode("patch"), once=True)
    (record,) = office.records()
    assert record.proposal.learning_rate.fallback
    assert (record.proposal.edits, record.proposal.changed) == ((), False)
    assert office.log("%s")[0] == "Step 1: the optimizer gave no usable learning rate"
