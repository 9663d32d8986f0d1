"""Trajectories as text for the analysts: everything that is not ours stands in a fence, as data."""

import hashlib
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence

from skillopt_ci.messages import Message, fenced
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import Task

#: Stands where the target's system prompt repeats the skill.
SKILL_REFERENCE = "[current skill as above]"
#: Stands where it has the skill before the last change.
FORMER_REFERENCE = "[former skill, see above]"


def render_trajectories(
    rollouts: Sequence[Rollout],
    tasks: Mapping[str, Task],
    shown: Mapping[str, str],
    max_chars: int,
    *,
    traces: bool = False,
) -> str:
    """Return one block for each of ``rollouts``, in order, numbered from 1.

    ``tasks`` must be training tasks: their reference answers are shown. A document that the prompt
    has ``shown`` already is not repeated: what it is called stands there. With ``traces`` what an
    agent told of its work stands before the conversation. Of each part that is longer than
    ``max_chars`` characters (conversation, references, trace) the head and the tail stay.
    """
    return "\n\n---\n\n".join(
        _trajectory(number, rollout, tasks[rollout.task_id], shown, max_chars, traces)
        for number, rollout in enumerate(rollouts, start=1)
    )


def keep_ends(texts: Sequence[str], limit: int) -> list[str]:
    """Leave out the middle of ``texts``, taken as one, so that ``limit`` characters remain.

    Returns as many texts; a note in the first one that lost something says how much is missing.
    """
    total = sum(map(len, texts))
    if total <= limit:
        return list(texts)
    head, tail = limit - limit // 2, total - limit // 2
    note = f"[… {tail - head} characters left out …]"
    kept = []
    start = 0
    for text in texts:
        until, since = max(0, head - start), max(0, tail - start)
        cut_here = start <= head < start + len(text)
        kept.append(text[:until] + (note if cut_here else "") + text[since:])
        start += len(text)
    return kept


def _trajectory(
    number: int,
    rollout: Rollout,
    task: Task,
    shown: Mapping[str, str],
    max_chars: int,
    traces: bool,
) -> str:
    parts = [
        f"### Trajectory {number} (id={_one_line(rollout.task_id)})",
        fenced("\n".join(_facts(rollout, max_chars))),
    ]
    answers = "\n".join(map(_listed, task.references))
    hidden = list(filter(None, (answers, task.reference_text)))
    if hidden:
        parts += ["#### Hidden Reference", *map(fenced, filter(None, keep_ends(hidden, max_chars)))]
    if traces and rollout.trace:
        parts += ["#### Trace", fenced(keep_ends([rollout.trace], max_chars)[0])]
    entries = conversation(rollout.messages, shown, max_chars)
    return "\n\n".join([*parts, "#### Conversation", *map(fenced, entries)])


def _facts(rollout: Rollout, max_chars: int) -> Iterator[str]:
    if rollout.task_type:
        yield f"Task type: {_one_line(rollout.task_type)}"
    if rollout.failed and rollout.reason:
        yield f"Failure reason: {keep_ends([_one_line(rollout.reason)], max_chars)[0]}"
    yield f"Steps: {rollout.n_turns}"
    if rollout.limit is not None:
        yield f"Cut off by the limit of {rollout.limit}; what there was by then is graded"
    if rollout.progress:
        scores = ", ".join(f"{score.soft:.2f}" for score in rollout.progress)
        yield f"Score after each tool use: {scores}"


def conversation(
    messages: Sequence[Message], shown: Mapping[str, str], max_chars: int
) -> Iterable[str]:
    """Return the messages as ``[role] content``; skills that were ``shown`` go by their names.

    Of all together ``max_chars`` characters stay, head and tail; a message wholly left out is no
    entry.

    Each entry gets a fence of its own, so that no message can pass for the next one.
    """
    # a longer text first: it may hold a shorter one
    documents = sorted(((as_read(text).strip(), name) for text, name in shown.items()), key=_size)
    texts = [_told(message, documents) for message in messages]
    tools = {call.id: call.name for message in messages for call in message.tool_calls}
    for message, text, kept in zip(messages, texts, keep_ends(texts, max_chars), strict=True):
        if kept or not text:
            yield f"[{_who(message, tools)}] {kept}"


def _who(message: Message, tools: Mapping[str, str]) -> str:
    name = tools.get(message.tool_call_id) if message.role == "tool" else None
    return f"{message.role} {_one_line(name)}" if name else message.role


def _size(document: tuple[str, str]) -> int:
    return -len(document[0])


def _told(message: Message, documents: Sequence[tuple[str, str]]) -> str:
    """What the message says, and the tools that it asks for."""
    calls = (f"→ {_one_line(call.name)} {call.arguments}" for call in message.tool_calls)
    text = _without(documents, message) + _pictures(message)
    return "\n".join([*filter(None, (text,)), *calls]) if message.tool_calls else text


def _without(documents: Sequence[tuple[str, str]], message: Message) -> str:
    text = message.content
    for document, name in documents if message.role == "system" else ():
        text = text.replace(document, name) if len(document) > len(name) else text
    return text


def _pictures(message: Message) -> str:
    """What stands for the pictures of a message: their kinds and the hashes of their files."""
    hashes = (hashlib.sha256(b64decode(image.data)).hexdigest() for image in message.images)
    kinds = (image.media_type for image in message.images)
    return "".join(
        f"\n[a picture, {kind}, sha256 {digest[:12]}]"
        for kind, digest in zip(kinds, hashes, strict=True)
    )


def _listed(reference: str) -> str:
    return "- " + reference.replace("\n", "\n  ")


def _one_line(text: str) -> str:
    return " ".join(text.split())
