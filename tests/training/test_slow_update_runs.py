from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest
from command_line import in_process

from skillopt_ci.errors import TooManyErrors
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.regions import SLOW_UPDATE, region_text
from tests.conftest import BRANCH, EPOCH_ENDS, Checkout, ModelServer, Workshop, opened

RULE = "- Kind d: a number begins with d."
HARMFUL = "- Leave out every answer."
MEMORY = "- Name one kind in each rule."
FORCED = "optimizer.slow_update_gate_with_selection=false"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """A repository of which two epochs are trained, to be copied, and its server."""
    with opened(tmp_path_factory.mktemp("trained")) as workshop:
        workshop.checkout().run()
        yield workshop


@pytest.fixture
def model_server(trained: Workshop) -> ModelServer:
    """The server of all copies, since its address is part of the configuration, as new."""
    new = vars(ModelServer(trained.server.url))
    vars(trained.server).clear()
    vars(trained.server).update(new)
    return trained.server


@pytest.fixture
def due(trained: Workshop, model_server: ModelServer, tmp_path: Path) -> Checkout:
    """Two epochs are trained; the end of the second one is due."""
    copytree(trained.place("repository").folder, tmp_path / "due", symlinks=True)
    return Checkout(tmp_path / "due")


def test_first_epoch_makes_room_for_guidance_without_a_call(workshop):
    checkout, model_server = workshop.checkout(), workshop.server
    more = ("train.num_epochs=1", "rollout.attempts=2")
    checkout.run(*more)
    asked, before = len(model_server.prompts), checkout.state().current.measurement
    outcome = checkout.end_epoch(*more, "cache.enabled=false")
    assert outcome.record.action == "force_accept"
    place = "\n\n<!-- SLOW_UPDATE_START -->\n<!-- SLOW_UPDATE_END -->\n"
    assert checkout.show(BRANCH).endswith(place)
    assert checkout.state().current.measurement == before
    assert (len(model_server.prompts), outcome.record.usage.calls) == (asked, 0)


def test_skill_that_has_a_place_for_guidance_keeps_it(checkout):
    skill = f"# Items\n\n<!-- SLOW_UPDATE_START -->\n{RULE}\n<!-- SLOW_UPDATE_END -->\n"
    checkout.write("skills/SKILL.md", skill)
    checkout.git("commit", "--quiet", "--all", "--message", "Guide")
    checkout.run("train.num_epochs=1", *EPOCH_ENDS)
    assert region_text(checkout.show(BRANCH), SLOW_UPDATE) == RULE
    assert checkout.history()[-1].reason == "the skill has a place for guidance already"
    assert in_process(checkout.folder, "replay").returncode == 0  # that end has no verdict


def test_guidance_that_helps_is_merged(due, model_server):
    model_server.guidance = RULE
    before, tip = due.show(BRANCH), due.ref(BRANCH)
    assert due.end_epoch().record.action == "accept_new_best"
    assert (region_text(due.show(BRANCH), SLOW_UPDATE), due.parents(BRANCH)[0]) == (RULE, tip)
    assert due.show(BRANCH).startswith(before.rstrip())
    assert due.show(due.parents(BRANCH)[1]) == due.show(BRANCH)
    assert due.history()[-1].usage.calls > 2
    assert due.state().usage.calls == sum(entry.usage.calls for entry in due.history())


def test_guidance_that_harms_is_truly_reverted(due, model_server):
    model_server.guidance = HARMFUL
    before, tip, state = due.show(BRANCH), due.ref(BRANCH), due.state()
    assert due.end_epoch().record.action == "reject"
    assert due.show(BRANCH) == before == due.show(BRANCH, ".skillopt/demo/epochs/02.md")
    assert due.show(f"{BRANCH}~1") != before
    assert due.parents(f"{BRANCH}~1") == [tip]
    assert (due.state().current, due.state().best) == (state.current, state.best)


def test_forced_guidance_stays_and_is_measured(due, model_server):
    model_server.guidance = HARMFUL
    best, outcome = due.state().best, due.end_epoch(FORCED)
    assert outcome.record.action == "force_accept"
    assert due.state().current.measurement.score == 0.0
    assert (due.state().current.sha256, due.state().best) == (sha256(due.show(BRANCH)), best)
    assert sha256(due.show(BRANCH, ".skillopt/demo/best_skill.md")) == best.sha256
    assert due.done("train.num_epochs=3").decision.score_before == 0.0
    assert due.kinds()[-2:] == ["slow_update", "step"]  # a score of zero is a score


def test_nothing_to_say_is_one_plain_commit(due):
    tip, skill = due.ref(BRANCH), due.show(BRANCH)
    outcome = due.end_epoch()
    assert (outcome.record.action, outcome.record.decision) == ("no_content", None)
    assert due.parents(BRANCH) == [tip]
    assert (due.show(BRANCH), due.history()[-1].reason) == (skill, "no new guidance")


def test_memory_stays_when_there_is_no_new_one(due, model_server):
    model_server.memory = MEMORY
    due.end_epoch()
    model_server.memory = ""
    due.run("train.num_epochs=3")
    due.end_epoch("train.num_epochs=3")
    assert due.boundary(3).meta_skill.action == "no_content"
    assert due.show(BRANCH, ".skillopt/demo/meta_skill.md") == f"{MEMORY}\n"


def test_memory_is_what_the_next_epochs_analysts_read(due, model_server):
    model_server.memory = MEMORY
    due.end_epoch()
    for used in (True, False):
        model_server.prompts.clear()
        due.step("train.num_epochs=3", f"optimizer.use_meta_skill={used}")
        assert {MEMORY in prompt for prompt in model_server.optimizer_prompts} == {used}


def test_an_end_is_told_what_the_epochs_steps_tried(due, model_server):
    model_server.prompts.clear()
    due.end_epoch()
    told = [one for one in model_server.optimizer_prompts if "Stage: " in one]
    assert len(told) == 2
    assert all("## Previous Steps in This Epoch" in one for one in told)


def test_guidance_is_no_business_of_a_steps_edits(due, model_server):
    model_server.guidance = RULE
    due.end_epoch()
    model_server.plan = ("Kind c: a number begins with c.",)
    due.step("train.num_epochs=3")
    skill = due.show(BRANCH)
    assert region_text(skill, SLOW_UPDATE) == RULE
    assert skill.index("Kind c") < skill.index("SLOW_UPDATE_START")
    assert skill.endswith("<!-- SLOW_UPDATE_END -->\n")


def test_secret_in_the_guidance_is_refused(due, model_server):
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    model_server.guidance, model_server.memory = f"- Use {token}.", f"- It is {token}."
    skill = due.show(BRANCH)
    due.end_epoch()
    assert due.show(BRANCH) == skill
    assert due.history()[-1].reason.startswith("guidance refused: ")
    assert token not in due.git("log", "-p", BRANCH)


@pytest.mark.parametrize(("slow", "meta"), [(True, False), (False, True)])
def test_each_part_goes_without_the_other(due, model_server, slow, meta):
    model_server.guidance, model_server.memory = RULE, MEMORY
    due.end_epoch(f"optimizer.use_slow_update={slow}", f"optimizer.use_meta_skill={meta}")
    record = due.boundary(2)
    assert ((record.slow_update is not None), (record.meta_skill is not None)) == (slow, meta)
    assert record.changed is slow
    assert len(record.pairs) == 8


def test_with_both_off_no_epoch_has_an_end(due):
    assert due.end_epoch(*(f"{one.removesuffix('true')}false" for one in EPOCH_ENDS)) is None
    assert set(due.kinds()) == {"start", "step"}


def test_broken_server_costs_no_epoch_its_end_and_refusals_are_told_once(due, model_server):
    model_server.guidance, tip, told = RULE, due.ref(BRANCH), list[str]()
    model_server.trouble = lambda prompt: (500, "down") if "Item" in prompt else None
    with pytest.raises(TooManyErrors, match="comparison attempts"):
        due.end_epoch("cache.enabled=false")
    assert due.ref(BRANCH) == tip
    lost, policy = (400, "Your input was flagged"), "optimizer.longitudinal_pair_policy=changed"
    model_server.trouble = lambda prompt: lost if "Item" in prompt else None
    more = ("cache.enabled=false", policy, "optimizer.slow_update_samples=2")
    assert due.end_epoch(*more, observer=lambda event: told.append(f"{event}")) is not None
    assert [one.partition("'")[2][:8] for one in told if "were refused" in one] == ["16 of 16"]


def test_few_errors_only_leave_out_their_pairs(due, model_server):
    broken = "Item 0 of kind a"
    model_server.trouble = lambda prompt: (500, "down") if prompt.endswith(broken) else None
    due.end_epoch("cache.enabled=false")
    assert len(due.boundary(2).pairs) == 7
    assert "a0" not in {pair.id for pair in due.boundary(2).pairs}
