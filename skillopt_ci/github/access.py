"""Which repository, on which server, with whose token."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from skillopt_ci.errors import UsageError

PUBLIC_API = "https://api.github.com"


@dataclass(frozen=True, slots=True)
class Access:
    """A repository (`owner/name`) behind an API; the token is never shown."""

    repository: str
    token: str = field(repr=False)
    api_url: str = PUBLIC_API

    def __post_init__(self) -> None:
        owner, slash, name = self.repository.partition("/")
        if not (owner and slash and name) or "/" in name:
            raise UsageError(f"expected a repository as owner/name, not {self.repository!r}")
        if not self.token or not self.token.isascii() or not self.token.isprintable():
            raise UsageError(
                "the GitHub token is empty or has characters that no token has",
                hint="Pass it as it is: token: ${{ github.token }}",
            )
        if not self.api_url.startswith(("https://", "http://")):
            raise UsageError(f"GITHUB_API_URL is not a web address: {self.api_url!r}")


def from_environ(environ: Mapping[str, str], token: str = "") -> Access:
    """Read what a workflow's environment says; ``token`` goes before `GITHUB_TOKEN`, `GH_TOKEN`.

    Raises UsageError if it does not name a repository or has no token.
    """
    found = token or environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or ""
    repository = environ.get("GITHUB_REPOSITORY", "")
    if not repository:
        raise UsageError(
            "GITHUB_REPOSITORY is not set: which repository is this on GitHub?",
            hint="Outside of GitHub Actions: GITHUB_REPOSITORY=owner/name",
        )
    if not found:
        raise UsageError(
            "there is no GitHub token", hint="Set GITHUB_TOKEN, or `token` of the action."
        )
    url = environ.get("GITHUB_API_URL") or PUBLIC_API
    return Access(repository, found.strip(), url.rstrip("/"))
