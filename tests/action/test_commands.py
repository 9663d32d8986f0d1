import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.action.event import REQUESTS, requested


@pytest.mark.parametrize("word", ["step", "eval", "slow-update", "status"])
def test_commands_are_words_of_their_own(word: str) -> None:
    assert requested(f"/skillopt {word}") == word
    assert requested(f"/skillopt \t{word} \r\nPlease.") == word


@pytest.mark.parametrize("comment", ["/skillopt note Be brief", "/skillopt note\r\n\r\nBe brief"])
def test_a_note_says_something(comment: str) -> None:
    assert requested(comment) == "note"


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "/skillopt",
        "/skillopt ",
        "/skillopt note",
        "/skillopt note \n\t\n",
        "/skillopt steps",
        "/skillopt step now",
        "/skillopt Step",
        "/skillopt finish",
        "/skillopt-ci step",
        "/skilloptstep",
        " /skillopt step",
        "    /skillopt step",
        "> /skillopt step",
        "`/skillopt step`",
        "```\n/skillopt step\n```",
        "Please\n/skillopt step",
        "\n/skillopt step",
        "/skillopt\nstep",
        "/skillopt\u00a0step",
    ],
)
def test_everything_else_is_talk(comment: str) -> None:
    assert requested(comment) == ""


@given(st.text())
def test_any_comment_can_be_read(comment: str) -> None:
    assert requested(comment) in ("", *REQUESTS)
