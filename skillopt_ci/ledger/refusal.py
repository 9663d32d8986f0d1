"""Why a remote would not do what it was asked, told apart by git's own words."""

import re
from typing import NamedTuple

from skillopt_ci.errors import (
    InfrastructureError,
    LostRace,
    PushRefused,
    RepositoryError,
    SkilloptError,
)
from skillopt_ci.ledger import refs
from skillopt_ci.ledger.git import Result

_RACE = re.compile(
    r"\((stale info|fetch first|non-fast-forward|needs force|already exists"
    r"|incorrect old value provided|remote ref updated since checkout)\)"
    r"|is at [0-9a-f]+ but expected|reference already exists|remote ref does not exist"
    # of another push that is at work on the same ref, or was a moment ago
    r"|unable to resolve reference|reference is missing but expected|reference does not exist"
)
_LOCKED = re.compile(r"(/[^'\n]+(?:\.lock|/packed-refs\.new))'?: File exists")


class _Cause(NamedTuple):
    sign: re.Pattern[str]
    meaning: str
    hint: str


def _cause(sign: str, meaning: str, hint: str) -> _Cause:
    return _Cause(re.compile(sign, re.IGNORECASE), meaning, hint)


#: Refusals of single refs, which the server decided on.
_DECISIONS = (
    _cause(
        r"GH006|GH013|protected branch|rule violations|deletion prohibited",
        "a branch protection or ruleset forbids it",
        "Let skillopt-ci push to `skillopt/**` and `skillopt-candidate/**` (create, update and "
        "delete); nothing else is ever pushed.",
    ),
    _cause(
        r"missing necessary objects",
        "an object or a ref of it is broken, as after a power loss",
        "Where that repository is kept, `git fsck` tells which.",
    ),
    _cause(r"hook declined", "a hook on the server declined it", "Its own words are above."),
)

#: Failures of the whole conversation.
_FAILURES = (
    _cause(
        r"ref updates aborted by hook",
        "a reference-transaction hook, here or on the server, refused it",
        "Its own words are above.",
    ),
    _cause(
        r"does not support --atomic|dumb http",
        "it cannot take several refs as one transaction, so a step could get lost half-way",
        "Use a git server with the smart protocol, or set `git.remote: null` to stay local.",
    ),
    _cause(
        r"error: 403|write access to repository not granted|marked as read only|denied to "
        r"|insufficient permission|read-only",
        "it may be read but not written",
        "Use credentials with write access (in GitHub Actions: `permissions: contents: write`).",
    ),
    _cause(
        r"authentication failed|could not read (username|password)|permission denied"
        r"|invalid credentials|error: 401|terminal prompts disabled|host key verification failed",
        "it does not accept our credentials",
        "Set up git's credentials for it; `git ls-remote` must work without asking.",
    ),
    _cause(
        r"could not resolve|failed to connect|couldn't connect|connection (refused|timed out|reset"
        r"|closed)|operation timed out|unreachable|no route to host|unexpected disconnect"
        r"|early eof|hung up unexpectedly|error: 5\d\d|\bssl\b|\btls\b|certificate",
        "the network or the server failed",
        "Nothing is lost: run again once it can be reached.",
    ),
    _cause(
        r"not found|does not appear to be a git repository|error: 404|no such file",
        "there is no repository, or none that our credentials may see",
        "Check `git remote -v`.",
    ),
)


def locked_by(result: Result) -> str:
    """Return the lock file that git met, nothing if it was something else that stopped it."""
    met = _LOCKED.search(result.stderr)
    return met[1] if met else ""


def of_push(remote: str, result: Result) -> SkilloptError:
    """Word the failure of ``git push --porcelain``: a LostRace, or a PushRefused."""
    rejected = [line for line in result.text.splitlines() if line.startswith("!")]
    words = "\n".join([*rejected, result.stderr.strip()]).strip()
    if lock := locked_by(result):
        return PushRefused(
            f"{remote!r} did not take the push: a lock of git's was left behind there\n{words}",
            hint="Nothing is lost, but the run cannot go on while it is there. Where that "
            f"repository is kept, see that no git is at work in it, then remove\n{lock}\n"
            "At a code host, its support can.",
        )
    if _RACE.search(words):
        return LostRace(
            f"another run moved this run's branches on {remote!r} first",
            hint=f"Nothing was overwritten. git said:\n{words}",
        )
    if not rejected and "failed to push some refs" in words and "fatal:" not in words:
        meaning, hint = "this repository's own pre-push hook refused it", "Its words are above."
    else:
        meaning, hint = _explain(words, _DECISIONS if rejected else _FAILURES)
    return PushRefused(f"{remote!r} did not take the push: {meaning}\n{words}", hint=hint)


def of_fetch(remote: str, result: Result) -> SkilloptError:
    """Word the failure of a fetch or of asking for the remote's refs."""
    words = result.stderr.strip()
    if locked_by(result) or "bad object refs/" in words:
        return RepositoryError(
            f"refs of this repository are locked or broken, so nothing can be fetched\n{words}",
            hint=refs.HOW_REPAIRED,
        )
    meaning, hint = _explain(words, _FAILURES)
    return InfrastructureError(f"cannot read from {remote!r}: {meaning}\n{words}", hint=hint)


def _explain(words: str, causes: tuple[_Cause, ...]) -> tuple[str, str]:
    for cause in causes:
        if cause.sign.search(words):
            return cause.meaning, cause.hint
    return "git gives this reason", ""
