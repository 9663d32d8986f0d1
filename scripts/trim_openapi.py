"""Cut GitHub's OpenAPI description down to what skillopt-ci asks for.

The whole one (npm package ``@octokit/openapi``) has 13 MB; the tests keep the part that they
check requests and answers against::

    npm install --prefix /tmp/openapi @octokit/openapi@23.0.2
    python scripts/trim_openapi.py \
        /tmp/openapi/node_modules/@octokit/openapi/generated/api.github.com.json \
        tests/support/github_server/openapi.json
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = "/repos/{owner}/{repo}"
OPERATIONS = (
    "GET /user",
    "GET ",
    "GET /collaborators/{username}/permission",
    "GET /contents/{path}",
    "POST /dispatches",
    "GET /pulls",
    "POST /pulls",
    "GET /pulls/{pull_number}",
    "PATCH /pulls/{pull_number}",
    "GET /pulls/{pull_number}/files",
    "PUT /pulls/{pull_number}/merge",
    "GET /pulls/{pull_number}/comments",
    "POST /pulls/{pull_number}/comments/{comment_id}/replies",
    "PATCH /pulls/comments/{comment_id}",
    "POST /pulls/comments/{comment_id}/reactions",
    "GET /issues/{issue_number}/comments",
    "POST /issues/{issue_number}/comments",
    "GET /issues/{issue_number}/events",
    "POST /issues/{issue_number}/labels",
    "PATCH /issues/comments/{comment_id}",
    "DELETE /issues/comments/{comment_id}",
    "POST /issues/comments/{comment_id}/reactions",
    "GET /compare/{basehead}",
    "GET /commits/{ref}/check-runs",
    "GET /commits/{ref}/statuses",
    "POST /statuses/{sha}",
    "POST /check-runs",
    "PATCH /check-runs/{check_run_id}",
    "GET /git/blobs/{file_sha}",
    "POST /git/blobs",
    "POST /git/trees",
    "POST /git/commits",
    "POST /git/refs",
    "DELETE /git/refs/{ref}",
    "GET /activity",
    "GET /actions/permissions/workflow",
    "GET /actions/secrets",
    "GET /actions/organization-secrets",
    "GET /rules/branches/{branch}",
)
#: What that version lacks, from https://docs.github.com/rest/actions/policies (2026-03-10).
POLICY = {
    "id": {"type": "integer"},
    "name": {"type": "string"},
    "target": {"type": "string", "enum": ["actions"]},
    "source_type": {"type": "string", "enum": ["Repository", "Organization", "Enterprise"]},
    "source": {"type": "string"},
    "enforcement": {"type": "string", "enum": ["disabled", "active", "evaluate"]},
}
POLICIES = {
    "total_count": {"type": "integer"},
    "policies": {
        "type": "array",
        "items": {"type": "object", "properties": POLICY, "required": [*POLICY]},
    },
}
LACKING = {
    "/actions/policies": {
        "parameters": [
            {"$ref": f"#/components/parameters/{name}"}
            for name in ("owner", "repo", "per-page", "page")
        ],
        "responses": {
            "200": {
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "properties": POLICIES,
                            "required": [*POLICIES],
                        }
                    }
                }
            },
            "404": {"$ref": "#/components/responses/not_found"},
        },
    }
}
#: Prose and pictures of the description: most of its size, nothing that could be checked.
PROSE = {"description", "summary", "example", "examples", "externalDocs", "tags", "title"}


def main() -> int:
    """Read the whole description, write the part; return the exit code."""
    source, target = (Path(word) for word in sys.argv[1:])
    whole = json.loads(source.read_text(encoding="utf-8"))
    target.write_text(json.dumps(trim(whole), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


def trim(whole: dict[str, Any]) -> dict[str, Any]:
    """Return the operations with all that they refer to."""
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        method, _, path = operation.partition(" ")
        path = path if path == "/user" else REPOSITORY + path
        paths.setdefault(path, {})[method.lower()] = essence(whole["paths"][path][method.lower()])
    paths |= {REPOSITORY + path: {"get": answer} for path, answer in LACKING.items()}
    part = {"openapi": whole["openapi"], "info": {"version": whole["info"]["version"]}}
    components: dict[str, Any] = {}
    waiting = sorted(set(references(paths)))
    while waiting:
        _, _, kind, name = waiting.pop().split("/")
        if name not in components.setdefault(kind, {}):
            components[kind][name] = without_prose(whole["components"][kind][name])
            waiting += references(components[kind][name])
    return {**part, "paths": paths, "components": components}


def essence(operation: dict[str, Any]) -> dict[str, Any]:
    """Return what a request and the answers to it must look like."""
    kept = {
        key: operation[key]
        for key in ("parameters", "requestBody", "responses")
        if key in operation
    }
    return without_prose(kept)  # type: ignore[no-any-return]


def without_prose(node: Any, names: bool = False) -> Any:
    """Drop what only people read; ``names`` says that the keys of ``node`` are field names."""
    if isinstance(node, list):
        return [without_prose(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: without_prose(value, names=key == "properties" and not names)
        for key, value in node.items()
        if names or not (key in PROSE or key.startswith("x-"))
    }


def references(node: Any) -> Iterator[str]:
    """Yield every ``$ref`` below ``node``."""
    if isinstance(node, list):
        for item in node:
            yield from references(item)
    elif isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)


if __name__ == "__main__":
    sys.exit(main())
