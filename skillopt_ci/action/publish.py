"""What a job leaves for the next step, and how it shows the run."""

from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.action.job import Shown
from skillopt_ci.cli.build import learn_secrets, load_configured, skill_path
from skillopt_ci.cli.comment import links_of, note_id, publish_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.github.client import Client
from skillopt_ci.github.comments import review_notes
from skillopt_ci.github.pull_requests import find_open
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.training.review_comments import ReviewerNote, write_notes


def leave_notes(settings: Globals, client: Client, file: Path) -> int:
    """Write the review comments on the run's pull request to ``file``; return how many there are.

    Secrets that somebody wrote into a comment are left out of it. Raises what loading the
    configuration and asking GitHub raise.
    """
    loaded = load_configured(settings)
    ledger = Ledger.open(loaded.root, loaded.config.run, loaded.config.git)
    pull = find_open(client, f"skillopt/{loaded.config.run}", ledger.base)
    path = skill_path(loaded, ledger.root)
    said = () if pull is None else review_notes(client, pull.number, path)
    learn_secrets(settings.redact, loaded, settings.environ)
    redact = settings.redact
    notes = (
        ReviewerNote(
            id=note_id(one),
            author=one.author,
            text=redact(one.body),
            path=redact(one.path or ""),
            line=one.line,
            url=one.url,
        )
        for one in said
    )
    write_notes(notes, file)
    return len(said)


@dataclass(frozen=True, slots=True)
class RunPublisher:
    """Shows the run of a checkout through ``client``."""

    client: Client

    def publish(self, settings: Globals, inconclusive: str) -> Shown:
        """Show the run; raises RepositoryError if it has not started."""
        links = links_of(settings.environ)
        done = publish_run(settings, self.client, links=links, inconclusive=inconclusive)
        return Shown(done.report, done.pull_request, done.notes)
