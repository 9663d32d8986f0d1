"""Comments of the conversation and on lines, with reactions."""

from github_server import shapes
from github_server.request import Answer, Refusal, Request, check_length, known


def list_comments(request: Request) -> Answer:
    hub, number = request.hub, request.number("issue_number")
    there = [each for each in hub.comments.values() if each["issue"] == number]
    return Answer(200, [shapes.comment(hub, each) for each in there])


def create(request: Request) -> Answer:
    hub, number = request.hub, request.number("issue_number")
    check_length(request.body["body"])
    if known(hub.pulls, number).get("locked"):
        raise Refusal(403, "Unable to create comment because issue is locked.")
    key = hub.say(request.login, request.body["body"], number)
    return Answer(201, shapes.comment(hub, hub.comments[key]))


def edit(request: Request) -> Answer:
    facts = known(request.hub.comments, request.number("comment_id"))
    check_length(request.body["body"])
    facts["body"] = request.body["body"]
    return Answer(200, shapes.comment(request.hub, facts))


def delete(request: Request) -> Answer:
    known(request.hub.comments, request.number("comment_id"))
    del request.hub.comments[request.number("comment_id")]
    return Answer(204)


def react(request: Request) -> Answer:
    key = request.number("comment_id")
    known(request.hub.comments | request.hub.reviews, key)
    reaction = (key, request.login, request.body["content"])
    new = reaction not in request.hub.reactions
    if new:
        request.hub.reactions.append(reaction)
    body = {"content": reaction[2], "user": shapes.user(request.login)}
    return Answer(201 if new else 200, body)


def list_reviews(request: Request) -> Answer:
    hub, number = request.hub, request.number("pull_number")
    there = [each for each in hub.reviews.values() if each["pull"] == number]
    return Answer(200, [shapes.review(hub, each) for each in there])


def reply(request: Request) -> Answer:
    hub, thread = request.hub, request.number("comment_id")
    first = known(hub.reviews, thread)
    if "reply_to" in first:
        raise Refusal(422, "Replies to replies are not supported")
    key = hub.review(
        request.login, request.body["body"], first["path"], first["line"], reply_to=thread
    )
    return Answer(201, shapes.review(hub, hub.reviews[key]))


def edit_review(request: Request) -> Answer:
    facts = known(request.hub.reviews, request.number("comment_id"))
    facts["body"] = request.body["body"]
    return Answer(200, shapes.review(request.hub, facts))


ROUTES = {
    "GET /issues/{issue_number}/comments": list_comments,
    "POST /issues/{issue_number}/comments": create,
    "PATCH /issues/comments/{comment_id}": edit,
    "DELETE /issues/comments/{comment_id}": delete,
    "POST /issues/comments/{comment_id}/reactions": react,
    "POST /pulls/comments/{comment_id}/reactions": react,
    "GET /pulls/{pull_number}/comments": list_reviews,
    "POST /pulls/{pull_number}/comments/{comment_id}/replies": reply,
    "PATCH /pulls/comments/{comment_id}": edit_review,
}
