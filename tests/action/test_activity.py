from dataclasses import replace

import pytest

from skillopt_ci.action.event import (
    Acknowledge,
    Activity,
    Comment,
    Evaluate,
    Event,
    Facts,
    Nothing,
    Perform,
    Pull,
    decide,
)
from skillopt_ci.action.inputs import Command, Inputs

NOTHING = "nothing"
OWN = Pull(7, "head", "better", from_fork=False)
FORK = replace(OWN, from_fork=True)
TRAINED = replace(OWN, head_ref="skillopt/ledger")
SAID = Comment(11, 7, "/skillopt …", on_pull_request=True, open=True)
WRITER = Facts(actor_may_write=True)


def push(ref: str, **more: bool) -> Event:
    return Event("push", ref=ref, **more)


def pull(pull: Pull, action: str = "opened") -> Event:
    return Event("pull_request", action, pull=pull)


def target(pull: Pull, action: str = "labeled", label: str = "skillopt-eval") -> Event:
    return Event("pull_request_target", action, actor="ada", label=label, pull=pull)


def said(comment: Comment = SAID, action: str = "created", **more: bool) -> Event:
    return Event("issue_comment", action, actor="ada", comment=comment, **more)


def asked(word: str) -> Facts:
    return replace(WRITER, request=word)


TABLE: list[tuple[Event, str, Facts, Activity | str]] = [
    (Event("schedule"), "", Facts(), Perform(Command.STEP)),
    (Event("schedule"), "slow-update", Facts(), Perform(Command.SLOW_UPDATE)),
    (Event("schedule"), "propose", Facts(), Perform(Command.PROPOSE)),
    (Event("workflow_dispatch"), "run", Facts(), Perform(Command.RUN)),
    (Event("repository_dispatch"), "", Facts(), Perform(Command.STEP)),
    (push("refs/heads/main"), "", Facts(), Perform(Command.STEP)),
    (push("refs/heads/skillopt/ledger"), "", Facts(), NOTHING),
    (push("refs/heads/skillopt-candidate/ledger"), "step", Facts(), NOTHING),
    (push("refs/heads/main", deleted=True), "", Facts(), NOTHING),
    (push("refs/tags/v1"), "", Facts(), NOTHING),
    (pull(OWN), "", Facts(), Evaluate(7, "head")),
    (pull(OWN, "synchronize"), "eval", Facts(), Evaluate(7, "head")),
    (pull(OWN, "closed"), "", Facts(), NOTHING),
    (pull(OWN), "", Facts(skill_changed=False), NOTHING),
    (pull(OWN), "", Facts(keys_missing=("KEY",)), NOTHING),
    (pull(OWN), "step", WRITER, NOTHING),
    (pull(OWN), "rollout", WRITER, NOTHING),
    (pull(OWN), "propose", WRITER, NOTHING),
    (target(OWN), "propose", WRITER, NOTHING),
    (pull(OWN), "comment", WRITER, NOTHING),
    (pull(OWN), "validate", Facts(), Perform(Command.VALIDATE)),
    (pull(TRAINED), "", Facts(), NOTHING),
    (pull(FORK), "", WRITER, NOTHING),
    (pull(replace(TRAINED, from_fork=True)), "", WRITER, NOTHING),
    (target(FORK), "", WRITER, Evaluate(7, "head")),
    (target(OWN), "eval", WRITER, Evaluate(7, "head")),
    (target(FORK), "", Facts(), NOTHING),
    (target(FORK, label="docs"), "", WRITER, NOTHING),
    (target(FORK, action="synchronize"), "", WRITER, NOTHING),
    (target(FORK), "step", WRITER, NOTHING),
    (target(FORK), "validate", WRITER, NOTHING),
    (target(replace(TRAINED, from_fork=True)), "", WRITER, Evaluate(7, "head")),
    (said(), "", asked("step"), Perform(Command.STEP, SAID)),
    (said(), "", asked("slow-update"), Perform(Command.SLOW_UPDATE, SAID)),
    (said(), "", asked("status"), Perform(Command.STATUS, SAID)),
    (said(), "", asked("eval"), Evaluate(7, None, SAID)),
    (said(), "", asked("note"), Acknowledge(SAID)),
    (said(), "", WRITER, NOTHING),
    (said(action="edited"), "", asked("step"), NOTHING),
    (said(actor_is_bot=True), "", asked("step"), NOTHING),
    (said(replace(SAID, open=False)), "", asked("step"), NOTHING),
    (said(replace(SAID, on_pull_request=False)), "", asked("step"), NOTHING),
    (Event("pull_request_review_comment", "created", pull=OWN), "", asked("step"), NOTHING),
    (Event("release", "published"), "step", WRITER, NOTHING),
    (Event("merge_group"), "", Facts(), NOTHING),
    (Event("workflow_run"), "step", WRITER, NOTHING),
    (Event("workflow_run"), "report", WRITER, Perform(Command.REPORT)),
]


@pytest.mark.parametrize(("event", "command", "facts", "expected"), TABLE)
def test_what_an_event_asks_for(
    event: Event, command: str, facts: Facts, expected: Activity | str
) -> None:
    found = decide(event, Inputs(command=Command(command) if command else None), facts)
    assert isinstance(found, Nothing) if expected == NOTHING else found == expected


@pytest.mark.parametrize("word", ["step", "eval", "slow-update", "status", "note"])
def test_who_may_not_write_is_refused_and_told(word: str) -> None:
    refused = decide(said(), Inputs(), Facts(request=word))
    assert isinstance(refused, Nothing)
    assert refused.refused == SAID
    assert "@ada may not write" in refused.reason


def test_a_fork_is_told_what_starts_its_evaluation() -> None:
    found = decide(pull(FORK), Inputs(label="please-measure"), Facts())
    assert isinstance(found, Nothing)
    assert "nothing was spent" in found.reason
    assert "'please-measure'" in found.reason
    assert found.refused is None


def test_missing_keys_are_named() -> None:
    found = decide(pull(OWN), Inputs(), Facts(keys_missing=("A_KEY", "B_KEY")))
    assert isinstance(found, Nothing)
    assert "A_KEY, B_KEY" in found.reason
