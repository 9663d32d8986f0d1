"""The report of a trained run, and of one of 200 steps, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.report import LONG, QUICKSTART, Limits, load, make_runs, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The reports of both, as files."""
    short, long = make_runs(tmp_path_factory.mktemp("runs"), 200)
    return write(short)[0], write(long)[0]


@pytest.fixture
def long_page(browser: Browser, reports: tuple[Path, Path]) -> Iterator[Page]:
    page = browser.new_page()
    page.goto(reports[1].as_uri())
    yield page
    page.close()


@pytest.mark.parametrize(("number", "limits"), [(0, QUICKSTART), (1, LONG)])
def test_it_is_small_asks_for_nothing_and_the_browser_complains_of_nothing(
    browser: Browser, reports: tuple[Path, Path], number: int, limits: Limits
) -> None:
    file = reports[number]
    page = load(browser, file)
    assert page.complaints == ()
    assert file.stat().st_size < limits.kilobytes * 1_000
    assert page.elements < limits.elements
    assert page.heap < limits.heap


def test_all_of_200_steps_is_there(long_page: Page) -> None:
    assert long_page.locator('details.card[id^="step-"]').count() == 200
    assert "start" in (long_page.text_content("#outcomes") or "")
    assert long_page.locator("details.trajectory").count() > 50
    assert long_page.locator(".epoch").count() == 3


def test_a_cell_of_the_map_of_200_steps_leads_to_where_it_is_told(long_page: Page) -> None:
    long_page.focus("#outcomes")
    for _ in range(3):
        long_page.keyboard.press("ArrowRight")
    assert " · step 3, " in long_page.inner_text("#cell")
    long_page.keyboard.press("Enter")
    opened = long_page.locator("details:target[open]")
    opened.wait_for()
    assert opened.get_attribute("id") == "step-3"


def test_any_two_of_its_texts_are_compared(long_page: Page) -> None:
    assert long_page.locator("#from option").count() > 8
    long_page.locator("#to").select_option(label="step 4")
    assert "lines added" in long_page.inner_text("#compared")
    assert "both were measured on" in long_page.inner_text("#flipped")
