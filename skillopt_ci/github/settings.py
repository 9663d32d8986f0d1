"""Check whether a GitHub repository is set up for training with Actions."""

from base64 import b64decode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Literal
from urllib.parse import quote

from skillopt_ci.github.client import Client, Refused, asking

_PLACE = ".github/workflows"
#: Rules that allow training's pushes. GitHub Actions cannot bypass the others in most rulesets.
_HARMLESS = {
    *("deletion", "non_fast_forward", "copilot_code_review", "tag_name_pattern"),
    *("max_file_size", "max_file_path_length"),
}
Line = tuple[Literal["ok", "warning", "error"], str]


def setup_of(client: Client, secrets: Iterable[str], run: str, *, signed: bool) -> Iterator[Line]:
    """Check what training needs: the secrets, a workflow, the right to push ``signed`` commits."""
    with asking(f"show the repository {client.name}"):
        repository = client.send("GET", "")
        public = not repository["private"] and "//github.com/" in repository["html_url"]
        default = repository["default_branch"]
    there = [each["name"] for each in _seen(client, f"/contents/{_PLACE}") or ()]
    # a renamed workflow is recognized by the action that it uses
    ours = [one for one in there if "skillopt" in one] or [
        one for one in there if one.endswith((".yml", ".yaml")) and _has(client, one, "skillopt-ci")
    ]
    write = "`skillopt-ci init --github` writes one; commit it there and push"
    yield _line(bool(ours), f"{_PLACE}/{next(iter(ours), '*skillopt*.yml')} is on {default}", write)
    # without an active policy, GitHub blocks this event in public repositories
    if public and any(_has(client, one, "pull_request_target") for one in ours):
        listed = _seen(client, "/actions/policies?per_page=100")
        active = listed and any(one["enforcement"] == "active" for one in listed["policies"])
        policy = "an Actions policy is active (it must allow all events of the workflow)"
        yield _line(active, policy, "Settings → Actions → Policies")
    path = "/actions/permissions/workflow"
    opening = (_seen(client, path) or {}).get("can_approve_pull_request_reviews")
    allow = f"gh api -X PUT repos/{client.name}{path} -F can_approve_pull_request_reviews=true"
    yield _line(opening, "Actions may open pull requests", allow)
    lists = [_seen(client, f"/actions/{of}secrets?per_page=100") for of in ("", "organization-")]
    names = {each["name"] for one in lists if one is not None for each in one["secrets"]}
    for key in secrets:
        is_set = key in names or (None if lists[0] is None else False)
        yield _line(is_set, f"the secret {key} is set", f"gh secret set {key}")
    harmless = _HARMLESS | ({"required_signatures"} if signed else set())
    candidates = (f"skillopt-candidate/{run}", harmless - {"deletion"})  # each step deletes it
    for branch, allowed in ((f"skillopt/{run}", harmless), candidates):
        guards = _seen(client, f"/rules/branches/{quote(branch, safe='')}", pages=True)
        if guards is None:
            yield "warning", f"rules that guard {branch}: this token may not see them"
        elif stopped := sorted({each["type"] for each in guards} - allowed):
            let = "exclude it (Settings → Rules), or use the token of an app that may bypass them"
            yield "warning", f"rules may refuse pushes to {branch} ({', '.join(stopped)}): {let}"
        else:
            yield "ok", f"no rule keeps Actions from pushing to {branch}"


def _has(client: Client, name: str, words: str) -> bool:
    file = _seen(client, f"/contents/{_PLACE}/{quote(name)}") or {}
    return words.encode() in b64decode(file.get("content") or "")


def _line(holds: bool | None, what: str, remedy: str) -> Line:
    if holds is None:
        return "warning", f"{what}: this token may not see it; if not: {remedy}"
    return ("ok", what) if holds else ("error", f"{what}: no. To fix it: {remedy}")


def _seen(client: Client, path: str, *, pages: bool = False) -> Any:
    with suppress(Refused), asking(f"show {path}"):
        return list(client.listing(path)) if pages else client.send("GET", path)
    return None
