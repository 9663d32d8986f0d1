from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from skillopt_ci.rollout.store import AttemptStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AttemptStore]:
    with closing(AttemptStore(tmp_path / "attempts.sqlite")) as store:
        yield store
