from skillopt_ci.ledger.records import Measurement
from skillopt_ci.report.words import error_rows, reservations, with_pessimistic

LOST = {
    "attempts": 2,
    "pessimistic_hard": 0.5,
    "pessimistic_soft": 0.625,
    "unmeasured": {"error: down": 2, "grader_error: no\nreport": 1},
}


def test_a_plain_measurement_has_no_reservations(measurement: Measurement) -> None:
    assert reservations(measurement) == ()
    assert reservations(None) == ()
    assert with_pessimistic("0.750", measurement) == "0.750"


def test_both_numbers_and_the_reasons_are_told(measurement: Measurement) -> None:
    lost = measurement.model_copy(update=LOST)
    assert with_pessimistic("0.750", lost) == "0.750, 0.500 if errors count as failed"
    (sentence,) = reservations(lost)
    assert "3 attempts could not be measured" in sentence
    assert "0.500 solved and 0.625 with partial credit" in sentence
    assert "2 × error: down; 1 × grader_error: no report" in sentence
    assert error_rows(lost) == (("error: down", "2"), ("grader_error: no report", "1"))


def test_many_reasons_are_counted(measurement: Measurement) -> None:
    reasons = {f"error: {number}": 1 for number in range(9)}
    (sentence,) = reservations(measurement.model_copy(update={**LOST, "unmeasured": reasons}))
    assert sentence.endswith("and 4 further reasons.")


def test_limits_and_caveats_are_told(measurement: Measurement) -> None:
    told = reservations(
        measurement.model_copy(update={"limits": {"time": 2, "steps": 1}, "caveat": "Open house."})
    )
    assert told == (
        "3 attempts ended at a limit and were graded as they were: 2 by time, 1 by steps.",
        "Open house.",
    )
