"""Who the token speaks for, and what others may do."""

from http import HTTPStatus

from skillopt_ci.github.asking import asking
from skillopt_ci.github.client import Client
from skillopt_ci.github.failure import NotFound, PermissionMissing, Refused
from skillopt_ci.github.forge import Permission

#: The account behind every workflow's own token.
ACTIONS = "github-actions[bot]"
_PERMISSIONS: tuple[Permission, ...] = ("read", "write", "admin")
_VIEWER = "query { viewer { login } }"


def login(client: Client) -> str:
    """Return the token's account. Tokens of apps may not ask for it in the usual way."""
    try:
        with asking("say whose token this is"):
            return client.hub.get_user().login
    except PermissionMissing as missing:
        if missing.status == HTTPStatus.UNAUTHORIZED:
            raise
    try:
        with asking("say whose token this is"):
            _, answer = client.repo.requester.graphql_query(_VIEWER, {})
    except Refused:
        return ACTIONS
    return str(answer["data"]["viewer"]["login"])


def permission_of(client: Client, account: str) -> Permission:
    """Return what ``account`` may do here; nothing if there is no such account."""
    try:
        with asking(f"say what {account} may do", "metadata: read"):
            answer = client.repo.get_collaborator_permission(account)
    except NotFound:
        return "none"
    return next((known for known in _PERMISSIONS if known == answer), "none")
