from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo.models import (
    LEDGER_HOUSE_STYLE,
    Note,
    conventions_followed,
    ledger_exercised,
    ledger_line,
)

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


def test_the_house_writes_every_field_in_its_way() -> None:
    line = "2026-03-07 | OAK & SONS | EUR -1250.00 | TRA | 000482 | VAT19 | CC-12 | Q1"
    assert ledger_line(FULL, LEDGER_HOUSE_STYLE) == line


def test_without_conventions_the_line_repeats_the_note() -> None:
    line = "7 March 2026, Oak & Sons, 1,250 EUR, travel, 482, 19% VAT, department 12, first quarter"
    assert ledger_line(FULL, frozenset()) == line


def test_what_a_note_does_not_mention_is_left_out() -> None:
    note = Note("2026-03-07", "OAK", "3.20", "EUR", currency_first=True)
    assert ledger_line(note, LEDGER_HOUSE_STYLE) == "2026-03-07 | OAK | EUR 3.20"
    assert ledger_exercised(note) == ("separator",)


@given(st.data())
def test_a_line_tells_which_conventions_were_followed(
    notes: st.SearchStrategy[Note], data: st.DataObject
) -> None:
    note = data.draw(notes)
    followed = data.draw(st.frozensets(st.sampled_from(ledger_exercised(note))))
    assert conventions_followed(note, ledger_line(note, followed)) == followed


def test_a_line_from_elsewhere_is_not_explained() -> None:
    assert conventions_followed(FULL, "I do not know") is None
