import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo.models import Dice, Note, read_note, write_note


@given(st.data())
def test_every_fact_that_is_written_can_be_read(
    notes: st.SearchStrategy[Note], data: st.DataObject
) -> None:
    note = data.draw(notes)
    dice = Dice(data.draw(st.integers()), "wording")
    assert read_note(f"Write the line.\n\nNote: {write_note(note, dice)}") == note


@pytest.mark.parametrize(
    "text", ["", "What is the capital of France?", "Paid 12 EUR to Oak.", "2026-01-02 5.00 EUR"]
)
def test_what_lacks_date_vendor_or_amount_is_no_note(text: str) -> None:
    assert read_note(text) is None


@given(st.text())
def test_whatever_is_read_stands_in_the_text(text: str) -> None:
    note = read_note(text)
    assert note is None or all(part in text for part in (note.date, note.vendor, note.amount))


def test_a_note_in_someone_elses_words_is_understood() -> None:
    note = read_note("Refunded: on 3 May 2026 Sam got 1,200 USD from Green Tower. Ref 77.")
    assert note == Note("3 May 2026", "Green Tower", "1,200", "USD", refund=True, reference="77")
