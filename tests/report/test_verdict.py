import pytest

from skillopt_ci.ledger.records import verdict


@pytest.mark.parametrize(
    ("action", "score_after", "words"),
    [
        ("accept_new_best", 0.75, "merged, new best"),
        ("accept", 0.75, "merged"),
        ("reject", 0.25, "reverted"),
        ("reject", None, "nothing changed"),
        ("skip_no_patches", None, "nothing proposed"),
        ("an action of a later version", 0.5, "an action of a later version"),
    ],
)
def test_an_action_is_put_into_words(action: str, score_after: float | None, words: str) -> None:
    assert verdict(action, score_after) == words
