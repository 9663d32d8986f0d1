"""The served page while a run works, in a browser."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.cli.init import make_repository

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = pytest.mark.integration

PROGRAM = (sys.executable, "-m", "skillopt_ci")
#: Longer than any step takes, since these processes share the machine with other tests.
PATIENCE = 60_000


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address at which a process serves the report of ``folder``."""
    line = (*PROGRAM, "report", "--serve", "--port", "0")
    with subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+/", process.stdout.readline())
        assert found is not None
        yield found[0]
        process.terminate()


def test_it_follows_a_run_and_stays_as_it_was_left(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    make_repository(folder)
    subprocess.run((*PROGRAM, "-q", "step"), cwd=folder, check=True, capture_output=True)
    with serving(folder) as address, closing(browser.new_page()) as page:
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(address)
        page.locator("#step-1 > summary").click()
        page.fill("#find", "ledger-0")
        page.get_by_role("radio", name="merged", exact=True).check()
        page.locator("#now", has_text=re.compile(r"Latest work: \d+ attempts at")).wait_for()
        with subprocess.Popen((*PROGRAM, "-q", "run"), cwd=folder) as run:
            page.locator("#step-4").wait_for(state="attached", timeout=PATIENCE)
            assert run.wait() == 0
        page.locator("#step-9").wait_for(state="attached", timeout=PATIENCE)
        page.locator("#step-1[open]").wait_for(timeout=PATIENCE)
        assert page.input_value("#find") == "ledger-0"
        assert page.get_by_role("radio", name="merged", exact=True).is_checked()
        assert page.locator("details.card.reverted:visible").count() == 0
        assert complaints == []


def test_a_server_that_is_gone_is_told(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    make_repository(folder)
    subprocess.run((*PROGRAM, "-q", "step"), cwd=folder, check=True, capture_output=True)
    with closing(browser.new_page()) as page:
        with serving(folder) as address:
            page.goto(address)
            page.locator("#now", has_text="Latest work").wait_for()
        page.locator("body.lost").wait_for(timeout=PATIENCE)
        assert "may be old" in page.inner_text("#live")
