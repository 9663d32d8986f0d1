"""What happens to branches between steps: base moves on, pull requests are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skillopt_ci.errors import RepositoryError, SkillError

if TYPE_CHECKING:
    from tests.conftest import Checkout, Workshop

BRANCH = "skillopt/demo"
SKILL = "skills/SKILL.md"
LONG = "# Items\n\nOne.\nTwo.\nThree.\nFour.\nFive.\n\n## Rules\n\nAs follows.\n"


def test_other_files_of_base_are_left_to_the_merge(checkout: Checkout) -> None:
    checkout.step()
    checkout.commit("README.md", "about\n")
    checkout.step()
    assert checkout.kinds() == ["start", "step", "step"]
    assert "README.md" not in checkout.git("ls-tree", "--name-only", BRANCH).split("\n")


def test_skill_that_changed_on_base_is_taken_in_and_measured(workshop: Workshop) -> None:
    checkout = workshop.checkout(skill=LONG)
    checkout.step()
    theirs = checkout.commit(SKILL, LONG.replace("# Items", "# All items"))
    checkout.step()
    assert checkout.kinds() == ["start", "step", "measure", "step"]
    assert checkout.contains(theirs)
    merged = checkout.show(BRANCH)
    assert merged.startswith("# All items")
    assert "Kind a:" in merged
    assert checkout.record(1).merged
    assert checkout.state().step == 2


def test_taking_in_base_minds_no_other_runs_furniture(workshop: Workshop) -> None:
    checkout = workshop.checkout(skill=LONG)
    checkout.step()
    checkout.commit(".skillopt/README.md", "Written by another version.\n")
    checkout.commit(SKILL, LONG.replace("# Items", "# All items"))
    checkout.step()
    assert checkout.kinds() == ["start", "step", "measure", "step"]


def test_conflict_with_base_is_told_and_nothing_moves(checkout: Checkout) -> None:
    checkout.step()
    before = checkout.ref(BRANCH)
    checkout.commit(SKILL, "# Something else\n")
    with pytest.raises(RepositoryError, match=SKILL):
        checkout.step()
    assert checkout.ref(BRANCH) == before


def test_conflict_that_a_person_merged_is_over(checkout: Checkout) -> None:
    checkout.step()
    checkout.commit(SKILL, "# Something else\n")
    tree = checkout.git("rev-parse", f"{BRANCH}^{{tree}}")
    merge = checkout.git("commit-tree", tree, "-p", BRANCH, "-p", "main", "-m", "Merge by hand")
    checkout.git("update-ref", f"refs/heads/{BRANCH}", merge)
    outcome = checkout.done()
    assert outcome.record.step == 2


def merge_pull_request(checkout: Checkout, *, squash: bool, branch: str = BRANCH) -> str:
    """Merge the skills branch into main as a forge does, without a checkout."""
    parents = ["-p", "main"] if squash else ["-p", "main", "-p", branch]
    tree = checkout.git("rev-parse", f"{branch}^{{tree}}")
    merge = checkout.git("commit-tree", tree, *parents, "-m", "Merge the pull request")
    checkout.git("update-ref", "refs/heads/main", merge)
    return merge


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("deleted", [False, True])
def test_merged_pull_request_is_gone_on_from(
    checkout: Checkout, squash: bool, deleted: bool
) -> None:
    checkout.step()
    merge = merge_pull_request(checkout, squash=squash)
    if deleted:
        checkout.git("branch", "-D", BRANCH)
    outcome = checkout.done()
    assert outcome.record.step == 2
    assert outcome.decision.score_before == 0.25
    assert checkout.contains(merge)
    assert checkout.kinds() == ["start", "step", "step"]


def test_step_that_landed_while_the_pull_request_was_squashed_is_kept(checkout: Checkout) -> None:
    checkout.step()
    squashed = checkout.ref(BRANCH)
    checkout.step()
    checkout.step()
    checkout.step()
    merge_pull_request(checkout, squash=True, branch=squashed)
    checkout.done("train.num_epochs=3")
    assert "Kind b:" in checkout.show(BRANCH)
    assert checkout.state().step == 5


def test_skill_that_was_edited_after_the_merge_is_measured(checkout: Checkout) -> None:
    checkout.step()
    merge_pull_request(checkout, squash=False)
    checkout.commit(SKILL, "# Fresh\n")
    checkout.step()
    assert checkout.kinds() == ["start", "step", "measure", "step"]


def test_branch_deleted_on_the_remote_before_any_merge_starts_afresh(workshop: Workshop) -> None:
    origin = workshop.origin()
    clone = workshop.clone(origin, "clone")
    clone.step()
    abandoned = clone.ref(BRANCH)
    clone.git("-C", str(origin), "branch", "-D", BRANCH)
    clone.step()
    assert clone.kinds() == ["start", "step"]
    assert clone.git("for-each-ref", "--contains", abandoned) != ""


@pytest.mark.parametrize("squash", [False, True])
def test_pull_request_that_was_merged_on_the_remote(workshop: Workshop, squash: bool) -> None:
    origin = workshop.origin()
    clone = workshop.clone(origin, "clone")
    clone.step()
    merge_pull_request(clone, squash=squash)
    clone.git("push", "--quiet", "origin", "main")
    clone.git("-C", str(origin), "branch", "-D", BRANCH)
    outcome = clone.done()
    assert outcome.record.step == 2
    assert clone.git("ls-remote", "origin", f"refs/heads/{BRANCH}").startswith(outcome.commit)


def test_run_that_trains_another_skill_is_refused(checkout: Checkout) -> None:
    checkout.step()
    checkout.commit("other.md", "# Other\n")
    with pytest.raises(RepositoryError, match="change `run`"):
        checkout.step("skill=other.md")


def test_skill_that_is_not_committed_is_refused(checkout: Checkout) -> None:
    checkout.write("draft.md", "# Draft\n")
    with pytest.raises(SkillError, match=r"git add draft\.md"):
        checkout.step("skill=draft.md", "run=draft")


@pytest.mark.parametrize(
    "options", [("--depth=1",), ("--single-branch",), ("--depth=1", "--no-single-branch")]
)
def test_partial_clones_go_on_with_a_run(workshop: Workshop, options: tuple[str, ...]) -> None:
    origin = workshop.origin()
    workshop.clone(origin, "first").step()
    clone = workshop.clone(origin, "second", *options)
    outcome = clone.done()
    assert outcome.record.step == 2
    assert clone.git("ls-remote", "origin", f"refs/heads/{BRANCH}").startswith(outcome.commit)
