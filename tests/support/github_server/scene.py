"""A run on the test server, and the real client in front of it."""

from dataclasses import dataclass, field

from github_server.state import Hub
from skillopt_ci.github.client import Client, connect
from skillopt_ci.github.pull_requests import keep_pull_request
from skillopt_ci.github.types import WantedPullRequest

SKILL = "skills/SKILL.md"
WANTED = WantedPullRequest("skillopt/demo", "main", "Train demo", "Body", draft=True)


def variables(repository: str, token: str = "job", url: str = "") -> dict[str, str]:
    return {"GITHUB_REPOSITORY": repository, "GITHUB_TOKEN": token, "GITHUB_API_URL": url}


@dataclass
class Scene:
    """The server's repository, the client, and how long the client has waited."""

    hub: Hub
    waits: list[float] = field(default_factory=list)

    def client(self, token: str = "job") -> Client:
        return connect(variables(self.hub.name, token, self.hub.url), wait=self.waits.append)

    def step(self, text: str = "better\n") -> str:
        """Move the skills branch on."""
        return self.hub.bare.save("skillopt/demo", SKILL, text)

    def writes(self) -> list[str]:
        """Return, and forget, the requests since the last call that do more than read."""
        made = [one for one in self.hub.requests if not one.startswith("GET")]
        self.hub.requests.clear()
        return made

    def pull(self) -> int:
        """Have a pull request of the skills branch."""
        self.step()
        kept = keep_pull_request(self.client(), WANTED).number
        assert kept is not None
        return kept
