from skillopt_ci.progress import (
    Event,
    Note,
    Observer,
    StageAdvanced,
    StageFinished,
    StageStarted,
    TerminalLent,
    silent,
)

EVENTS: tuple[Event, ...] = (
    StageStarted("rollout"),
    StageAdvanced("rollout"),
    StageFinished("rollout"),
    Note("hello"),
    TerminalLent(),
)


def test_silence_takes_every_event_and_says_nothing(capfd):
    observer: Observer = silent
    for event in EVENTS:
        observer(event)
    assert capfd.readouterr() == ("", "")


def test_a_total_is_unknown_and_a_note_no_warning_unless_said():
    assert StageStarted("rollout").total == 0
    assert Note("hello").level == "info"
