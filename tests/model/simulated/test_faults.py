from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo.models import FAULTS, MOST_FAULTS_IN_A_ROW, Tally, fault_of


def test_without_a_rate_nothing_fails() -> None:
    assert all(fault_of("x", attempt, seed=0, rate=0) is None for attempt in range(20))


@given(st.text(), st.integers(), st.floats(0, 1))
def test_every_content_is_answered_after_a_few_faults(content: str, seed: int, rate: float) -> None:
    tries = [fault_of(content, attempt, seed=seed, rate=rate) for attempt in range(12)]
    streaks = "".join("-" if fault else " " for fault in tries).split()
    assert all(len(streak) <= MOST_FAULTS_IN_A_ROW for streak in streaks)


def test_faults_come_at_their_rate_and_of_every_kind() -> None:
    drawn = [fault_of(str(number), 0, seed=0, rate=0.3) for number in range(1_000)]
    found = [fault for fault in drawn if fault]
    assert 250 < len(found) < 350
    assert set(found) == set(FAULTS)


def test_a_tally_loses_no_count_between_threads() -> None:
    tally = Tally()
    with ThreadPoolExecutor(8) as pool:
        tries = list(pool.map(tally.next_try, ["a"] * 400))
    assert sorted(tries) == list(range(400))
    assert tally.snapshot()["requests"] == 400


def test_a_snapshot_tells_answers_by_content() -> None:
    tally = Tally()
    for content in ("a", "b", "a"):
        tally.note_answer(content)
    tally.note_fault("server_error")
    assert tally.snapshot() == {
        "requests": 0,
        "answered": 3,
        "faults": {"server_error": 1},
        "answered_per_content": {"a": 2, "b": 1},
    }
