"""Publishing as a job needs it: by its settings, with links to the workflow run."""

from dataclasses import dataclass

from skillopt_ci.action.job import Shown
from skillopt_ci.action.publication import links_of, publish_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.github.types import Forge


@dataclass(frozen=True, slots=True)
class RunPublisher:
    """Shows the run of a checkout through ``forge``."""

    forge: Forge

    def publish(self, settings: Globals, inconclusive: str) -> Shown:
        """Show the run; raises RepositoryError if it has not started."""
        links = links_of(settings.environ)
        done = publish_run(settings, self.forge, links=links, inconclusive=inconclusive)
        return Shown(done.report, done.pull_request, done.notes)
