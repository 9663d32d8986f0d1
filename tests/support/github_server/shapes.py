"""Answers in GitHub's shape; what is not said here is completed from the description."""

from github_server.state import Hub, Json

_ROLES = {"maintain": "write", "triage": "read"}


def user(login: str) -> Json:
    return {"login": login, "type": "Bot" if login.endswith("[bot]") else "User"}


def repository(hub: Hub, name: str | None = None) -> Json:
    name = name or hub.name
    return {"full_name": name, "url": f"{hub.url}/repos/{name}", "default_branch": "main",
            "private": hub.private, "html_url": f"https://github.com/{name}"}  # fmt: skip


def pull(hub: Hub, facts: Json) -> Json:
    number, head = facts["number"], facts["head_repo"]
    part = {"user": user(hub.owner), "label": "x"}
    return {
        "id": number,
        "number": number,
        "node_id": f"PR_{number}",
        "url": f"{hub.api}/pulls/{number}",
        "issue_url": f"{hub.api}/issues/{number}",
        "html_url": f"{hub.url}/{hub.name}/pull/{number}",
        "title": facts["title"],
        "body": facts["body"],
        "state": facts["state"],
        "draft": facts["draft"],
        "locked": facts.get("locked", False),
        "user": user(facts["login"]),
        "merged": facts["merged_at"] is not None,
        "merged_at": facts["merged_at"],
        "mergeable": None,
        "mergeable_state": facts.get("mergeable_state", "unknown"),
        "auto_merge": facts["auto_merge"],
        "changed_files": facts.get("changed_files", 1),
        "labels": [{"name": name, "id": 1, "color": "ededed"} for name in facts["labels"]],
        "head": {**part, "ref": facts["head"], "sha": facts["sha"],
                 "repo": repository(hub, head) if head else None},
        "base": {**part, "ref": facts["base"], "sha": hub.bare.tip(facts["base"]),
                 "repo": repository(hub)},
    }  # fmt: skip


def comment(hub: Hub, facts: Json) -> Json:
    return {
        "id": facts["id"],
        "body": facts["body"],
        "user": user(facts["login"]),
        "created_at": facts["at"],
        "url": f"{hub.api}/issues/comments/{facts['id']}",
        "issue_url": f"{hub.api}/issues/{facts['issue']}",
        "html_url": f"{hub.url}/{hub.name}/pull/{facts['issue']}#issuecomment-{facts['id']}",
    }


def review(hub: Hub, facts: Json) -> Json:
    more = {"in_reply_to_id": facts["reply_to"]} if "reply_to" in facts else {}
    return {
        "id": facts["id"],
        "body": facts["body"],
        "path": facts["path"],
        "user": user(facts["login"]),
        "created_at": facts["at"],
        "commit_id": facts.get("commit", "0" * 40),
        "url": f"{hub.api}/pulls/comments/{facts['id']}",
        "html_url": f"{hub.url}/{hub.name}/pull/{facts['pull']}#discussion_r{facts['id']}",
        **({} if facts["line"] is None else {"line": facts["line"]}),
        **more,
    }


def check(hub: Hub, facts: Json) -> Json:
    output = {key: facts["output"].get(key) for key in ("title", "summary", "text")}
    return {
        "id": facts["id"],
        "name": facts["name"],
        "head_sha": facts["head_sha"],
        "status": facts["status"],
        "conclusion": facts.get("conclusion"),
        "url": f"{hub.api}/check-runs/{facts['id']}",
        "html_url": f"{hub.url}/{hub.name}/runs/{facts['id']}",
        "app": {"slug": facts["app"], "id": 1},
        "check_suite": {"id": 1},
        "output": {**output, "annotations_count": len(facts["annotations"])},
    }


def status(hub: Hub, facts: Json) -> Json:
    return {
        "id": facts["id"],
        "url": f"{hub.api}/statuses/{facts['sha']}",
        "state": facts["state"],
        "context": facts["context"],
        "description": facts["description"],
        "target_url": facts["target_url"],
    }


def permission(role: str, login: str) -> Json:
    return {"permission": _ROLES.get(role, role), "role_name": role, "user": user(login)}
