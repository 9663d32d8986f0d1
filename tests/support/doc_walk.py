"""Do in a scratch folder what a page of the documentation tells its readers to do."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import forked
from doc_blocks import Block, Command, commands

from skillopt_ci.cli.init import make_repository

_GIT = "[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n"
#: What differs from one run to the next.
_CHANGING = ((re.compile(r"\b[0-9a-f]{7,40}\b"), "<commit>"), (re.compile(r"\b[\d.]+ ?s\b"), "<s>"))
ANYTHING = "…"
#: The installed command in a process that has imported what it needs: half a second less for each.
_COMMAND = f"""#!{sys.executable} -SE
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import forked
forked._server = lambda: SERVER
words = [{str(Path(sys.executable).with_name("skillopt-ci"))!r}, *sys.argv[1:]]
sys.exit(forked.Process(words, os.getcwd(), os.environ, (0, 1, 2)).wait())
"""
REMOTE = "https://github.com/YOU/ledger.git"


@dataclass(slots=True)
class Scratch:
    """A home with a folder to work in; ``where`` is where the next command starts."""

    home: Path
    where: Path

    def do(self, block: Block) -> None:
        """Write a block that is a file; run one that holds commands, and compare the output."""
        if block.is_file:
            file = self.where / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        elif block.language in {"sh", "console"}:
            for command in commands(block):
                status, printed = self.run(command.line)
                assert status == 0, (
                    f"{block}: {command.line.strip()}\nit ended with {status}:\n{printed}"
                )
                told = mismatch(command, printed)
                assert not told, f"{block}: {command.line.strip()}\n{told}\nIt printed:\n{printed}"

    def run(self, line: str) -> tuple[int, str]:
        """Run shell lines where the last ones ended; return the exit status and all output."""
        end = self.home / "where"
        script = f"set -euo pipefail\n{line}\npwd -P > {end}\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.where,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            self.where = Path(end.read_text(encoding="utf-8").strip())
        return done.returncode, done.stdout

    def _environment(self) -> dict[str, str]:
        folders = self.home / "bin", Path(sys.executable).parent, os.environ["PATH"]
        return {
            "PATH": os.pathsep.join(map(str, folders)),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "COLUMNS": "100",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PAGER": "cat",
        }


def scratch(home: Path, place: str) -> Scratch:
    """Make the folder that a page starts in: `an empty folder`, `the (trained) example`."""
    # what is pushed to GitHub goes to a repository beside the folder
    remote = home / "origin.git"
    subprocess.run(["git", "init", "--quiet", "--bare", remote], check=True)
    redirected = f'[url "{remote.as_uri()}"]\ninsteadOf = {REMOTE}\n'
    (home / ".gitconfig").write_text(_GIT + redirected, encoding="utf-8")
    (home / "bin").mkdir()
    command = home / "bin" / "skillopt-ci"
    command.write_text(_COMMAND.replace("SERVER", repr(forked._server())), encoding="utf-8")
    command.chmod(0o755)
    where = home / "work"
    if place.endswith("example"):
        make_repository(where)
    else:
        assert place == "an empty folder", f"nobody knows how to run in {place!r}"
        where.mkdir()
    made = Scratch(home, where)
    if place == "the trained example":
        status, printed = made.run("skillopt-ci run --quiet")
        assert status == 0, printed
    return made


def mismatch(command: Command, printed: str) -> str:
    """What of the shown output was not printed; nothing where none is shown, or all of it was.

    ``…`` stands for any text in a line, on a line of its own for any lines.
    """
    if not command.output:
        return ""
    wanted = "".join(_pattern(line) for line in command.output)
    return "" if re.fullmatch(wanted, _steady(printed)) else "did not print what is shown"


def _pattern(line: str) -> str:
    if line.strip() == ANYTHING:
        return r"(?:.*\n)*?"
    parts = _steady(line).rstrip().split(ANYTHING)
    return ".*".join(re.escape(part) for part in parts) + r"[ \t]*\n"


def _steady(text: str) -> str:
    for changing, name in _CHANGING:
        text = changing.sub(name, text)
    return text
