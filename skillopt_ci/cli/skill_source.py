"""Find the skill text that a word on the command line means."""

import difflib
from functools import partial
from pathlib import Path
from typing import Protocol

from skillopt_ci.errors import UsageError
from skillopt_ci.ledger.folder import RunFolder
from skillopt_ci.ledger.inspect import newest, resolve
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.training.offline_eval import NamedSkill

#: Words for texts that the run's folder keeps.
KEPT = ("best", "current", "initial")


class Source(Protocol):
    """Where texts of a run's skill are looked up: a session, or a reader of what is in git."""

    @property
    def ledger(self) -> Ledger:
        """The run in git."""

    @property
    def folder(self) -> RunFolder:
        """The run's files in the tree."""

    @property
    def skill_path(self) -> str:
        """The skill, relative to the repository."""


def find_skill(source: Source, word: str, cwd: Path) -> NamedSkill:
    """The text that ``word`` names: a kept one, a file, a git ref, or ``REF:path``.

    Raises :class:`UsageError` saying what was looked for.
    """
    if word in KEPT:
        return NamedSkill(word, _kept(source, word))
    text = _file(cwd / word)
    if text is None:
        text = _at_ref(source, word)
    if text is None:
        raise UsageError(
            f"{word!r} names no skill: it is not a file here, not a git ref that holds "
            f"{source.skill_path}, and not one of {', '.join(KEPT)}.",
            hint=_nearest(word),
        )
    return NamedSkill(word, text)


def _nearest(word: str) -> str:
    nearest = difflib.get_close_matches(word, KEPT, n=1)
    return f"Did you mean {nearest[0]}?" if nearest else ""


def _kept(source: Source, word: str) -> str:
    commit = newest(source.ledger)
    read = partial(source.ledger.read, commit)
    started = source.folder.read_state(read) is not None
    paths = {
        "best": source.folder.best_skill,
        "current": source.skill_path,
        "initial": source.folder.initial_skill if started else source.skill_path,
    }
    text = read(paths[word])
    if text is None:
        run = source.folder.run
        raise UsageError(
            f"Run {run!r} has no {word} skill: there is no {paths[word]} in {commit[:10]}.",
            hint="" if started else "Start the run with `skillopt-ci step`, or name a file.",
        )
    return text


def _file(path: Path) -> str | None:
    if not path.is_file():
        return None
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start}).") from error


def _at_ref(source: Source, word: str) -> str | None:
    ref, _, path = word.partition(":")
    commit = resolve(source.ledger, ref)
    return None if commit is None else source.ledger.read(commit, path or source.skill_path)
