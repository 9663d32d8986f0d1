"""Fixtures and strategies of the simulated world."""

from collections.abc import Callable, Iterator
from datetime import date

import pytest
from hypothesis import strategies as st

from skillopt_ci.demo.models import (
    CATEGORIES,
    MONTHS,
    QUARTERS,
    Behaviour,
    Dice,
    Note,
    SimulatedServer,
    running,
)
from skillopt_ci.messages import Message

_DATES = st.dates(min_value=date(2000, 1, 1), max_value=date(2099, 12, 31))
_WORDS = st.sampled_from(["Blue Heron Press", "Oak & Sons", "Nordwind", "DHL", "IKEA WORKS"])


def _worded(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


@st.composite
def amounts(draw: st.DrawFn) -> str:
    """An amount as a note may word it."""
    whole = draw(st.integers(1, 9_999_999))
    digits = f"{whole:,}" if draw(st.booleans()) else str(whole)
    return digits + draw(st.sampled_from(["", ".5", ".07", ".50"]))


NOTES = st.builds(
    Note,
    date=st.one_of(_DATES.map(date.isoformat), _DATES.map(_worded)),
    vendor=_WORDS,
    amount=amounts(),
    currency=st.sampled_from(["EUR", "USD", "SEK"]),
    currency_first=st.booleans(),
    refund=st.booleans(),
    category=st.sampled_from(["", *CATEGORIES]),
    reference=st.one_of(st.just(""), st.integers(1, 99_999).map(str)),
    tax=st.sampled_from(["", "5", "19"]),
    department=st.sampled_from(["", "12", "90"]),
    quarter=st.sampled_from(["", *QUARTERS]),
)


@pytest.fixture(scope="session")
def notes() -> st.SearchStrategy[Note]:
    return NOTES


@pytest.fixture
def dice() -> Dice:
    return Dice(0, "test")


@pytest.fixture
def conversation() -> Callable[[str, str], tuple[Message, ...]]:
    def build(system: str, user: str) -> tuple[Message, ...]:
        return (Message("system", system), Message("user", user))

    return build


@pytest.fixture
def server() -> Iterator[SimulatedServer]:
    with running(Behaviour()) as started:
        yield started
