from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_a_step_is_shown_with_its_diff(cli: Cli, trained: Path) -> None:
    done = cli(trained, "show", "1")
    assert done.code == 0
    assert done.out.startswith("Step 1, epoch 1 (simulated models)\n")
    for part in ("training tasks", "reasoning", "edit 1", "verdict", "before", "+++ b/SKILL.md"):
        assert f"\n{part}" in done.out
    assert "\x1b" not in done.out


def test_json_is_the_whole_record(cli: Cli, trained: Path) -> None:
    found = cli(trained, "show", "2", "--json").json
    assert found["step"] == 2
    assert found["decision"]["score_before"] is not None


def test_a_step_that_is_not_there_is_an_error_that_tells_which_are(cli: Cli, trained: Path) -> None:
    done = cli(trained, "show", "3")
    assert done.code == 2
    assert "has no step 3: its steps are 1 to 2" in done.err
