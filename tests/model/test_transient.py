from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.model.retry import retry_after_seconds

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_seconds_are_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers, NOW) == seconds


@given(st.integers(-(10**6), 10**6))
def test_a_date_is_a_distance_from_now_and_never_in_the_past(distance: int) -> None:
    date = format_datetime(NOW + timedelta(seconds=distance), usegmt=True)
    assert retry_after_seconds({"retry-after": date}, NOW) == max(0, distance)


def test_a_date_without_a_zone_is_utc() -> None:
    assert retry_after_seconds({"retry-after": "Sat, 21 Nov 2026 12:00:05 -0000"}, NOW) == 5
