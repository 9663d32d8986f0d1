import time
from collections import Counter
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from office_tasks import ledger_tasks

from skillopt_ci.demo import world
from skillopt_ci.demo.optimizer import PLATITUDES
from skillopt_ci.demo.world import CONVENTIONS, Dice, Note, ledger_line, read_note, subject
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.prompts.library import Prompts

SKILL = f"# Rules\n\n- {CONVENTIONS['date'].rules[0]} {CONVENTIONS['vendor'].rules[1].upper()}\n"
WRONG = CONVENTIONS["date"].harmful
FULL = Note(
    date="7 March 2026",
    vendor="Oak & Sons",
    amount="1,250",
    currency="EUR",
    refund=True,
    category="travel",
    reference="482",
    tax="19",
    department="12",
    quarter="first",
)
DAYS = st.dates(min_value=date(2000, 1, 1), max_value=date(2099, 12, 31))


@st.composite
def amounts(draw: st.DrawFn) -> str:
    """An amount as a note may word it."""
    whole = draw(st.integers(1, 9_999_999))
    digits = f"{whole:,}" if draw(st.booleans()) else str(whole)
    return digits + draw(st.sampled_from(["", ".5", ".07", ".50"]))


NOTES = st.builds(
    Note,
    date=DAYS.map(date.isoformat)
    | DAYS.map(lambda day: f"{day.day} {world.MONTHS[day.month - 1]} {day.year}"),
    vendor=st.sampled_from(["Blue Heron Press", "Oak & Sons", "Nordwind", "DHL", "IKEA WORKS"]),
    amount=amounts(),
    currency=st.sampled_from(["EUR", "USD", "SEK"]),
    currency_first=st.booleans(),
    refund=st.booleans(),
    category=st.sampled_from(["", "travel", "office supplies", "meals"]),
    reference=st.just("") | st.integers(1, 99_999).map(str),
    tax=st.sampled_from(["", "5", "19"]),
    department=st.sampled_from(["", "12", "90"]),
    quarter=st.sampled_from(["", *world.QUARTERS]),
)


def test_dice_depend_on_seed_key_and_name_and_follow_their_probabilities():
    drawn = {Dice(*at).roll(n) for *at, n in ((0, "k", "n"), (1, "k", "n"), (0, "l", "n"))}
    assert len({*drawn, Dice(0, "k").roll("m")}) == 4
    dice = Dice(0, "many")
    assert 900 < sum(dice.chance(str(number), 0.2) for number in range(5_000)) < 1_100
    assert {dice.pick(str(number), "abc") for number in range(50)} == set("abc")


def test_content_key_depends_on_roles_texts_calls_and_attempt():
    user, assistant = Message("user", "hello"), Message("assistant", "x")
    calling = [
        Message("assistant", "x", tool_calls=(ToolCall("1", "shell", arguments),))
        for arguments in ("{}", "[]")
    ]
    asked = [[user], [Message("system", "hello")], [Message("user", "hello!")], [user, user]]
    keys = [world.content_key(one) for one in (*asked, [assistant], *([one] for one in calling))]
    assert len({*keys, world.content_key([user], attempt=1)}) == 8


def taken(text: str) -> dict[str, set[str]]:
    return {name: {*said} for name, said in world.stances(text).items() if said}


@pytest.mark.parametrize("name", CONVENTIONS)
def test_rules_speak_for_their_own_convention_only(name):
    for rule in CONVENTIONS[name].rules:
        assert taken(rule) == {name: {"for"}}
    assert taken(CONVENTIONS[name].harmful) == {name: {"against"}}


@pytest.mark.parametrize(
    "text",
    [*PLATITUDES, *(Prompts.load().with_skill(n, "S") for n in ("target", "agent", "external"))],
)
def test_platitudes_and_prompts_say_nothing(text):
    assert taken(text) == {}


def test_conflicting_line_is_found_whole():
    assert world.conflicting_line(f"{SKILL}* {WRONG}\nEnd.", "date") == f"* {WRONG}"
    assert world.conflicting_line(SKILL, "date") is None
    assert subject(f"- {CONVENTIONS['refund'].harmful}") == ("refund", "against")
    assert subject(f"- {CONVENTIONS['tax'].rules[1]}") == ("tax", "for")
    assert subject("Be nice.") is None


@given(st.text())
def test_any_text_can_be_read(text):
    note = read_note(text)
    assert note is None or all(part in text for part in (note.date, note.vendor, note.amount))
    assert world.stances(text).keys() == CONVENTIONS.keys()


def test_read_note_wants_date_vendor_and_amount_in_any_words():
    began, numbers = time.process_time(), "1," * 50_000
    for text in ("", "What is the capital?", "Paid 12 EUR to Oak.", "2026-01-02 5.00 EUR", numbers):
        assert read_note(text) is None
    assert time.process_time() - began < 1
    note = read_note("Refunded: on 3 May 2026 Sam got 1,200 USD from Green Tower. Ref 77.")
    assert note == Note("3 May 2026", "Green Tower", "1,200", "USD", refund=True, reference="77")


def test_ledger_line_follows_all_conventions_or_none():
    line = "2026-03-07 | OAK & SONS | EUR -1250.00 | TRA | 000482 | VAT19 | CC-12 | Q1"
    assert ledger_line(FULL, frozenset(CONVENTIONS)) == line
    line = "7 March 2026, Oak & Sons, 1,250 EUR, travel, 482, 19% VAT, department 12, first quarter"
    assert ledger_line(FULL, frozenset()) == line
    note = Note("2026-03-07", "OAK", "3.20", "EUR", currency_first=True)
    assert ledger_line(note, frozenset(CONVENTIONS)) == "2026-03-07 | OAK | EUR 3.20"
    assert note.exercised() == ("separator",)


@given(st.data())
def test_conventions_followed_are_told_by_the_line(data):
    note = data.draw(NOTES)
    followed = data.draw(st.frozensets(st.sampled_from(note.exercised())))
    assert world.conventions_followed(note, ledger_line(note, followed)) == followed


def test_notes_are_read_and_lines_written_as_the_tasks_have_them():
    for task in ledger_tasks():
        note = read_note(task.prompt)
        assert note is not None
        assert ledger_line(note, frozenset(CONVENTIONS)) == task.reference
        assert note.refund == (task.task_type == "refund")


def test_tasks_are_distinct_differ_in_difficulty_and_cover_every_convention():
    tasks = ledger_tasks()
    assert len({task.prompt for task in tasks}) == len({task.id for task in tasks}) == len(tasks)
    shown = [note.exercised() for task in tasks if (note := read_note(task.prompt))]
    assert {len(names) for names in shown} == {1, 2, 3, 4, 5, 6}
    counts = Counter(name for names in shown for name in names)
    assert counts.keys() == CONVENTIONS.keys()
    assert min(counts.values()) >= 10
