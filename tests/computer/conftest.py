from collections.abc import Iterator

import pytest
from computer_kinds import CONFINED, EVERY, Desk, desk


@pytest.fixture(scope="module", params=EVERY)
def shared(request: pytest.FixtureRequest) -> Iterator[Desk]:
    with desk(request.param) as opened:
        yield opened


@pytest.fixture(scope="module", params=CONFINED)
def shared_confined(request: pytest.FixtureRequest) -> Iterator[Desk]:
    with desk(request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def trusted() -> Iterator[Desk]:
    """A computer that confines nothing, to show that an attempt is one."""
    with desk("unconfined") as opened:
        yield opened


@pytest.fixture
def any_desk(shared: Desk) -> Desk:
    """A computer of each kind in turn, with nothing in its workspace."""
    return _emptied(shared)


@pytest.fixture
def cell(shared_confined: Desk) -> Desk:
    """A computer of each kind that confines, with nothing in its workspace."""
    return _emptied(shared_confined)


def _emptied(opened: Desk) -> Desk:
    assert opened.sh("find . -mindepth 1 -delete; find /tmp/agent* -delete").exit_code in {0, 1}
    return opened
