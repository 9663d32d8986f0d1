"""Find the skill text that a word on the command line means."""

from functools import partial
from pathlib import Path

from skillopt_ci.errors import UsageError
from skillopt_ci.ledger.reading import newest, resolve
from skillopt_ci.training.evaluate import NamedSkill
from skillopt_ci.training.session import Session

#: Words for texts that the run's folder keeps.
KEPT = ("best", "current", "initial")


def find_skill(session: Session, word: str, cwd: Path) -> NamedSkill:
    """The text that ``word`` names: a kept one, a file, a git ref, or ``REF:path``.

    Raises :class:`UsageError` saying what was looked for.
    """
    text = _kept(session, word) if word in KEPT else _file(cwd / word)
    if text is None and word not in KEPT:
        text = _at_ref(session, word)
    if text is None:
        raise UsageError(
            f"{word!r} names no skill: it is not one of {', '.join(KEPT)} of a started run, "
            "not a file here and not a git ref that holds the skill."
        )
    return NamedSkill(word, text)


def _kept(session: Session, word: str) -> str | None:
    commit = newest(session.ledger)
    read = partial(session.ledger.read, commit)
    if session.folder.read_state(read) is None:
        return read(session.skill_path) if word != "best" else None
    paths = {
        "best": session.folder.best_skill,
        "current": session.skill_path,
        "initial": session.folder.initial_skill,
    }
    return read(paths[word])


def _file(path: Path) -> str | None:
    if not path.is_file():
        return None
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start}).") from error


def _at_ref(session: Session, word: str) -> str | None:
    ref, _, path = word.partition(":")
    commit = resolve(session.ledger, ref)
    return None if commit is None else session.ledger.read(commit, path or session.skill_path)
