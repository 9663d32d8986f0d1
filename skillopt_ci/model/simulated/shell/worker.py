"""How the simulated target works on an order: one tool call after the other, then it submits."""

import json
import shlex
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.simulated.said import Said
from skillopt_ci.model.simulated.shell.order import Order
from skillopt_ci.model.simulated.shell.script import Script, script_for
from skillopt_ci.model.types import Tool

_LOOK = "I look at what is there first."
_WRITE = "Now I write the script."
_MODE = "It is called directly, so it has to be executable."
_CHECK = "A look at its syntax."
_DONE = "The script is written."


def work_on(
    order: Order, followed: AbstractSet[str], messages: Sequence[Message], tools: Sequence[Tool]
) -> Said:
    """Return the next turn of the work, told by how many turns with tool calls lie behind."""
    offered = {tool.name for tool in tools}
    turns = list(_turns(script_for(order, followed), offered))
    behind = sum(bool(m.tool_calls) for m in messages if m.role == "assistant")
    text, name, arguments = turns[min(behind, len(turns) - 1)]
    if name not in offered:
        return Said(text)
    call = ToolCall(f"call_{behind}", name, json.dumps(arguments, ensure_ascii=False))
    return Said(text, (call,))


def _turns(script: Script, offered: AbstractSet[str]) -> Iterator[tuple[str, str, dict[str, str]]]:
    path = shlex.quote(script.path)
    if "shell" in offered:
        yield _LOOK, "shell", {"command": "ls -R"}
    if "write" in offered:
        yield _WRITE, "write", {"path": script.path, "content": script.content}
    else:
        folder, _, _ = script.path.rpartition("/")
        make = f"mkdir -p {shlex.quote(folder)} && " if folder else ""
        text = f"{make}cat > {path} <<'END'\n{script.content}END"
        yield _WRITE, "shell", {"command": text}
    if script.executable:
        yield _MODE, "shell", {"command": f"chmod +x {path}"}
    if "shell" in offered:
        yield _CHECK, "shell", {"command": f"sh -n {path}"}
    yield _DONE, "submit", {"answer": f"{_DONE[:-1]}: {script.path}"}
