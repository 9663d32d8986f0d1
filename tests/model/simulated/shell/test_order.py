from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo.models import ACTIONS, Dice, Order, read_order, write_order

JOBS = st.lists(st.sampled_from(["tidy", "logs", "sync", "stock"]), min_size=1, max_size=3)
ORDERS = st.builds(
    Order,
    job=JOBS.map(" ".join),
    action=st.sampled_from([*ACTIONS]),
    source=st.sampled_from(["data/a.txt", "in.csv", "x-1/y_2.log"]),
    folder=st.sampled_from(["", "bin", "tools"]),
    owner=st.sampled_from(["", "Ann Example"]),
    message=st.sampled_from(["", "on it"]),
    careful=st.booleans(),
    kept=st.booleans(),
    needed=st.booleans(),
    direct=st.booleans(),
)


@given(order=ORDERS, key=st.text(max_size=5))
def test_what_is_written_is_read_again(order: Order, key: str) -> None:
    assert read_order(f"Do this.\n\nOrder: {write_order(order, Dice(0, key))}") == order


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert read_order(text) is None


def test_a_note_of_the_ledger_is_no_order() -> None:
    assert read_order("Note: Paid EUR 12.00 to Oak Works on 2026-01-02. Category: travel.") is None
