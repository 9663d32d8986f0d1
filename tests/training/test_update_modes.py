"""Whole runs in every update mode, on the simulated models and the bundled example."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest
from training_runs import train_all, train_once

from skillopt_ci.cli.build import open_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.demo import write_example
from skillopt_ci.ledger.folder import RunFolder
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.progress import silent
from skillopt_ci.skill.regions import protected_parts
from tests.support import simulated_modes  # noqa: F401 - teaches the simulated optimizer

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = RunFolder("quickstart")
SKILL = "skills/ledger/SKILL.md"
GUIDANCE = "<!-- SLOW_UPDATE_START -->\nMind the refunds.\n<!-- SLOW_UPDATE_END -->"
QUICK = ("train.num_epochs=2", "tasks.limit=12", "train.batch_size=6", "gradient.minibatch_size=2")
MODES = ["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"]


@dataclass(frozen=True)
class Office:
    """A repository with the bundled example."""

    folder: Path

    def git(self, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=self.folder, capture_output=True, check=True)
        return done.stdout.decode().removesuffix("\n")

    def train(self, *overrides: str, once: bool = False) -> int:
        """Do all that is left, or only the next step."""
        settings = Globals({}, self.folder, overrides=(*QUICK, *overrides))
        session = open_run(settings, silent)
        with session.ledger.lock():
            return asyncio.run((train_once if once else train_all)(session, lambda _: None))

    def records(self) -> list[StepRecord]:
        read = partial(self.show, "skillopt/quickstart")
        names = self.git("ls-tree", "--name-only", "skillopt/quickstart", f"{FOLDER.path}/steps/")
        return [StepRecord.model_validate_json(read(name)) for name in names.split("\n")]

    def show(self, revision: str, path: str = SKILL) -> str:
        return self.git("cat-file", "blob", f"{revision}:{path}")

    def log(self, what: str) -> list[str]:
        return self.git("log", "--topo-order", f"--format={what}", "skillopt/quickstart").split(
            "\n"
        )


def opened(folder: Path) -> Office:
    office = Office(folder)
    write_example(office.folder)
    skill = office.folder / SKILL
    skill.write_text(f"{skill.read_text()}\n{GUIDANCE}\n", encoding="utf-8")
    office.git("init", "--quiet", "--initial-branch=main")
    for key, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        office.git("config", key, value)
    office.git("add", ".")
    office.git("commit", "--quiet", "-m", "Begin")
    return office


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


def test_run_in_pieces_equals_a_run_in_one(trained, tmp_path):
    name, whole = trained
    pieces = opened(tmp_path / "pieces")
    while pieces.train(*mode(name), once=True):
        pass
    assert whole.log("%T") == pieces.log("%T")
    assert len(whole.records()) == 4


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


@pytest.mark.parametrize("name", MODES[1:])
def test_subjects_say_in_words_what_a_rewrite_changed(office, name):
    office.train(*mode(name), once=True)
    (record,) = office.records()
    first = record.proposal.change_summary[0][:20]
    assert record.proposal.changed
    assert all(first in subject for subject in office.log("%s")[:2])


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
    assert record.decision is not None
    assert (record.decision.action, record.proposal.changed) == ("skip_no_rewrite", False)
    assert record.proposal.suggestions
    assert office.log("%s")[0] == "Step 1: nobody wrote a usable document"


def test_without_a_usable_learning_rate_nothing_is_applied(office):
    rate = (dumb(office, "lr_autonomous"), "optimizer.lr_scheduler=autonomous")
    office.train(*rate, *mode("patch"), once=True)
    (record,) = office.records()
    assert record.proposal.learning_rate is not None
    assert record.proposal.learning_rate.fallback
    assert (record.proposal.edits, record.proposal.changed) == ((), False)
    assert office.log("%s")[0] == "Step 1: the optimizer gave no usable learning rate"
