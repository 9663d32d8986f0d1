"""The event that started the job, and what it asks for: a pure function of event and facts.

All branching on events is here, and nothing else.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from skillopt_ci.action.inputs import Command, Inputs
from skillopt_ci.errors import UsageError
from skillopt_ci.github.types import Reaction
from skillopt_ci.report.evaluation import TRAINED

#: Commands that people may give in a comment.
REQUESTS = ("step", "eval", "slow-update", "note", "status", "diff", "report", "apply", "revert")
#: What :func:`requested` returns for any other command.
UNKNOWN = "unknown"

# At the first character only: a quotation or a code block is no command. A workflow's `startsWith`
# ignores case, so that a job starts for `/Skillopt`, too: it gets the list of commands.
_ADDRESSED = re.compile(r"/skillopt(?!\S)", re.IGNORECASE)
_REQUEST = re.compile(r"/skillopt[ \t]+([a-z-]+)(?:[ \t]+(\S.*))?[ \t]*", re.ASCII)


def requested(comment: str) -> tuple[str, str]:
    """The command after `/skillopt` (in :data:`REQUESTS`, or :data:`UNKNOWN`) and its argument.

    Both are empty without `/skillopt`. Only a note, a revert and `apply anyway` take further text.
    """
    first, *rest = comment.splitlines() or [""]
    if not _ADDRESSED.match(first):
        return "", ""
    found = _REQUEST.fullmatch(first)
    word, said = (found[1], (found[2] or "").strip()) if found else ("", "")
    if word in ("note", "revert"):  # which need an argument
        fits = bool(said) or (word == "note" and any(line.strip() for line in rest))
    else:
        fits = word in REQUESTS and said in ("", "anyway" if word == "apply" else "")
    return word if fits else UNKNOWN, said


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request from the payload; its head is the one at the time of the event."""

    number: int
    head_sha: str
    head_ref: str
    from_fork: bool


@dataclass(frozen=True, slots=True)
class Request:
    """A comment in a conversation: the ``request`` in its first line and ``said``, its argument."""

    id: int
    number: int
    request: str
    created_at: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class GitHubEvent:
    """An event; fields that do not apply are empty. ``group_sha`` is a merge group's head.

    ``comment`` is there if a person gives a new command in it, on an open pull request.
    """

    name: str
    action: str = ""
    ref: str = ""
    deleted: bool = False
    actor: str = ""
    label: str = ""
    pull: Pull | None = None
    comment: Request | None = None
    group_sha: str = ""


def read_event(name: str, file: Path) -> GitHubEvent:
    """Raises UsageError if the payload is not what GitHub sends."""
    try:
        payload = json.loads(file.read_text(encoding="utf-8"))
        label, pull = payload.get("label") or {}, payload.get("pull_request")
        # what a pull request changes depends on its base
        rebased = "base" in (payload.get("changes") or {})
        return GitHubEvent(
            name=name,
            action="rebased" if rebased else payload.get("action") or "",
            ref=payload.get("ref") or "",
            deleted=bool(payload.get("deleted")),
            actor=(payload.get("sender") or {}).get("login") or "",
            label=label.get("name") or "",
            pull=_pull(pull) if pull else None,
            comment=_asked(payload) if name == "issue_comment" else None,
            group_sha=(payload.get("merge_group") or {}).get("head_sha") or "",
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise UsageError(f"the payload of the event {name!r} cannot be read: {why}") from error


def _pull(pull: dict[str, Any]) -> Pull:
    head, base = ((pull[side].get("repo") or {}).get("full_name") for side in ("head", "base"))
    return Pull(
        int(pull["number"]),
        str(pull["head"]["sha"]),
        str(pull["head"]["ref"]),
        # Without a repository, the fork was deleted.
        from_fork=head is None or head != base,
    )


def _asked(payload: dict[str, Any]) -> Request | None:
    issue, comment, sender = (payload.get(key) or {} for key in ("issue", "comment", "sender"))
    word, said = requested(comment.get("body") or "")
    by_person = payload.get("action") == "created" and sender.get("type") != "Bot"
    on_pull = issue.get("pull_request") is not None and issue.get("state", "open") == "open"
    if not (word and by_person and on_pull):
        return None
    at = comment.get("created_at") or ""
    return Request(int(comment["id"]), int(issue["number"]), word, at, said)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that are not in the payload."""

    actor_may_write: bool = False
    #: Variables with model keys that the configuration needs but that are not set.
    keys_missing: tuple[str, ...] = ()
    #: True if unknown.
    skill_changed: bool = True
    #: The pull request's head when the comment was made; None if GitHub does not know.
    head_then: str | None = None
    #: The pull request's branch is one of the run's own.
    trained: bool = False
    #: The comment is on the pull request of another run, whose own job obeys it.
    of_other_run: bool = False
    #: The pull request goes into the default branch, which is checked out for comments.
    into_default: bool = True
    #: Training reads notes on the pull request: it is the run's own.
    notes_read: bool = True
    #: The checkout, which is base, has a configuration.
    configured: bool = True


@dataclass(frozen=True, slots=True)
class Perform:
    """Run a command on the repository's own code; ``comment`` requested it, if any."""

    command: Command
    comment: Request | None = None


@dataclass(frozen=True, slots=True)
class Evaluate:
    number: int
    head_sha: str
    comment: Request | None = None
    #: Whether a verdict on it, which was for another base, counts no more.
    again: bool = False


@dataclass(frozen=True, slots=True)
class Conclude:
    """Post the evaluation's check on a commit that is not evaluated; None keeps it pending."""

    head_sha: str
    conclusion: Literal["success", "neutral"] | None
    reason: str
    #: As in :class:`Evaluate`.
    again: bool = False
    #: The pull request, if it does not change the skill: no earlier evaluation counts any more.
    untouched: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """Do what a comment asks for without a model, and reply with the result."""

    comment: Request
    head_then: str | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """Do nothing; write the reason to the log and, with ``answer``, into the thread."""

    reason: str
    comment: Request | None = None
    reaction: Reaction = "-1"
    answer: bool = False


Activity = Perform | Evaluate | Conclude | Reply | Nothing

#: Events that members or the schedule cause, and that run the repository's own code.
_OWN_EVENTS = ("push", "schedule", "workflow_dispatch", "repository_dispatch")
CHANGED = ("opened", "synchronize", "reopened", "ready_for_review", "rebased")
_OWN_BRANCHES = ("skillopt/", "skillopt-candidate/")


def decide(event: GitHubEvent, inputs: Inputs, facts: Facts) -> Activity:
    if event.name in _OWN_EVENTS:
        return _trusted(event, inputs)
    if event.name == "workflow_run" and inputs.command is Command.REPORT:
        return Perform(Command.REPORT)
    if event.name == "issue_comment":
        return _commented(event, inputs, facts)
    reviews = event.name in ("merge_group", "pull_request", "pull_request_target")
    if reviews and not facts.configured and inputs.command in (None, Command.EVAL):
        return Nothing(f"base has no {inputs.config}, so there is nothing to evaluate")
    if event.name == "merge_group" and event.action == "checks_requested":
        why = "every pull request of a merge group has had this check already"
        return Conclude(event.group_sha, "success", why)
    if event.pull is not None and event.name == "pull_request":
        return _proposed(event, event.pull, inputs, facts)
    if event.pull is not None and event.name == "pull_request_target":
        return _labelled(event, event.pull, inputs, facts)
    return Nothing(f"the event {event.name!r} asks for nothing")


def _trusted(event: GitHubEvent, inputs: Inputs) -> Activity:
    branch = event.ref.removeprefix("refs/heads/")
    if event.name == "push" and (event.deleted or branch == event.ref):
        return Nothing(f"{event.ref} is not a branch with new commits")
    if branch.startswith(_OWN_BRANCHES):
        return Nothing(f"{branch} is written by training itself: start on the base branch")
    return Perform(inputs.command or Command.STEP)


def _proposed(event: GitHubEvent, pull: Pull, inputs: Inputs, facts: Facts) -> Activity:
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
    if event.action not in CHANGED:
        return Nothing(f"{event.action!r} does not change a pull request's skill")
    return _evaluation(event, pull, facts)


def _labelled(event: GitHubEvent, pull: Pull, inputs: Inputs, facts: Facts) -> Activity:
    if inputs.command not in (None, Command.EVAL):
        return Nothing("on pull_request_target only `eval` is safe")
    if event.action in CHANGED and not (pull.from_fork and facts.skill_changed):
        return _evaluation(event, pull, facts)
    # The label is a reviewer's consent to exactly this head; it does not cover later pushes.
    if event.action != "labeled" or event.label.casefold() != inputs.label.casefold():
        why = (
            f"waiting for somebody with write access to add the label {inputs.label!r}: remove it "
            "first if it is there from before this commit"
        )
        if pull.from_fork and event.action in CHANGED:
            return Conclude(pull.head_sha, None, why, again=event.action == "rebased")
        return Nothing(why)
    if not facts.actor_may_write:
        return Nothing(f"@{event.actor} labelled it without write access")
    return _evaluation(event, pull, facts)


def _evaluation(event: GitHubEvent, pull: Pull, facts: Facts) -> Activity:
    again = event.action == "rebased"
    if not pull.from_fork and facts.trained:
        return Conclude(pull.head_sha, "success", TRAINED, again=again)
    if not facts.skill_changed:
        why = f"pull request #{pull.number} does not touch the skill"
        return Conclude(pull.head_sha, "success", why, untouched=pull.number)
    if facts.keys_missing:
        names = ", ".join(facts.keys_missing)
        why = f"this job has no {names}: nothing was evaluated and nothing spent"
        return Conclude(pull.head_sha, "neutral", why, again=again)
    return Evaluate(pull.number, pull.head_sha, again=again)


_COMMANDS = (
    "Unknown command. After `/skillopt`, write one of these, alone on the comment's first line: "
    "`step`, `eval`, `slow-update`, `status`, `diff`, `report`, `apply` (or `apply anyway`); or "
    "`note`, followed by your note, or `revert`, followed by a step's number or words "
    "from its rule."
)
_UNREAD = "Notes here are not read. Add yours to the pull request that training opened."


def _commented(event: GitHubEvent, inputs: Inputs, facts: Facts) -> Activity:
    comment = event.comment
    if comment is None:
        return Nothing(
            "only new comments by people on open pull requests count, if they begin with /skillopt"
        )
    if not facts.actor_may_write:
        return Nothing(f"@{event.actor} may not write to this repository", comment)
    if facts.of_other_run:
        return Nothing(f"pull request #{comment.number} belongs to another run")
    unread = comment.request == "note" and not facts.notes_read
    if unread or comment.request == UNKNOWN:
        return Nothing(_UNREAD if unread else _COMMANDS, comment, "confused", answer=True)
    if comment.request == "note":
        return Nothing("the note is read by the next training step", comment, "eyes")
    if comment.request == "eval":
        if facts.head_then is not None and facts.into_default:
            return Evaluate(comment.number, facts.head_then, comment)
        why = (
            "GitHub does not say which commit was this pull request's head when you commented, "
            "and a later one is not what you asked for"
            if facts.into_default
            else "comments compare with the default branch, not with this pull request's base"
        )
        text = (
            f"Nothing was evaluated: {why}. Add the label `{inputs.label}` instead: it applies to "
            "the commit that it is added to, and to this pull request's base."
        )
        return Nothing(text, comment, "confused", answer=True)
    if comment.request in ("step", "slow-update"):
        return Perform(Command(comment.request), comment)
    return Reply(comment, facts.head_then)
