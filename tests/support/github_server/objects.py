"""Git objects, refs and files by the API; who asks; dispatches."""

from base64 import b64decode, b64encode

from github_server import shapes
from github_server.request import Answer, Refusal, Request

_LARGE = 1_000_000


def whoami(request: Request) -> Answer:
    return Answer(200, shapes.user(request.login))


def repository(request: Request) -> Answer:
    return Answer(200, shapes.repository(request.hub))


def permission(request: Request) -> Answer:
    login = request.params["username"]
    role = request.hub.roles.get(login)
    if role is None:
        raise Refusal(404, f"{login} is not a user")
    return Answer(200, shapes.permission(role, login))


def contents(request: Request) -> Answer:
    bare, path = request.hub.bare, request.params["path"]
    ref = request.query.get("ref", "main")
    try:
        oid = bare.git("rev-parse", "--verify", f"{ref}:{path}")
    except ValueError:
        raise Refusal(404, "Not Found") from None
    facts = {"type": "file", "path": path, "name": path.rsplit("/", 1)[-1], "sha": oid}
    if bare.git("cat-file", "-t", oid) == "tree":
        names = bare.git("ls-tree", "--name-only", oid).splitlines()
        listed = [{**facts, "name": name, "path": f"{path}/{name}", "size": 1} for name in names]
        return Answer(200, listed)
    data = bare.run("cat-file", "blob", oid).stdout
    small = len(data) < _LARGE
    content = b64encode(data).decode() if small else ""
    encoding = "base64" if small else "none"
    return Answer(200, {**facts, "size": len(data), "content": content, "encoding": encoding})


def workflow_permissions(request: Request) -> Answer:
    may = request.hub.actions_may_open
    shown = {"default_workflow_permissions": "read", "can_approve_pull_request_reviews": may}
    return Answer(200, shown)


def secrets(request: Request) -> Answer:
    at = {"created_at": "2026-01-02T00:00:00Z", "updated_at": "2026-01-02T00:00:00Z"}
    listed = [{"name": name, **at} for name in request.hub.secrets]
    return Answer(200, {"total_count": len(listed), "secrets": listed})


def policies(request: Request) -> Answer:
    listed = [{"id": 1, "name": "p", "target": "actions", "source_type": "Repository",
               "source": request.hub.name, "enforcement": enforcement}
              for enforcement in request.hub.policies]  # fmt: skip
    return Answer(200, {"total_count": len(listed), "policies": listed})


def organization_secrets(request: Request) -> Answer:
    del request
    raise Refusal(404, "Not Found")


def rules(request: Request) -> Answer:
    return Answer(200, [{"type": kind} for kind in request.hub.rules])


def show_blob(request: Request) -> Answer:
    oid = request.params["file_sha"]
    data = request.hub.bare.run("cat-file", "blob", oid).stdout
    return Answer(200, {"sha": oid, "content": b64encode(data).decode(), "encoding": "base64"})


def blob(request: Request) -> Answer:
    data = b64decode(request.body["content"])
    oid = request.hub.bare.git("hash-object", "-w", "--stdin", stdin=data)
    return Answer(201, {"sha": oid, "url": f"{request.hub.api}/git/blobs/{oid}"})


def tree(request: Request) -> Answer:
    oid = request.hub.bare.tree(request.body.get("base_tree"), request.body["tree"])
    return Answer(201, {"sha": oid, "tree": [], "truncated": False, "url": f"{request.hub.api}/x"})


def commit(request: Request) -> Answer:
    body = request.body
    parents = [word for parent in body["parents"] for word in ("-p", parent)]
    oid = request.hub.bare.git(
        "commit-tree", body["tree"], *parents, "-F", "-", stdin=body["message"].encode()
    )
    return Answer(201, {"sha": oid, "message": body["message"], "tree": {"sha": body["tree"]}})


def compare(request: Request) -> Answer:
    base, _, head = request.params["basehead"].partition("...")
    done = request.hub.bare.run("merge-base", base, head)
    if done.returncode:
        raise Refusal(404, "Not Found")
    return Answer(200, {"merge_base_commit": {"sha": done.stdout.decode().strip()}})


def create_ref(request: Request) -> Answer:
    name, oid = request.body["ref"], request.body["sha"]
    try:
        request.hub.bare.git("update-ref", name, oid, "0" * 40)
    except ValueError:
        raise Refusal(422, "Reference already exists") from None
    return Answer(201, {"ref": name, "object": {"sha": oid, "type": "commit"}})


def delete_ref(request: Request) -> Answer:
    name = f"refs/{request.params['ref']}"
    if not request.hub.bare.git("for-each-ref", name):
        raise Refusal(422, "Reference does not exist")
    request.hub.bare.git("update-ref", "-d", name)
    return Answer(204)


def dispatch(request: Request) -> Answer:
    request.hub.dispatched.append(request.body)
    return Answer(204)


ROUTES = {
    "GET /user": whoami,
    "GET ": repository,
    "GET /collaborators/{username}/permission": permission,
    "GET /contents/{path}": contents,
    "GET /compare/{basehead}": compare,
    "GET /actions/permissions/workflow": workflow_permissions,
    "GET /actions/policies": policies,
    "GET /actions/secrets": secrets,
    "GET /actions/organization-secrets": organization_secrets,
    "GET /rules/branches/{branch}": rules,
    "GET /git/blobs/{file_sha}": show_blob,
    "POST /git/blobs": blob,
    "POST /git/trees": tree,
    "POST /git/commits": commit,
    "POST /git/refs": create_ref,
    "DELETE /git/refs/{ref}": delete_ref,
    "POST /dispatches": dispatch,
}
