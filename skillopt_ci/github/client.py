"""Build the client of one repository."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from github import Auth, Github
from github.Repository import Repository
from requests.utils import parse_header_links

from skillopt_ci import __version__
from skillopt_ci.github.access import Access
from skillopt_ci.github.patience import Patience


@dataclass(frozen=True, slots=True)
class Client:
    """A repository as PyGithub sees it, never fetched before something is asked of it."""

    hub: Github
    repo: Repository
    name: str
    """`owner/name`, known without asking."""
    patience: Patience

    @property
    def owner(self) -> str:
        """The account that the repository belongs to."""
        return self.name.partition("/")[0]

    def send(self, method: str, path: str, content: object = None) -> Any:
        """Ask for ``path`` below the repository and return the answer, as PyGithub raises it."""
        _, answer = self.repo.requester.requestJsonAndCheck(
            method, self.repo.url + path, input=content
        )
        return answer

    def listing(self, path: str) -> Iterator[Any]:
        """Yield what a list below the repository has, over all pages."""
        url: str | None = self.repo.url + path
        parameters: dict[str, object] | None = {"per_page": 100}
        while url is not None:
            headers, page = self.repo.requester.requestJsonAndCheck("GET", url, parameters)
            yield from page
            links = parse_header_links(headers.get("link", ""))
            url = next((link["url"] for link in links if link.get("rel") == "next"), None)
            parameters = None


def connect(access: Access, patience: Patience | None = None) -> Client:
    """Return a client; nothing is sent yet."""
    patience = patience or Patience()
    # PyGithub prints every refusal and retry by itself; ours are errors and notes.
    logging.getLogger("github").setLevel(logging.WARNING)
    hub = Github(
        auth=Auth.Token(access.token),
        base_url=access.api_url,
        timeout=patience.timeout,
        user_agent=f"skillopt-ci/{__version__}",
        per_page=100,
        retry=patience.retry(),
        seconds_between_requests=0,
        seconds_between_writes=patience.between_writes,
        lazy=True,
    )
    return Client(hub, hub.get_repo(access.repository), access.repository, patience)
