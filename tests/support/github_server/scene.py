"""A run on the test server, and the real client in front of it."""

from dataclasses import dataclass, field

from github_server.state import Hub
from skillopt_ci.github.client import Access, Client, Patience, connect
from skillopt_ci.github.github import GitHubForge
from skillopt_ci.github.types import WantedPullRequest

SKILL = "skills/SKILL.md"
WANTED = WantedPullRequest("skillopt/demo", "main", "Train demo", "Body", draft=True)


@dataclass
class Scene:
    """The server's repository, the client, and how long the client has waited."""

    hub: Hub
    waits: list[float] = field(default_factory=list)

    def client(self, token: str = "job", longest: float = 120.0) -> Client:
        patience = Patience(wait=self.waits.append, longest=longest, between_writes=0)
        return connect(Access(self.hub.name, token, self.hub.url), patience)

    def forge(self, token: str = "job", longest: float = 120.0) -> GitHubForge:
        return GitHubForge(self.client(token, longest))

    def step(self, text: str = "better\n") -> str:
        """Move the skills branch on."""
        return self.hub.bare.save("skillopt/demo", SKILL, text)

    def pull(self) -> int:
        """Have a pull request of the skills branch."""
        self.step()
        kept = self.forge().keep_pull_request(WANTED).pull_request
        assert kept is not None
        return kept.number
