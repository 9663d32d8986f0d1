"""Talk to the remote. All but :func:`push` raise InfrastructureError if it cannot be read."""

import re
from collections.abc import Sequence
from time import sleep
from typing import NamedTuple

from skillopt_ci.errors import InfrastructureError, LostRace, PushRefused, RepositoryError
from skillopt_ci.git.process import Exited, Git, redact
from skillopt_ci.git.refs import HOW_TO_REPAIR, REFUSED_BY_HOOK, Move, read, tracking

_RACE = re.compile(
    r"\((stale info|fetch first|non-fast-forward|needs force|already exists"
    r"|incorrect old value provided|remote ref updated since checkout)\)"
    r"|is at [0-9a-f]+ but expected|reference already exists|remote ref does not exist"
    # another push is updating the same ref, or has just done so
    r"|unable to resolve reference|reference is missing but expected|reference does not exist"
)
_LOCKED = re.compile(r"(/[^'\n]+(?:\.lock|/packed-refs\.new))'?: File exists|lock references")
#: Seconds between tries of a push that met a lock; a live git releases it long before the last.
_LOCK_PAUSES = (0.5, 1, 2, 4, 8)
#: A remote that has not listed its refs by then counts as unreachable.
ANSWER_SECONDS = 30.0
#: Fetch without the side effects that the user's configuration may ask for.
_FETCH = (
    "fetch", "--quiet", "--no-tags", "--no-prune", "--no-recurse-submodules",
    "--no-write-fetch-head", "--no-auto-maintenance",
)  # fmt: skip
_PUSH = ("push", "--porcelain", "--atomic", "--no-follow-tags", "--no-recurse-submodules")


class _Cause(NamedTuple):
    """A case-insensitive pattern of git's messages, its meaning, and what to do about it."""

    pattern: str
    meaning: str
    hint: str


#: The server rejected individual refs.
_DECISIONS: tuple[_Cause, ...] = (
    _Cause(
        r"push cannot contain secrets",
        "GitHub takes something in it for a secret",
        "If it is none, allow it at the address in its words; else remove it from the tasks.",
    ),
    _Cause(
        r"verified signatures",
        "a ruleset asks for signed commits",
        "Have GitHub make and sign them: `git: {commits: api}` in the configuration.",
    ),
    _Cause(
        r"GH006|GH013|protected branch|rule violations|deletion prohibited",
        "a branch protection or ruleset forbids it",
        "Let skillopt-ci push to `skillopt/**` and `skillopt-candidate/**` (create, update and "
        "delete); nothing else is ever pushed.",
    ),
    _Cause(
        r"missing necessary objects",
        "an object or a ref of it is broken, as after a power loss",
        "Where that repository is kept, `git fsck` tells which.",
    ),
    _Cause(r"hook declined", "a hook on the server declined it", "Its own words are above."),
)
#: The whole command failed.
_FAILURES: tuple[_Cause, ...] = (
    _Cause(
        REFUSED_BY_HOOK,
        "a reference-transaction hook, here or on the server, refused it",
        "Its own words are above.",
    ),
    _Cause(
        r"does not support --atomic|dumb http",
        "it cannot take several refs as one transaction, so a step could get lost half-way",
        "Use a git server with the smart protocol, or set `git.remote: null` to stay local.",
    ),
    _Cause(
        r"error: 403|write access to repository not granted|marked as read only|denied to "
        r"|insufficient permission|read-only",
        "it may be read but not written",
        "Use credentials with write access (in GitHub Actions: `permissions: contents: write`).",
    ),
    _Cause(
        "--signed push|sign the push certificate",
        "push.gpgSign asks for a signed push, which is not possible",
        "Turn it off in this repository: git config push.gpgSign false",
    ),
    _Cause(
        r"authentication failed|could not read (username|password)|permission denied|error: 401"
        r"|invalid credentials|terminal prompts disabled|host key verification failed",
        "it does not accept our credentials",
        "Set up git's credentials or renew the token; `git ls-remote` must work without asking.",
    ),
    _Cause(
        "certificate (verification failed|problem)",
        "its certificate is not trusted here",
        "Set GIT_SSL_CAINFO (or git's http.sslCAInfo) to a file with your certificate authority.",
    ),
    _Cause(
        r"could not resolve|(failed to|couldn't) connect|broken pipe|timed out|too slow|unreachable"
        r"|connection (refused|reset|closed)|no route to host|unexpected disconnect|early eof"
        r"|hung up unexpectedly|expected (flush|'pack)|error: 5\d\d|\bssl\b|\btls\b|certificate",
        "the network or the server failed",
        "Nothing is lost: run again once it can be reached.",
    ),
    _Cause(
        r"not found|does not appear to be a git repository|error: 404|no such file",
        "there is no repository, or none that our credentials may see",
        "Check `git remote -v`.",
    ),
)


def heads(git: Git, remote: str, *patterns: str) -> dict[str, str]:
    listed = _listed(git, "--refs", remote, *patterns)
    if listed.status != 0:
        raise fetch_error(remote, listed)
    found = {name: oid for oid, name in (line.split("\t") for line in listed.text.splitlines())}
    for name in (name for name, oid in found.items() if not oid.strip("0")):
        known = read(git, tracked := tracking(remote, name)).get(tracked, "COMMIT")
        raise InfrastructureError(
            f"{name} is broken on {remote!r}, as after a power loss: it names no commit there",
            hint="Where that repository is kept, remove the file and set the ref to where it was: "
            f"git update-ref {name} {known}",
        )
    return found


def choose_base(git: Git, remote: str | None, configured: str | None, *, guess: bool) -> str:
    """The base branch: the configured one, else the remote's default, else the one checked out.

    With ``guess``, an unreadable remote is ignored instead of raising.
    """
    if configured:
        return configured
    if remote:
        if known := git.attempt("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD").text:
            return known.removeprefix(f"refs/remotes/{remote}/")
        listed = _listed(git, "--symref", remote, "HEAD")
        if listed.status != 0 and not guess:
            raise fetch_error(remote, listed)
        _, is_branch, rest = listed.text.partition("ref: refs/heads/")
        if is_branch:
            return rest.split("\t")[0]
    if checked_out := git.attempt("symbolic-ref", "--quiet", "--short", "HEAD").text:
        return checked_out
    raise RepositoryError(
        "cannot tell which branch is the base: HEAD is detached and no remote names a default",
        hint="Set `git.base` in the configuration, for example `git: {base: main}`.",
    )


def fetch(git: Git, remote: str, names: Sequence[str], *options: str) -> None:
    refspecs = (f"+{name}:{tracking(remote, name)}" for name in names)
    fetch_objects(git, remote, *refspecs, options=options)


def fetch_objects(git: Git, remote: str, *refs: str, options: Sequence[str] = ()) -> None:
    """Fetch what refs of the remote point at; a bare name creates no local ref, a refspec does."""
    if (result := git.attempt(*_FETCH, *options, remote, *refs)).status != 0:
        raise fetch_error(remote, result)


def push(git: Git, remote: str, moves: Sequence[Move], *options: str) -> None:
    """Move remote refs atomically. Raises LostRace if one is not where expected, or PushRefused."""
    leases = (f"--force-with-lease={move.ref}:{move.old or ''}" for move in moves)
    refspecs = (f"{move.new or ''}:{move.ref}" for move in moves)
    command = (*_PUSH, *options, *leases, remote, *refspecs)
    result = git.attempt(*command)
    for seconds in _LOCK_PAUSES:
        if result.status == 0 or not _LOCKED.search(result.stderr):
            break
        sleep(seconds)
        result = git.attempt(*command)
    if result.status == 0:
        return
    # it may have arrived all the same: if the answer is lost, curl sends it again
    listed = _listed(git, remote, *(move.ref for move in moves))
    there = {name: oid for oid, name in (line.split("\t") for line in listed.text.splitlines())}
    if listed.status != 0 or any(there.get(move.ref) != move.new for move in moves):
        raise push_error(remote, result)


def push_error(remote: str, result: Exited) -> LostRace | PushRefused:
    rejected = [line for line in result.text.splitlines() if line.startswith("!")]
    words = "\n".join([*rejected, result.stderr]).strip() or f"exit status {result.status}"
    if lock := _LOCKED.search(result.stderr):
        return PushRefused(
            f"{remote!r} did not accept the push: git left a lock behind there\n{words}",
            hint="Nothing is lost, but the run cannot continue until it is gone. Where that "
            "repository is kept, see that no git is at work in it, then remove\n"
            # with reftable, git names no file
            f"{lock[1] or 'reftable/tables.list.lock'}\nAt a code host, its support can.",
        )
    if _RACE.search(words):
        return LostRace(
            f"another run or a person moved this run's branches on {remote!r} first",
            hint=f"Nothing was overwritten. git said:\n{words}",
        )
    ended = re.search("fatal:|send-pack:", words)  # by git itself, on either side
    if not (rejected or ended) and "failed to push some refs" in words:
        meaning, hint = "this repository's own pre-push hook refused it", "Its words are above."
    else:
        meaning, hint = _explain(words, _DECISIONS if rejected else _FAILURES)
    return PushRefused(f"{remote!r} did not accept the push: {meaning}\n{words}", hint=hint)


def fetch_error(remote: str, result: Exited) -> InfrastructureError | RepositoryError:
    words = result.stderr.strip() or f"exit status {result.status}"
    # git 2.53 tells a lock by "already exists"
    if _LOCKED.search(words) or re.search(
        "bad object refs/|failed: reference already|cannot (?:lock|update) ref(?!.* but expected)",
        words,
    ):
        return RepositoryError(
            f"refs of this repository are locked or broken, so nothing can be fetched\n{words}",
            hint=HOW_TO_REPAIR,
        )
    why, hint = _explain(words, _FAILURES)
    return InfrastructureError(f"cannot read from {redact(remote)!r}: {why}\n{words}", hint=hint)


def _listed(git: Git, *words: str) -> Exited:
    return git.attempt("ls-remote", *words, seconds=ANSWER_SECONDS)


def _explain(words: str, causes: tuple[_Cause, ...]) -> tuple[str, str]:
    for cause in causes:
        if re.search(cause.pattern, words, re.IGNORECASE):
            return cause.meaning, cause.hint
    return "git gives this reason", ""
