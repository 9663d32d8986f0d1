"""A real browser, and runs to look at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


# Not longer than a module: while it is open no event loop can be started in this process.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium of the system; without one the test is left out, but never in CI."""
    from bench.report import QUIET, program

    if program() is None and not os.environ.get("CI"):
        pytest.skip("no Chromium on the path")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Where a page is written."""
    return tmp_path / "report.html"
