"""Decide what an event asks for. All branching on events is here, and nothing else is.

What costs money or writes is done for people who may write to the repository, and never for code
or configuration that came from a fork.
"""

from dataclasses import dataclass

from skillopt_ci.action.event import Comment, Event, Pull
from skillopt_ci.action.inputs import Command, Inputs

#: Events by which a repository's own people or its clock start a job on its own code.
_CLOCK = ("push", "schedule", "workflow_dispatch", "repository_dispatch")
_CHANGED = ("opened", "synchronize", "reopened", "ready_for_review")
_OWN_BRANCHES = ("skillopt/", "skillopt-candidate/")
_BY_COMMENT = {
    "step": Command.STEP,
    "slow-update": Command.SLOW_UPDATE,
    "status": Command.STATUS,
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the payload does not say."""

    actor_may_write: bool = False
    """Whether the person behind the event may push to the repository."""
    keys_missing: tuple[str, ...] = ()
    """Variables that the configuration takes model keys from and that are not set."""
    skill_changed: bool = True
    """Whether the pull request touches the skill; true where that cannot be told."""
    request: str = ""
    """The word after `/skillopt` in the comment; empty if it holds no command."""


@dataclass(frozen=True, slots=True)
class Perform:
    """Run a command on the repository's own code; ``comment`` asked for it, if one did."""

    command: Command
    comment: Comment | None = None


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Compare a pull request's skill with its base; ``head_sha`` is None if head was not pinned."""

    number: int
    head_sha: str | None
    comment: Comment | None = None


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Show that a note was seen: the next step reads it."""

    comment: Comment


@dataclass(frozen=True, slots=True)
class Nothing:
    """Do nothing, for a reason that is told."""

    reason: str
    refused: Comment | None = None
    """A comment whose author may not ask for what it asks for."""


Activity = Perform | Evaluate | Acknowledge | Nothing


def decide(event: Event, inputs: Inputs, facts: Facts) -> Activity:
    """Say what ``event`` asks for."""
    if event.name in _CLOCK:
        return _clock(event, inputs)
    if event.name == "workflow_run" and inputs.command is Command.REPORT:
        return Perform(Command.REPORT)
    if event.comment is not None and event.name == "issue_comment":
        return _commented(event, event.comment, facts)
    if event.pull is not None and event.name == "pull_request":
        return _proposed(event, event.pull, inputs, facts)
    if event.pull is not None and event.name == "pull_request_target":
        return _labelled(event, event.pull, inputs, facts)
    return Nothing(f"the event {event.name!r} asks for nothing")


def _clock(event: Event, inputs: Inputs) -> Activity:
    branch = event.ref.removeprefix("refs/heads/")
    if event.name == "push":
        if event.deleted or branch == event.ref:
            return Nothing(f"{event.ref} is no branch with new commits")
        if branch.startswith(_OWN_BRANCHES):
            return Nothing(f"{branch} is written by training itself")
    return Perform(inputs.command or Command.STEP)


def _proposed(event: Event, pull: Pull, inputs: Inputs, facts: Facts) -> Activity:
    command = inputs.command or Command.EVAL
    if command.works_for_training or command is Command.COMMENT:
        return Nothing(f"{command} belongs to training, and a pull request is only reviewed")
    if command is not Command.EVAL:
        return Perform(command)
    if pull.from_fork:
        return Nothing(
            f"pull request #{pull.number} comes from a fork, which gets no secrets; nothing was "
            f"spent. A maintainer starts its evaluation with the label {inputs.label!r} or the "
            "comment `/skillopt eval`."
        )
    if event.action not in _CHANGED:
        return Nothing(f"{event.action!r} does not change a pull request's skill")
    return _evaluation(pull, facts)


def _labelled(event: Event, pull: Pull, inputs: Inputs, facts: Facts) -> Activity:
    # The label is the consent of a person who looked, to this very head: a later push has none.
    if event.action != "labeled" or event.label != inputs.label:
        return Nothing(f"waiting for the label {inputs.label!r}")
    if inputs.command not in (None, Command.EVAL):
        return Nothing("on pull_request_target only `eval` is safe")
    if not facts.actor_may_write:
        return Nothing(f"@{event.actor} labelled it without write access")
    return _evaluation(pull, facts)


def _evaluation(pull: Pull, facts: Facts) -> Activity:
    if not pull.from_fork and pull.head_ref.startswith(_OWN_BRANCHES):
        return Nothing("training measured and gated every commit of this branch already")
    if not facts.skill_changed:
        return Nothing(f"pull request #{pull.number} does not touch the skill")
    if facts.keys_missing:
        names = ", ".join(facts.keys_missing)
        return Nothing(f"this job has no {names}: nothing was evaluated and nothing spent")
    return Evaluate(pull.number, pull.head_sha)


def _commented(event: Event, comment: Comment, facts: Facts) -> Activity:
    if event.action != "created" or not facts.request:
        return Nothing("the comment holds no command")
    if event.actor_is_bot or not comment.on_pull_request or not comment.open:
        return Nothing("commands are taken from people, on open pull requests")
    if not facts.actor_may_write:
        return Nothing(f"@{event.actor} may not write to this repository", refused=comment)
    if facts.request == "note":
        return Acknowledge(comment)
    if facts.request == "eval":
        return Evaluate(comment.number, None, comment)
    return Perform(_BY_COMMENT[facts.request], comment)
