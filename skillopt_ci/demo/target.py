"""The simulated target: works as its skill says, and slips now and then."""

import json
import shlex
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType

from skillopt_ci.demo.world import (
    Dice,
    Note,
    Order,
    Script,
    ledger_line,
    read_note,
    read_order,
    script_for,
    stances,
)
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import Tool
from skillopt_ci.skill.regions import REGIONS, region_text

#: Probabilities, unless said otherwise.
RATES = MappingProxyType(
    {
        "slip": 0.02,  # of breaking a convention that the skill states
        "bloat_from": 5_000,  # characters of system prompt beyond which it loses track
        "bloat_slip": 0.01,  # added to "slip" for each further 1,000 characters
        "contradiction_slip": 0.02,  # added to "slip" for each contradiction in the skill
        "torn": 0.6,  # of breaking a convention that the skill both states and contradicts
        "heedless": 0.2,  # of a slip also where guidance or a note reminds it
    }
)
_OPENINGS = (
    "Here is the ledger line.",
    "The line for this note:",
    "This is how I would book it.",
)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a simulated model says in one turn: text, and tools that it wants used."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()


def next_turn(
    messages: Sequence[Message],
    dice: Dice,
    tools: Sequence[Tool] = (),
    slip: float | None = None,
) -> Turn:
    """Return a step of its work where the target has tools, else its answer.

    ``slip`` takes the place of the usual rate.
    """
    order = next(filter(None, (read_order(m.content) for m in messages if m.role == "user")), None)
    offered = {tool.name for tool in tools}
    if tools and order is not None:
        turns = list(_work(script_for(order, _followed(order, messages, dice, slip)), offered))
        behind = sum(bool(m.tool_calls) for m in messages if m.role == "assistant")
        text, name, arguments = turns[min(behind, len(turns) - 1)]
        if name not in offered:
            return Turn(text)
        call = ToolCall(f"call_{behind}", name, json.dumps(arguments, ensure_ascii=False))
        return Turn(text, (call,))
    text = answer(messages, dice, slip)
    if "submit" in offered:
        return Turn("", (ToolCall("call_0", "submit", json.dumps({"answer": text})),))
    return Turn(text)


def answer(messages: Sequence[Message], dice: Dice, slip: float | None = None) -> str:
    """Return the target's reply: a short sentence, then the answer in its tag."""
    prompt = next((m.content for m in reversed(messages) if m.role == "user"), "")
    note = read_note(prompt)
    if note is None:
        words = prompt.replace("<", " ").replace(">", " ").split()
        echo = " ".join(words[-12:]) or "nothing was asked"
        return f"I have no special knowledge of this.\n\n<answer>{echo}</answer>"
    line = ledger_line(note, _followed(note, messages, dice, slip))
    return f"{dice.pick('opening', _OPENINGS)}\n\n<answer>{line}</answer>"


def _followed(
    case: Note | Order, messages: Sequence[Message], dice: Dice, slip: float | None
) -> frozenset[str]:
    """Return the conventions of ``case`` that the skill states and that do not slip."""
    system = "\n".join(m.content for m in messages if m.role == "system")
    said = stances(system)
    reminded = stances("\n".join(region_text(system, region) or "" for region in REGIONS))
    excess = max(0, len(system) - RATES["bloat_from"]) / 1_000
    contradictions = sum(len(taken) > 1 for taken in said.values())
    slip = (
        (RATES["slip"] if slip is None else slip)
        + RATES["bloat_slip"] * excess
        + RATES["contradiction_slip"] * contradictions
    )

    def slips(name: str) -> bool:
        usual = slip * (RATES["heedless"] if reminded[name] else 1)
        return dice.chance(f"slip {name}", RATES["torn"] if len(said[name]) > 1 else usual)

    return frozenset(name for name in case.exercised() if "for" in said[name] and not slips(name))


def _work(script: Script, offered: AbstractSet[str]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Give the turns in which the script is written: text, tool and arguments."""
    path = shlex.quote(script.path)
    if "shell" in offered:
        yield "I look at what is there first.", "shell", {"command": "ls -R"}
    if "write" in offered:
        file = {"path": script.path, "content": script.content}
        yield "Now I write the script.", "write", file
    else:
        folder, _, _ = script.path.rpartition("/")
        make = f"mkdir -p {shlex.quote(folder)} && " if folder else ""
        text = f"{make}cat > {path} <<'END'\n{script.content}END"
        yield "Now I write the script.", "shell", {"command": text}
    if script.executable:
        mode = "It is called directly, so it has to be executable."
        yield mode, "shell", {"command": f"chmod +x {path}"}
    if "shell" in offered:
        yield "A look at its syntax.", "shell", {"command": f"sh -n {path}"}
    yield "The script is written.", "submit", {"answer": f"The script is written: {script.path}"}
