"""Commits made through the GitHub API, for repositories that require signed commits.

GitHub signs its apps' commits. We upload git objects; equal hashes prove that the tree is the one
built here. The commit is then fetched and treated like a local one.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from skillopt_ci.git import objects
from skillopt_ci.git.process import Git
from skillopt_ci.git.remote import fetch_objects
from skillopt_ci.github.client import Client, Refused, Unavailable, asking

_WRITE = "contents: write"


@dataclass(frozen=True, slots=True)
class ApiCommits:
    """The ledger's ``write_commit``; ``remote`` is git's name for the same repository."""

    client: Client
    remote: str

    def __call__(self, git: Git, tree: str, parents: Sequence[str], message: str) -> str:
        """Make a commit on GitHub and fetch it. All parents must be on GitHub already.

        Raises Refused or Unavailable; InfrastructureError if it cannot be fetched.
        """
        listed = git.run("rev-list", "--objects", "--no-object-names", tree, "--not", *parents)
        for oid in listed.text.splitlines():
            if (found := objects.find(git, oid)) is not None and found.kind == "blob":
                content = b64encode(found.content).decode("ascii")
                self._expect(oid, "blobs", {"content": content, "encoding": "base64"})
        base = git.run("rev-parse", f"{parents[0]}^{{tree}}").text
        if entries := list(_changed(git, base, tree)):
            self._expect(tree, "trees", {"base_tree": base, "tree": entries})
        # Without author and committer, GitHub takes them from the token and signs the commit.
        made = self._create("commits", {"message": message, "tree": tree, "parents": [*parents]})
        # It is on no branch, so it is fetched through a temporary ref.
        name = f"skillopt-ci/{made}"
        try:
            self._create("refs", {"ref": f"refs/{name}", "sha": made})
        except Refused as refused:
            if "already exists" not in refused.words.lower():
                raise
        fetch_objects(git, self.remote, f"refs/{name}")
        # It may be gone already, and one that stays does no harm.
        with suppress(Refused), asking("remove a temporary ref", _WRITE):
            self.client.send("DELETE", f"/git/refs/{name}")
        return made

    def _expect(self, oid: str, kind: str, content: Mapping[str, object]) -> None:
        made = self._create(kind, content)
        if made != oid:
            raise Unavailable(f"GitHub built {made} where git has {oid}: nothing was committed")

    def _create(self, kind: str, content: Mapping[str, object]) -> str:
        """Create a git object; after a lost answer, a duplicate is identical or unused."""

        def post() -> str:
            with asking(f"create git {kind}", _WRITE):
                made = self.client.send("POST", f"/git/{kind}", dict(content))
            return str(made["sha"] if "sha" in made else made["ref"])

        return self.client.create_idempotent(post, lambda: None)


def _changed(git: Git, old: str, new: str) -> Iterator[dict[str, Any]]:
    listed = git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", old, new).text.split("\0")
    for facts, path in zip(listed[:-1:2], listed[1::2], strict=True):
        old_mode, new_mode, _, oid, status = facts.removeprefix(":").split(" ")
        removed = status == "D"
        mode = old_mode if removed else new_mode
        kind = "commit" if mode == objects.SUBMODULE else "blob"
        yield {"path": path, "mode": mode, "type": kind, "sha": None if removed else oid}
