"""What can be known to fail is found before anything is paid for."""

from collections.abc import Iterable, Sequence

from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger import objects, refs, remote
from skillopt_ci.ledger.git import Git
from skillopt_ci.ledger.refs import Move, RunRefs
from skillopt_ci.ledger.repository import nearest


def require_files(git: Git, commit: str, paths: Sequence[str], where: str) -> None:
    """Raise RepositoryError unless each path is a regular file of ``commit``."""
    for path in paths:
        if objects.file_entry(git, commit, path) is None:
            uncommitted = (git.folder / path).exists()
            raise RepositoryError(
                f"{path} is not committed on {where}",
                hint="Commit it there; with a remote, push it too."
                if uncommitted
                else nearest(path, list(objects.list_files(git, commit, ""))),
            )


def check(git: Git, remote_name: str | None, names: RunRefs, base: str) -> None:
    """Try everything that recording a step will need.

    Raises RepositoryError (identity, signing, a checked-out or colliding branch),
    InfrastructureError or PushRefused (the remote cannot be reached or written).
    """
    objects.require_identity(git)
    if objects.signs(git):
        objects.write_commit(git, f"{base}^{{tree}}", (base,), "Try out signing\n")
    _refuse_collisions(refs.branches_to_move(git, names), names, "this repository")
    if remote_name is not None:
        there = remote.heads(git, remote_name, "refs/heads/*")
        _refuse_collisions(there, names, remote_name)
        attempt = Move(names.candidate, there.get(names.candidate), base)
        remote.push(git, remote_name, (attempt,), "--dry-run")


def _refuse_collisions(existing: Iterable[str], names: RunRefs, where: str) -> None:
    for wanted in (names.skills, names.candidate):
        for ref in existing:
            if ref.startswith(f"{wanted}/") or wanted.startswith(f"{ref}/"):
                raise RepositoryError(
                    f"branch {refs.branch(ref)!r} in {where} is in the way of "
                    f"{refs.branch(wanted)!r}: git keeps branches like files in folders",
                    hint=f"Rename it: git branch -m {refs.branch(ref)} {refs.branch(ref)}-old",
                )
