import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import overrides, serving_report, skillopt_ci
from hostile import HOSTILE
from hypothesis import given, settings
from playwright.sync_api import Browser, Page
from run_views import altered, entry, gate, plain_run, runs, state

from bench.report import LONG, QUICKSTART, load, make_runs, write
from skillopt_ci.cli.init import make_repository
from skillopt_ci.ledger.evidence import Measurement, TaskOutcome
from skillopt_ci.ledger.records import Basis
from skillopt_ci.ledger.summary import DifferenceRecord, FinalSkill, Summary
from skillopt_ci.report.effects import Effect
from skillopt_ci.report.html_attempts import Trajectory, Turn, recorded
from skillopt_ci.report.html_charts import TaskGrade
from skillopt_ci.report.html_page import Evidence, Version, build_page
from skillopt_ci.report.view import RunView, run_facts
from skillopt_ci.rollout.types import Status

pytestmark = pytest.mark.integration
OLD = "# Ledger\n\nWrite dates day first.\n"
NEW = "# Ledger\n\nWrite dates year first.\n\nRefunds are negative.\n"


def attempt(task: str, stage: str, skill: str, *, solved: bool, said: str = "No.") -> Trajectory:
    turns = (Turn("user", "user", f"Book {task}."), Turn("model", "model", said))
    outcome: TaskGrade = "solved" if solved else "failed"
    return Trajectory(task, stage, 0, skill, outcome, outcome, turns)


#: The plain run's steps have the skill `a` before and `b` after.
ATTEMPTS = (
    attempt("train-1", "rollout", "a", solved=False),
    attempt("task-1", "selection", "a", solved=False, said="Before."),
    attempt("task-1", "selection", "b", solved=True, said="After."),
    attempt("task-3", "selection", "b", solved=False)._replace(attempt=1),
)


def evidence(run: RunView | None = None, **changes: object) -> Evidence:
    run = run or replace(plain_run(), texts={"a": OLD, "b": NEW})
    values: dict[str, object] = {
        "run": run,
        "versions": (Version("at the start", OLD), Version("step 1", NEW, "step-1")),
        "meta_skill": "Short rules help.",
        "attempts": recorded(run, ATTEMPTS),
        "count": 9,
    }
    return Evidence(**{**values, **changes})


@pytest.fixture(scope="module")
def plain(browser: Browser) -> Iterator[tuple[Page, list[str]]]:
    """A page, and what the browser complains of: to open one takes longer than most tests."""
    with closing(browser.new_page()) as page:
        yield page, heard(page)


def heard(page: Page) -> list[str]:
    """What the browser complains of from now on, and what is asked of the network."""
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("dialog", lambda dialog: told.append(dialog.message))
    page.on("request", lambda request: told.append(request.url))
    return told


@pytest.fixture
def show(
    browser: Browser, plain: tuple[Page, list[str]], tmp_path: Path
) -> Iterator[Callable[..., Page]]:
    """Open a page, with ``options`` one of its own.

    It may ask the network for nothing, and the browser complain of nothing.
    """
    opened, written = [plain], tmp_path / "report.html"

    def show(shown: Evidence, **options: object) -> Page:
        written.write_text(build_page(shown), encoding="utf-8")
        page = browser.new_page(**options) if options else plain[0]
        if options:
            opened.append((page, heard(page)))
        page.goto(written.as_uri())
        return page

    yield show
    complaints = {text for _, told in opened for text in told} - {written.as_uri(), "data:,"}
    plain[1].clear()
    for page, _ in opened[1:]:
        page.close()
    assert complaints == set()


def test_it_tells_where_training_stands_and_the_evidence_of_a_step_that_is_opened(show):
    page = show(evidence())
    assert page.inner_text("h1") == "ledger"
    told = page.inner_text(".results")
    assert all(words in told for words in ("Selection", "0.100 → 0.300", "0.18–0.45"))
    assert ("Test" not in told, "no edit can solve more" not in told) == (True, True)
    assert "no edit can solve more" in build_page(evidence(plain_run(17)))
    assert ">0.91–1.00<" in build_page(evidence(replace(plain_run(17), state=state(0.9996, 17))))
    again = entry(3, kind="measure", action="measure", score_after=0.4)
    run = replace(plain_run(), history=(*plain_run().history, again))
    assert "no longer used" not in build_page(evidence(run))
    del run.state.current.measurement.tasks["task-7"]
    found = build_page(evidence(run))
    assert ("at the start" in told, ">after step 3<" in found) == (True, True)
    assert "40 selection tasks in rows, 1 of them no longer used" in found
    shown = (".plot .mark.merged", ".plot .mark.reverted", "details.card", ".key .mark.measured")
    assert [page.locator(one).count() for one in shown] == [2, 1, 3, 1]
    card = page.locator("#step-1")
    assert not card.locator("blockquote").is_visible()
    card.locator("summary").click()
    for part in ("because", "The old is gone.", "too old", "train-1", "fixed 2", "$0.25"):
        assert part in card.inner_text()
    assert card.locator(".diff .added mark").all_inner_texts() == ["year"]
    assert card.locator(".diff .removed mark").all_inner_texts() == ["day"]


def test_the_numbers_tell_outcomes_in_words(show):
    run = plain_run(1)
    ended = entry(1, kind="finish", action="finish", reason="the best skill stands")
    page = show(evidence(replace(run, history=(*run.history, ended))))
    page.get_by_text("The numbers").click()
    outcomes = page.locator("#curve tbody bdi").all_inner_texts()
    assert outcomes == ["the best skill stands", "merged, new best", "because"]


def test_the_test_result_comes_first_and_says_whether_it_is_old(show):
    run = plain_run()
    tested = Measurement(hard=0.2, soft=0.2, score=0.2, tasks={f"t{n}": (0, 0) for n in range(60)})
    first = FinalSkill(sha256="a", step=0, origin="initial", test=tested)
    better = tested.model_copy(update={"hard": 0.5})
    best = first.model_copy(update={"origin": "step 1", "test": better})
    gain = DifferenceRecord(mean=0.3, standard_error=0.05, n=60, clusters=6, fixed=("t1", "t2"))
    summary = Summary(
        run="demo", skill="x", simulated=False, step=2, total_steps=3, epoch=1, metric="hard",
        initial=first, best=best, last=best, promoted=False, best_gain=gain,
    )  # fmt: skip
    results = show(evidence(replace(run, summary=summary))).locator(".result").all_inner_texts()
    assert [one.split("\n")[0] for one in results] == ["Test", "Selection"]
    assert "0.200 → 0.500" in results[0]
    assert "tasks that training never used\n\nthe skill of step 1, not the current" in results[0]
    assert "+0.300 ± 0.129 (95 %), 2 fixed, 0 broken\n\nmeasured after step 2; train" in results[0]
    other = {"trained": 8, "metric": "soft", "step": 0}
    moved = replace(run, summary=summary.model_copy(update=other))
    result = show(evidence(moved)).inner_text(".result >> nth=0")
    assert "share solved of 60 tasks; training used 8" in result
    assert "measured before the first step; training has gone on" in result
    told = next(run_facts(moved)).text
    assert "share solved, the skill of step 1, not this one; before the first step, train" in told


def test_one_panel_tells_of_models_settings_dates_and_cost(show):
    model = {"target": {"provider": "openai", "model": "gpt", "reasoning_effort": "low"}}
    config = {"model": model, "train": {"num_epochs": 3, "batch_size": 16, "accumulation": 2}}
    config["optimizer"] = {"learning_rate": 4}
    run = plain_run()
    basis = Basis.model_validate({"config": config, "train_size": 48, "train_sha256": "x"})
    state = run.state.model_copy(update={"basis": basis})
    dated = evidence(replace(run, state=state), dates=("2026-01-30", "2026-02-01"))
    panel = " ".join(show(dated).inner_text(".panel").split())
    for words in (
        "target openai · gpt, reasoning effort low",
        "steps 2 merged, 1 reverted",
        "epochs 1 edits at most 4 in a step",
        "train 48, 32 a step",
        "selection 40",
        "began 2026-01-30 newest 2026-02-01",
        "used 12 calls, 3,000 tokens, cost $1.25",
    ):
        assert words in panel
    assert "judge" not in panel


def test_simulated_models_are_called_so(show):
    assert "Simulated models." in show(evidence(plain_run(simulated=True))).inner_text("header")
    assert "Simulated" not in show(evidence()).inner_text("header")


def test_each_rule_leads_to_the_step_that_brought_it(show):
    page = show(evidence())
    rule = page.locator(".learned", has=page.locator(".origin", has_text="step 1"))
    assert "+0.100\n0.100 → 0.200\n2 fixed, 1 broken" in rule.inner_text()
    rule.get_by_text("Why").click()
    assert "too old (×2)" in rule.inner_text()
    rule.get_by_role("link", name="step 1").click()
    page.locator("#step-1[open]").wait_for()


def test_a_rule_says_what_it_is_estimated_to_add(show):
    run = plain_run(1)
    record = run.steps[0]
    edit = record.proposal.edits[0].model_copy(update={"content": "Refunds begin with `-`."})
    step = altered(record, {"gate": gate(0.1, 0.2)}, edits=(edit,))
    page = show(evidence(replace(run, steps=(step,)), effects={(1, 0): Effect(0.1, 0.05)}))
    rules = page.locator(".learned .rules li").all_inner_texts()
    assert rules == ["Refunds begin with -.\n+0.100 ± 0.098 (95 %), 98% likely to help"]
    assert page.locator(".rules code").all_inner_texts() == ["-"]
    assert "within noise" in page.inner_text(".learned .origin")
    assert page.locator(".effect.good").count() == 1


def test_the_curve_is_one_stop_and_arrow_keys_go_along_it(show):
    page = show(evidence())
    stops = page.locator('a.point:not([tabindex="-1"])')
    assert stops.count() == 1
    stops.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#step-3"
    assert stops.count() == 1
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.locator("#step-2[open]").wait_for()


def test_the_map_works_by_keyboard_and_pointer(show):
    page = show(evidence(), has_touch=False)
    page.focus("#outcomes")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert re.fullmatch(r"task-\d+ · step 2, reverted · solved in part", page.inner_text("#cell"))
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#step-3"
    page.locator("#step-3[open]").wait_for()
    page.locator("#outcomes").hover(position={"x": 2, "y": 26})
    assert "step 1, merged" in page.inner_text("#cell")
    page.focus("#outcomes")
    while not page.inner_text("#cell").startswith("task-3 "):
        page.keyboard.press("ArrowDown")
    assert page.inner_text("#cell").endswith("the attempt is below")
    page.keyboard.press("Enter")
    assert "Book task-3." in page.locator("details.trajectory:target[open]").inner_text()


def test_everything_can_be_reached_with_the_tab_key(show):
    page = show(evidence())
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 30)"))
    for part in ('class="skip"', 'href="#step-1"', "<summary", 'id="outcomes"', 'id="find"'):
        assert part in " ".join(reached)


def test_steps_can_be_filtered(show):
    page = show(evidence())
    page.get_by_role("radio", name="reverted").check()
    cards = page.locator("details.card:visible").all()
    assert [card.get_attribute("id") for card in cards] == ["step-2"]
    page.get_by_role("radio", name="all").check()
    page.get_by_role("button", name="Open all").click()
    assert page.locator("details.card[open]").count() == 3


def visible(page: Page) -> list[str]:
    return page.locator("details.trajectory:visible > summary code").all_inner_texts()


def test_attempts_are_found_by_task_stage_and_outcome(show):
    page = show(evidence())
    assert page.inner_text("#found") == "4 attempts"
    assert "5 further attempts are not shown" in (told := page.inner_text("#trajectories"))
    assert (told.count(", attempt 0, with"), told.count(", attempt 1, with")) == (3, 1)
    page.fill("#find", "TRAIN")
    assert visible(page) == ["train-1"]
    assert page.inner_text("#found") == "1 of 4 attempts"
    page.fill("#find", "")
    page.select_option("#find-outcome", "failed")
    assert visible(page) == ["task-3", "train-1", "task-1"]
    page.select_option("#find-stage", "selection")
    assert visible(page) == ["task-3", "task-1"]
    page.select_option("#find-outcome", "fixed")
    assert visible(page) == ["task-1"]
    page.fill("#find", "nothing like it")
    assert visible(page) == []


def test_attempts_are_read_one_after_the_other_by_keyboard(show):
    page = show(evidence())
    page.get_by_role("button", name="Next").press("Enter")
    assert "Book task-3." in page.inner_text("details.trajectory[open]")
    page.keyboard.press("ArrowDown")
    assert "After." in page.inner_text("details.trajectory[open]")
    page.keyboard.press("ArrowUp")
    assert "Book task-3." in page.inner_text("details.trajectory[open]")
    page.get_by_role("button", name="Previous").click()
    assert page.locator("details.trajectory[open]").count() == 1


def test_a_step_leads_to_its_attempts(show):
    page = show(evidence())
    page.evaluate("location.hash = 'step-1'")
    card = page.locator("#step-1")
    card.get_by_role("link", name="task-1").click()
    assert "After." in page.inner_text("details.trajectory[open]")
    page.fill("#find", "train")
    card.get_by_role("link", name="before").click()
    page.locator("details.trajectory:target[open]", has_text="Before.").wait_for()
    card.get_by_role("link", name="train-1").first.click()
    page.locator("details.trajectory:target[open]", has_text="Book train-1.").wait_for()


def test_without_attempts_it_says_where_they_are_recorded(show):
    page = show(evidence(attempts={}, count=0))
    assert "rollout.events" in page.inner_text("#trajectories")
    assert page.locator("#find").count() == 0


def test_it_is_readable_without_javascript(show):
    page = show(evidence(), java_script_enabled=False, viewport={"width": 400, "height": 800})
    assert page.locator("button:visible, input:visible, .scripted:visible").count() == 0
    page.locator("#step-1 summary").click()
    assert "The old is gone." in page.inner_text("#step-1")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(show, scheme):
    page = show(evidence(), color_scheme=scheme)
    ground, ink, soft = (luminance(page, name) for name in ("--ground", "--ink", "--soft"))
    assert (contrast(ground, ink) > 7, contrast(ground, soft) > 4.5) == (True, True)
    signs = "[...document.querySelectorAll('.diff i, body')].map(e => getComputedStyle(e).color)"
    assert len(set(page.evaluate(signs))) == 1  # less than ink is too little on a coloured row


def luminance(page: Page, name: str) -> float:
    value = page.evaluate(f"getComputedStyle(document.body).getPropertyValue('{name}').trim()")
    digits = value[1:] if len(value) == 7 else "".join(2 * digit for digit in value[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


@pytest.mark.parametrize("width", [360, 1100])
def test_it_fits_the_screen(show, width):
    page = show(evidence(), viewport={"width": width, "height": 700})
    page.get_by_role("button", name="Open all").click()
    for size in ("100%", "200%"):  # as people set it in the browser
        page.evaluate(f"document.documentElement.style.fontSize = '{size}'")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "most"), [(1280, 3_000), (400, 4_400)])
def test_a_run_of_a_hundred_tasks_is_a_few_screens_high(show, width, most):
    names = ("long" * 50, *(f"selection-{number:03}" for number in range(1, 100)))
    tasks = {name: (number % 2, 0) for number, name in enumerate(names)}
    run, measured = plain_run(20), Measurement(hard=0.5, soft=0.5, score=0.5, tasks=tasks)
    verdict = {"measurement": measured, "fixed": names[:20], "broken": names[20:24]}
    steps = tuple(altered(one, verdict) for one in run.steps)
    rules = [f"Rule {number}: do it in the way of number {number}.\n" for number in range(40)]
    versions = tuple(
        Version(f"step {number}", "".join(rules[: 2 * number]), f"step-{number}" if number else "")
        for number in range(21)
    )
    known = recorded(run, (attempt(name, "selection", "b", solved=False) for name in names))
    shown = evidence(replace(run, steps=steps), versions=versions, attempts=known)
    page = show(shown, viewport={"width": width, "height": 800})
    assert page.locator("details.trajectory").count() >= 12
    assert page.evaluate("document.documentElement.scrollHeight") <= most
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_a_link_or_a_filter_finds_is_unfolded(show):
    page = show(evidence(replace(plain_run(12), texts={"a": OLD})))
    assert page.locator(".diff, #step-1:visible").count() == 0  # "b" is out of reach
    page.evaluate("location.hash = 'step-1'")
    assert page.locator("#step-1 blockquote").is_visible()
    page.evaluate("for (const one of document.querySelectorAll('.more')) one.open = false")
    page.get_by_role("radio", name="merged").check()
    assert page.locator("details.card:visible").count() == 6


def test_all_is_open_on_paper(show):
    page = show(evidence(), color_scheme="light")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#step-1 blockquote").is_visible()
    attempts = page.get_by_role("heading", name="Attempts", exact=True)
    assert not attempts.is_visible()  # all are folded
    page.evaluate("document.querySelector('.trajectory').open = true")
    assert attempts.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not page.locator("#step-1 blockquote").is_visible()


def test_what_is_hostile_is_only_shown(show):
    bad = "\n".join(HOSTILE) + "\n<script>document.title = 'owned'</script>{{ 7 * 7 }}</script>"
    run = plain_run()
    proposal = run.steps[0].proposal
    failed = TaskOutcome(id=bad, status=Status.SCORED, hard=0, soft=0, reason=bad)
    rollout = proposal.rollout.model_copy(update={"tasks": (failed,)})
    edit = proposal.edits[0].model_copy(update={"content": bad, "target": bad, "reason": bad})
    pattern = proposal.patterns[0].model_copy(update={"description": bad, "task_ids": (bad,)})
    measured = Measurement(hard=0, soft=0, score=0, tasks={bad: (0, 0)}, errors=(bad,))
    work = {"edits": (edit,), "patterns": (pattern,), "reasoning": bad, "rollout": rollout}
    verdict = {"reason": bad, "fixed": (bad,), "measurement": measured}
    record = altered(run.steps[0], verdict, **work)
    state = run.state.model_copy(update={"skill": bad})
    texts = {proposal.skill_before: bad, proposal.skill_after: bad + "more"}
    hostile = RunView(state, run.history, (record,), commit=run.commit, texts=texts)
    made = Trajectory(bad, "rollout", 0, "a", bad, None, (Turn("tool", bad, bad),))
    page = show(
        evidence(
            hostile,
            versions=(Version(bad, bad), Version(bad, bad + "more", "step-1")),
            meta_skill=bad,
            attempts=recorded(hostile, [made]),
            effects={(1, 0): Effect(0.1, 0.1)},
        )
    )
    page.get_by_role("button", name="Open all").click()
    assert "what training learned" in page.title()
    assert page.locator("script").count() == 2
    assert page.locator("iframe, img, object, embed, base, link:not([rel=icon])").count() == 0
    links = page.eval_on_selector_all("a", "all => all.map(a => a.getAttribute('href'))")
    assert all(link.startswith("#") for link in links)
    assert "{{ 7 * 7 }}" in page.inner_text("#step-1")
    assert not re.search("[\u202e\u200b\u2066\x1b\x07]", page.content())


@settings(max_examples=30)
@given(runs())
def test_any_run_that_a_branch_could_hold_makes_a_page(run):
    page = build_page(Evidence(run, (), {}))
    assert page.startswith("<!doctype html>")
    page.encode("utf-8")
    assert page.count("<script") == 2


#: Longer than any step takes, since these processes share the machine with other tests.
PATIENCE = 60_000


def test_it_follows_a_run_and_stays_as_it_was_left(browser, tmp_path):
    folder = tmp_path / "repository"
    make_repository(folder)
    short = overrides("tasks.limit=16", "train.batch_size=8", "train.num_epochs=2")
    assert skillopt_ci(folder, "-q", "step", *short).returncode == 0
    complaints: list[str] = []
    with closing(browser.new_page()) as page:
        with serving_report(folder) as (port, server):
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("dialog", lambda dialog: complaints.append(dialog.message))
            page.goto(f"http://127.0.0.1:{port}/")
            page.locator("#step-1 > summary").click()
            page.fill("#find", "ledger-0")
            page.get_by_role("radio", name="merged", exact=True).check()
            page.locator("#live", has_text="Following the run").wait_for()
            with ThreadPoolExecutor() as pool:
                run = pool.submit(skillopt_ci, folder, "-q", "run", *short)
                page.locator("#step-2").wait_for(state="attached", timeout=PATIENCE)
                assert run.result().returncode == 0
            page.locator("#step-4").wait_for(state="attached", timeout=PATIENCE)
            page.locator("#step-1[open]").wait_for(timeout=PATIENCE)
            assert page.input_value("#find") == "ledger-0"
            assert page.get_by_role("radio", name="merged", exact=True).is_checked()
            assert page.locator("details.card.reverted:visible").count() == 0
            assert complaints == []
            # A page that is loading when its server ends stays cut off.
            page.wait_for_function(
                "document.readyState === 'complete' && fetch('version')"
                ".then((answer) => answer.text())"
                ".then((text) => text === document.body.dataset.live)",
                timeout=PATIENCE,
            )
            server.terminate()
        page.locator("body.lost").wait_for(timeout=PATIENCE)
        assert "may be old" in page.inner_text("#live")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    short, long = make_runs(tmp_path_factory.mktemp("runs"), 200)
    return write(short)[0], write(long)[0]


@pytest.fixture(scope="module")
def long_page(browser: Browser, reports: tuple[Path, Path]) -> Iterator[Page]:
    with closing(browser.new_page()) as page:
        page.goto(reports[1].as_uri())
        yield page


@pytest.mark.parametrize(("number", "limits"), [(0, QUICKSTART), (1, LONG)])
def test_it_is_small_asks_for_nothing_and_no_browser_complains(browser, reports, number, limits):
    file = reports[number]
    page = load(browser, file)
    assert page.complaints == ()
    assert file.stat().st_size < limits.kilobytes * 1_000
    assert page.elements < limits.elements
    assert page.heap < limits.heap


def test_all_of_200_steps_is_there(long_page):
    assert long_page.locator('details.card[id^="step-"]').count() == 200
    assert "start" in (long_page.text_content("#outcomes") or "")
    assert "scroll" in long_page.locator(".hint", has_text="selection tasks in rows").inner_text()
    assert long_page.locator("details.trajectory").count() > 50
    assert long_page.locator(".epoch").count() == 3
    long_page.focus("#outcomes")
    for key in (*("ArrowDown",) * 30, *("ArrowRight",) * 3):
        long_page.keyboard.press(key)
    assert " · step 3, " in long_page.inner_text("#cell")
    cursor, shown = (long_page.locator(one).bounding_box() for one in ("#cursor", ".map-scroll"))
    assert 0 <= cursor["y"] - shown["y"] <= shown["height"] - cursor["height"]
    long_page.keyboard.press("Enter")
    long_page.locator("details#step-3:target[open]").wait_for()
