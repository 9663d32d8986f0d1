"""kill -9 at the end of an epoch: the next run ends with the same commits, asking nothing twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.progress import StageFinished

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from skillopt_ci.ledger.records import Usage
    from skillopt_ci.progress import Event
    from tests.conftest import Checkout, Workshop

pytestmark = pytest.mark.end_to_end

BRANCH = "skillopt/demo"

#: What becomes of the second epoch's guidance, and after which stage of which epoch's end the
#: process dies. Up to the verdict both fates are one.
DEATHS = [
    *(("merged", 1, stage) for stage in ("candidate", "gate", "epoch end")),
    *(("merged", 2, stage) for stage in ("compare", "both texts", "candidate")),
    *(("merged", 2, stage) for stage in ("selection", "gate", "epoch end")),
    *(("reverted", 2, stage) for stage in ("selection", "gate", "epoch end")),
]


@dataclass(frozen=True)
class Twin:
    """What an uninterrupted run left behind, and the stages that it finished."""

    trees: list[str]
    usage: list[Usage]
    stages: list[str]
    answered: Counter[str]

    def position(self, epoch: int, stage: str) -> int:
        """Number (from 1) of a stage of the end of ``epoch``, an epoch being one step.

        The two texts are asked for at once, and finished in any order.
        """
        if stage == "both texts":
            return self.position(epoch, "candidate") - 1
        decided = [number for number, name in enumerate(self.stages) if name == "decide"]
        return self.stages.index(stage, decided[epoch - 1]) + 1


def used(checkout: Checkout) -> list[Usage]:
    return [entry.usage for entry in checkout.history()]


def with_ends(checkout: Checkout) -> Checkout:
    config = (checkout.folder / "skillopt.yaml").read_text(encoding="utf-8")
    for old, new in (
        ("use_slow_update: false, use_meta_skill: false", "use_slow_update: true"),
        ("batch_size: 4", "batch_size: 8"),
    ):
        assert old in config
        config = config.replace(old, new)
    checkout.write("skillopt.yaml", config)
    return checkout


@pytest.fixture(scope="module")
def shared(
    open_workshop: Callable[[Path], AbstractContextManager[Workshop]],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Workshop]:
    """One server for all runs, whose guidance for the second epoch helps or harms."""
    with open_workshop(tmp_path_factory.mktemp("shared")) as workshop:
        helps = request.param == "merged"
        guidance = "Kind d: a number begins with d." if helps else "Leave out every answer."
        workshop.server.guidance = f"- {guidance}"
        workshop.server.memory = "- Name one kind in each rule."
        yield workshop


@pytest.fixture(scope="module")
def twin(shared: Workshop) -> Twin:
    checkout, stages = with_ends(shared.checkout("twin")), list[str]()

    def note(event: Event) -> None:
        if isinstance(event, StageFinished):
            stages.append(event.stage)

    shared.server.answered.clear()
    checkout.run(observer=note)
    assert checkout.kinds() == ["start", "step", "slow_update", "step", "slow_update"]
    return Twin(checkout.trees(), used(checkout), stages, shared.server.answered.copy())


@pytest.fixture
def clone(shared: Workshop, tmp_path: Path) -> Checkout:
    """A clone of a remote of its own; what the server is asked from now on is counted afresh."""
    clone = shared.clone(shared.origin(f"{tmp_path.name}.git"), tmp_path.name)
    shared.server.answered.clear()
    return with_ends(clone)


def assert_equal_to(twin: Twin, checkout: Checkout, shared: Workshop) -> None:
    assert checkout.trees() == twin.trees
    assert used(checkout) == twin.usage
    assert shared.server.answered == twin.answered
    assert checkout.ref("skillopt-candidate/demo") == ""
    assert checkout.git("ls-remote", "origin", f"refs/heads/{BRANCH}").startswith(
        checkout.ref(BRANCH)
    )


@pytest.mark.parametrize(("shared", "epoch", "stage"), DEATHS, indirect=["shared"], scope="module")
def test_killed_at_the_end_of_an_epoch(twin, clone, shared, train_until_killed, epoch, stage):
    train_until_killed(clone, twin.position(epoch, stage))
    clone.run()
    assert_equal_to(twin, clone, shared)


@pytest.mark.parametrize("shared", ["merged"], indirect=True, scope="module")
def test_killed_again_and_again(twin, clone, shared, train_until_killed):
    for stage in (twin.position(1, "candidate"), 1, 10, 1, 3, 1):
        train_until_killed(clone, stage)
    clone.run()
    assert_equal_to(twin, clone, shared)
