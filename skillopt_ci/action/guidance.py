"""Review comments as gradients: handed to the next step, and answered when it is done."""

from pathlib import Path

from skillopt_ci.cli.build import learn_secrets, load_configured, skill_path
from skillopt_ci.cli.options import Globals
from skillopt_ci.github.types import Forge, ReviewNote
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.redaction import Redact
from skillopt_ci.report.comment import note_answers
from skillopt_ci.report.text import Links
from skillopt_ci.report.view import RunView
from skillopt_ci.training.review_comments import ReviewerNote, write_notes

#: The newest steps whose notes are answered: an older one was, unless its job died right then.
_ANSWERED_STEPS = 3


def leave_notes(settings: Globals, forge: Forge, file: Path) -> int:
    """Write what reviewers said on the run's pull request to ``file``; return how many notes.

    Secrets that somebody wrote into a note are left out of it.

    Raises what loading the configuration and asking the forge raise.
    """
    loaded = load_configured(settings)
    ledger = Ledger.open(loaded.root, loaded.config.run, loaded.config.git)
    pull = forge.open_pull_request(f"skillopt/{loaded.config.run}", ledger.base)
    path = skill_path(loaded, ledger.root)
    said = () if pull is None else forge.review_notes(pull.number, path)
    learn_secrets(settings.redact, loaded, settings.environ)
    write_notes((_note(one, settings.redact) for one in said), file)
    return len(said)


def answer_notes(run: RunView, forge: Forge, links: Links, number: int) -> None:
    """Answer the notes of the newest steps on pull request ``number``; once, however often asked.

    Raises what the forge raises.
    """
    answers = {
        note: text
        for record in run.steps[-_ANSWERED_STEPS:]
        for note, text in note_answers(
            run.state.run, record, run.place(record.step).verdict, links
        ).items()
    }
    said = forge.review_notes(number, run.state.skill) if answers else ()
    for note in said:
        if _id(note) in answers:
            forge.answer(number, note, answers[_id(note)])


def _note(said: ReviewNote, redact: Redact) -> ReviewerNote:
    return ReviewerNote(
        id=_id(said),
        author=said.author,
        text=redact(said.body),
        path=redact(said.path or ""),
        line=said.line,
        url=said.url,
    )


def _id(said: ReviewNote) -> str:
    return f"{said.ref.kind}-{said.ref.id}"
