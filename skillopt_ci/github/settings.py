"""Whether a repository on GitHub is set up for training by Actions."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal
from urllib.parse import quote

from skillopt_ci.github.client import Client
from skillopt_ci.github.errors import Refused, asking

_PLACE = ".github/workflows"
#: Rules that keep Actions from moving a branch on, unless they let it pass.
_IN_THE_WAY = ("creation", "update", "pull_request", "required_signatures")
_UNSEEN = "this token may not see"


def setup_of(
    client: Client, secrets: Iterable[str], branch: str
) -> Iterator[tuple[Literal["ok", "warning", "error"], str]]:
    """A line for each thing that training needs there, with the remedy where it is missing.

    ``secrets`` are the keys that a job needs, ``branch`` is the skills branch. Raises the errors of
    GitHub if it does not show the repository.
    """
    with asking(f"show the repository {client.name}"):
        default = client.send("GET", "")["default_branch"]
    there = [each["name"] for each in _seen(client, f"/contents/{_PLACE}") or ()]
    if found := next((name for name in there if "skillopt" in name), None):
        yield "ok", f"{_PLACE}/{found} is on {default}"
    else:
        push = "`skillopt-ci init --github` writes one; commit it there and push"
        yield "error", f"no workflow {_PLACE}/*skillopt*.yml is on {default}: {push}"

    path = "/actions/permissions/workflow"
    may = _seen(client, path)
    remedy = f"gh api -X PUT repos/{client.name}{path} -F can_approve_pull_request_reviews=true"
    if may is None:
        yield "warning", f"{_UNSEEN} whether Actions may open pull requests. To let them: {remedy}"
    elif may["can_approve_pull_request_reviews"]:
        yield "ok", "Actions may open pull requests"
    else:
        yield "error", f"Actions may not open pull requests: {remedy}"

    lists = [
        _seen(client, f"/actions/{whose}secrets?per_page=100") for whose in ("", "organization-")
    ]
    names = {each["name"] for one in lists if one is not None for each in one["secrets"]}
    for key in secrets:
        if key in names:
            yield "ok", f"the secret {key} is set"
        elif lists[0] is None:
            yield (
                "warning",
                f"{_UNSEEN} whether the secret {key} is set. To set it: gh secret set {key}",
            )
        else:
            yield "error", f"the secret {key} is not set: gh secret set {key}"

    guards = _seen(client, f"/rules/branches/{quote(branch, safe='')}") or ()
    rules = {each["type"] for each in guards}
    if stopped := [rule for rule in _IN_THE_WAY if rule in rules]:
        let = "let GitHub Actions bypass it (Settings → Rules), or training cannot push"
        yield "warning", f"rules guard {branch} ({', '.join(stopped)}): {let}"
    else:
        guarded = "rules keep it from being rewritten" if rules else "no rule guards it"
        yield "ok", f"Actions may push {branch}; {guarded}"


def _seen(client: Client, path: str) -> Any:
    """What GitHub answers; None where there is nothing, or the token may not see it."""
    try:
        with asking(f"show {path}"):
            return client.send("GET", path)
    except Refused:
        return None
