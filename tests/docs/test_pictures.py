"""The parts of scripts/pictures.py; the demo of the site's test makes the run and its report."""

from __future__ import annotations

import os
from collections.abc import Iterator
from shutil import which

import pytest
from playwright.sync_api import Browser, sync_playwright
from script_module import script

pictures = script("pictures")


def test_hashes_and_seconds_do_not_change_a_picture():
    one = "<code>e02e699</code> 0.1 s <code>63930ed</code> <code>e02e699</code>\ncb0e17d Merge"
    other = "<code>1234567</code> 2.5 s <code>89abcde</code> <code>1234567</code>\nfedcba9 Merge"
    assert pictures.steady(one) == pictures.steady(other) != one
    assert pictures.steady("<code>ledger-007</code> 0.950") == "<code>ledger-007</code> 0.950"


def test_a_pull_request_looks_as_on_github():
    text = "> [!WARNING]\n> Not **real**.\n\n| a | b |\n| :-- | --: |\n| 1 | 2 |\n"
    page = pictures.github_page("commented", text, "A <title>")
    assert "<b>Warning</b>" in page
    assert "Not <strong>real</strong>." in page
    assert "<table>" in page
    assert "A &lt;title&gt;" in page


def test_a_terminal_fetches_nothing_and_differs_by_scheme():
    light, dark = (pictures.terminal("first\nlast\n", dark=dark) for dark in (False, True))
    assert "last" in light
    assert "url(http" not in light
    assert light != dark


@pytest.fixture
def browser() -> Iterator[Browser]:
    program = which("chromium") or which("chromium-browser") or which("google-chrome")
    if program is None and not os.environ.get("CI"):
        pytest.skip("no Chromium on the path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.integration
def test_a_picture_is_small_and_the_same_again(browser):
    page = pictures.github_page("commented", "# Done\n\nAll of it.")
    one, other = (pictures.shoot(browser, page, "dark") for _ in range(2))
    assert one == other
    assert (one[:4], one[8:12]) == (b"RIFF", b"WEBP")
    assert len(one) < 40_000
    assert one != pictures.shoot(browser, page, "light")
