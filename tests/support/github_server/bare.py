"""The bare repository behind the server."""

import os
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

BOT = {
    "GIT_AUTHOR_NAME": "github-actions[bot]",
    "GIT_AUTHOR_EMAIL": "41898282+github-actions[bot]@users.noreply.github.com",
    "GIT_COMMITTER_NAME": "GitHub",
    "GIT_COMMITTER_EMAIL": "noreply@github.com",
}


@dataclass(frozen=True)
class Bare:
    """A bare repository and what the API does in it."""

    folder: Path
    _has: dict[tuple[str, str], bool] = field(default_factory=dict, compare=False)

    def run(self, *args: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["git", "-C", str(self.folder), *args],
            input=stdin,
            capture_output=True,
            check=False,
            env={**os.environ, **BOT, **env},
        )

    def git(self, *args: str, stdin: bytes = b"", **env: str) -> str:
        done = self.run(*args, stdin=stdin, **env)
        if done.returncode != 0:
            raise ValueError(done.stderr.decode())
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def tip(self, branch: str) -> str | None:
        """Return where a branch is; each request asks, so its file spares a process."""
        with suppress(OSError):
            return (self.folder / "refs" / "heads" / branch).read_text().strip()
        if not (self.folder / "packed-refs").exists():
            return None
        return self.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}") or None

    def save(self, branch: str, path: str, text: str, start: str = "main") -> str:
        """Commit a file on a branch, which begins where ``start`` is if it is new."""
        parent = self.tip(branch) or self.tip(start)
        oid = self.git("hash-object", "-w", "--stdin", stdin=text.encode())
        tree = self.tree(parent, [{"path": path, "mode": "100644", "sha": oid}])
        parents = ["-p", parent] if parent else []
        commit = self.git("commit-tree", tree, *parents, "-m", f"Change {path}")
        self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit

    def has(self, commit: str, ancestor: str) -> bool:
        if (ancestor, commit) not in self._has:
            done = self.run("merge-base", "--is-ancestor", ancestor, commit)
            self._has[ancestor, commit] = done.returncode == 0
        return self._has[ancestor, commit]

    def changed(self, base: str, head: str) -> list[tuple[str, str]]:
        """Return status and path of what ``head`` changes since it left ``base``."""
        words = ("diff", "-z", "--name-status", "--no-renames", f"{base}...{head}")
        fields = self.git(*words).split("\0")
        return list(zip(fields[::2], fields[1::2], strict=False))

    def merged_tree(self, base: str, head: str) -> str | None:
        """Return the tree of a merge, None if there are conflicts."""
        done = self.run("merge-tree", "--write-tree", base, head)
        return done.stdout.decode().split("\n")[0] if done.returncode == 0 else None

    def merge(self, branch: str, head: str, method: str, title: str) -> str:
        base = self.git("rev-parse", f"refs/heads/{branch}")
        tree = self.merged_tree(base, head)
        assert tree is not None
        parents = ["-p", base, *(["-p", head] if method == "merge" else [])]
        commit = self.git("commit-tree", tree, *parents, "-m", title)
        self.git("update-ref", f"refs/heads/{branch}", commit, base)
        return commit

    def tree(self, base: str | None, entries: list[dict[str, str | None]]) -> str:
        with tempfile.TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": f"{folder}/index"}
            if base:
                self.git("read-tree", base, **index)
            for entry in entries:
                gone = entry["sha"] is None
                mode, oid = ("0", "0" * 40) if gone else (entry["mode"], entry["sha"])
                line = f"{mode} {oid}\t{entry['path']}\0".encode("utf-8", "surrogateescape")
                self.git("update-index", "-z", "--index-info", stdin=line, **index)
            return self.git("write-tree", **index)
