"""The office of ``examples/shell``: its orders and scripts, and scripted models that serve it.

The target knows the sentences of the skill that are rules of the office, and no others; the
optimizer proposes the rule behind whatever fault the checker names.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from skillopt_ci.demo.optimizer import first_prompt, read_proposals, stage_of
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.chat_server import read_body, reply_body
from skillopt_ci.model.types import ChatReply, Usage

#: The conventions by name: how the checker words that one was not followed, and its rule.
CONVENTIONS: Mapping[str, tuple[str, str]] = {
    "shebang": (
        "the first line is no plain /bin/sh",
        "Begin every script with the line `#!/bin/sh`.",
    ),
    "place": (
        "the script stands in the wrong folder",
        "Put scripts into the folder `jobs/` unless the order names another.",
    ),
    "dashes": (
        "the words of the file name are not joined by dashes",
        "Join the words of a script's file name with dashes.",
    ),
    "strict": (
        "the second line does not make it strict",
        "The second line of a script that must end at the first error is `set -eu`.",
    ),
    "owner": (
        "no comment names the owner",
        "Name the owner in a comment line: `# Owner: Ann Example`.",
    ),
    "locale": (
        "sorting depends on the locale",
        "A script that lists distinct lines sets `LC_ALL=C` before it sorts.",
    ),
    "progress": (
        "messages are not on standard error",
        "Send a script's messages to standard error (`>&2`).",
    ),
    "result": (
        "the result is not kept in its file",
        "Write a result that is kept to `out/`, in a text file named like the script.",
    ),
    "missing": (
        "a missing input does not give exit status 3",
        "A script that misses its input ends with exit status 3.",
    ),
    "executable": (
        "the script is not executable",
        "Make a script that is called directly executable (`chmod +x`).",
    ),
}

#: What a job does with its input, as orders word it, and the command that does it.
ACTIONS = {
    "counts the lines of": "grep -c ''",
    "lists the distinct lines of": "sort -u",
    "shows the last line of": "tail -n 1",
}
_JOB = re.compile(
    rf"\bjob `([a-z]+(?: [a-z]+)*)` (?:that )?({'|'.join(ACTIONS)}) `([\w./-]+)`", re.IGNORECASE
)
_ORDER_DETAILS = {
    "folder": re.compile(r"\bfolder `([\w-]+)`"),
    "owner": re.compile(r"\b(?:belongs to|ordered by) ([A-Z]\w+ [A-Z]\w+)"),
    "message": re.compile(r"\b(?:announces|it says) `([\w ]+)`"),
}
_ORDER_WISHES = {
    "careful": re.compile(r"end at the first error"),
    "kept": re.compile(r"result is kept|keep its result"),
    "needed": re.compile(r"must fail|has to fail"),
    "direct": re.compile(r"calls it directly|is called directly"),
}


@dataclass(frozen=True, slots=True)
class Order:
    """The facts of one job; what the order does not mention is empty or false."""

    job: str
    action: str
    source: str
    folder: str = ""
    owner: str = ""
    message: str = ""
    careful: bool = False
    kept: bool = False
    needed: bool = False
    direct: bool = False

    @property
    def command(self) -> str:
        """The command that does the work."""
        return f"{ACTIONS[self.action]} {self.source}"

    def exercised(self) -> tuple[str, ...]:
        """Return the names of the conventions that show in this order's script, in office order."""
        shown = {
            "shebang": True,
            "place": not self.folder,
            "dashes": " " in self.job,
            "strict": self.careful,
            "owner": self.owner,
            "locale": "distinct" in self.action,
            "progress": self.message,
            "result": self.kept,
            "missing": self.needed,
            "executable": self.direct,
        }
        return tuple(name for name, shows in shown.items() if shows)


@dataclass(frozen=True, slots=True)
class Script:
    """A script as a file; ``path`` is relative to the workspace."""

    path: str
    content: str
    executable: bool


def read_order(text: str) -> Order | None:
    """Return the facts in ``text``; None unless it orders a job script."""
    job = _JOB.search(text)
    if job is None:
        return None
    facts: dict[str, Any] = {
        **{name: _first(pattern, text) for name, pattern in _ORDER_DETAILS.items()},
        **{name: bool(pattern.search(text)) for name, pattern in _ORDER_WISHES.items()},
    }
    return Order(job=job[1], action=job[2], source=job[3], **facts)


def script_for(order: Order, followed: AbstractSet[str]) -> Script:
    """Return the script that someone writes who follows just these conventions."""
    name = order.job.replace(" ", "-" if "dashes" in followed else "_")
    folder = order.folder or ("jobs" if "place" in followed else "")
    lines = ["#!/bin/sh" if "shebang" in followed else "#!/usr/bin/env bash"]
    if order.careful and "strict" in followed:
        lines.append("set -eu")
    if order.owner:
        told = f"# Owner: {order.owner}" if "owner" in followed else "# A job of the office."
        lines.append(told)
    if "locale" in followed and "distinct" in order.action:
        lines.append("export LC_ALL=C")
    if order.needed:
        lines.append(f"[ -f {order.source} ] || exit {3 if 'missing' in followed else 1}")
    if order.message:
        lines.append(f"echo '{order.message}'" + (" >&2" if "progress" in followed else ""))
    if order.kept and "result" in followed:
        lines += ["mkdir -p out", f"{order.command} > out/{name}.txt"]
    else:
        lines.append(order.command)
    return Script(
        path=f"{folder}/{name}.sh" if folder else f"{name}.sh",
        content="".join(f"{line}\n" for line in lines),
        executable=order.direct and "executable" in followed,
    )


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


# The models.

Turn = tuple[str, dict[str, str]]


def next_turn(messages: Sequence[Message]) -> Turn:
    """The tool that the target uses next, and its arguments."""
    order = read_order(first_prompt(messages))
    assert order is not None
    system = "\n".join(one.content for one in messages if one.role == "system")
    known = frozenset(name for name, (_, rule) in CONVENTIONS.items() if rule in system)
    script = script_for(order, known)
    turns: list[Turn] = [("write", {"path": script.path, "content": script.content})]
    if script.executable:
        turns.append(("shell", {"command": f"chmod +x {shlex.quote(script.path)}"}))
    turns.append(("submit", {"answer": f"The script is written: {script.path}"}))
    return turns[min(sum(bool(one.tool_calls) for one in messages), len(turns) - 1)]


def propose(messages: Sequence[Message]) -> str:
    """The optimizer's reply: a rule for each fault that is named, each of them once."""
    stage, prompt = stage_of(messages), first_prompt(messages)
    if stage == "analyst_error":
        rules = [rule for fault, rule in CONVENTIONS.values() if fault in prompt]
        edits = [{"op": "append", "content": f"- {rule}"} for rule in rules if rule not in prompt]
        return json.dumps({"patch": {"reasoning": "scripted", "edits": edits}})
    merged = {one["content"]: one for one in read_proposals(prompt, "content")}
    return json.dumps({"reasoning": "scripted", "edits": list(merged.values())})


class ShellOffice:
    """Both models behind OpenAI's chat protocol; the one with tools is the target."""

    async def respond(self, request: web.Request) -> web.StreamResponse:
        model, asked, _ = read_body(await request.read())
        text, calls = "", tuple[ToolCall, ...]()
        if asked.tools:
            name, arguments = next_turn(asked.messages)
            calls = (ToolCall(f"call_{len(asked.messages)}", name, json.dumps(arguments)),)
        else:
            text = propose(asked.messages)
        finish, usage = "tool_calls" if calls else "stop", Usage(1, 10, 10)
        reply = ChatReply(text, finish, model, usage, tool_calls=calls)
        return web.json_response(reply_body([reply]))
