"""Talk to the remote: its refs, fetches by explicit refspec, pushes that expect a state."""

from collections.abc import Sequence
from time import sleep

from skillopt_ci.errors import InfrastructureError
from skillopt_ci.ledger import refs, refusal
from skillopt_ci.ledger.git import Git

#: Leave alone what else the user's configuration would have a fetch do.
_FETCH = (
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-prune",
    "--no-recurse-submodules",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
)
_PUSH = ("push", "--porcelain", "--atomic", "--no-follow-tags", "--no-recurse-submodules")
#: Seconds between tries of a push that met a lock: a living git gives it up long before the last.
_LOCK_PAUSES = (0.5, 1, 2, 4, 8)


def heads(git: Git, remote: str, *patterns: str) -> dict[str, str]:
    """Ask the remote for the refs that match ``patterns``: full name to object.

    Raises InfrastructureError if it cannot be asked, or one of them is broken there.
    """
    result = git.attempt("ls-remote", "--refs", remote, *patterns)
    if result.status != 0:
        raise refusal.of_fetch(remote, result)
    pairs = (line.split("\t") for line in result.text.splitlines())
    found = {name: oid for oid, name in pairs}
    for name in (name for name, oid in found.items() if not oid.strip("0")):
        known = refs.read(git, tracked := refs.tracking(remote, name)).get(tracked, "COMMIT")
        raise InfrastructureError(
            f"{name} is broken on {remote!r}, as after a power loss: it names no commit there",
            hint="Where that repository is kept, remove the file and set the ref to where it was: "
            f"git update-ref {name} {known}",
        )
    return found


def default_branch(git: Git, remote: str) -> str | None:
    """Ask the remote which branch its HEAD is; None if it is empty or detached.

    Raises InfrastructureError if it cannot be asked.
    """
    result = git.attempt("ls-remote", "--symref", remote, "HEAD")
    if result.status != 0:
        raise refusal.of_fetch(remote, result)
    _, is_branch, rest = result.text.partition("ref: refs/heads/")
    return rest.split("\t")[0] if is_branch else None


def fetch(git: Git, remote: str, names: Sequence[str], *options: str) -> None:
    """Fetch branches (full names) into their tracking refs.

    Raises InfrastructureError if the remote cannot be read.
    """
    refspecs = (f"+{name}:{refs.tracking(remote, name)}" for name in names)
    result = git.attempt(*_FETCH, *options, remote, *refspecs)
    if result.status != 0:
        raise refusal.of_fetch(remote, result)


def fetch_object(git: Git, remote: str, ref: str) -> None:
    """Fetch what a ref of the remote points at, without a ref of our own for it.

    Raises InfrastructureError if the remote cannot be read.
    """
    result = git.attempt(*_FETCH, remote, ref)
    if result.status != 0:
        raise refusal.of_fetch(remote, result)


def deepen_clone(git: Git, remote: str, names: Sequence[str], generations: int) -> None:
    """Fetch that many more generations of a shallow clone's branches; 0 means all there are.

    Raises InfrastructureError if the remote cannot be read.
    """
    option = f"--deepen={generations}" if generations else "--unshallow"
    fetch(git, remote, tuple(heads(git, remote, *names)), option)


def push(git: Git, remote: str, moves: Sequence[refs.Move], *options: str) -> None:
    """Move refs of the remote, all or none, each only from where it is expected to be.

    A lock on one of them is waited for. Raises LostRace if one is elsewhere, PushRefused (which
    says why) otherwise.
    """
    leases = (f"--force-with-lease={move.ref}:{move.old or ''}" for move in moves)
    refspecs = (f"{move.new or ''}:{move.ref}" for move in moves)
    command = (*_PUSH, *options, *leases, remote, *refspecs)
    result = git.attempt(*command)
    for seconds in _LOCK_PAUSES:
        if result.status == 0 or not refusal.locked_by(result):
            break
        sleep(seconds)
        result = git.attempt(*command)
    if result.status != 0:
        raise refusal.of_push(remote, result)
