"""The simulated target: works as its skill says, and slips now and then."""

import json
from collections.abc import Iterable, Sequence

from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.simulated.dice import Dice
from skillopt_ci.model.simulated.ledger import exercised, ledger_line
from skillopt_ci.model.simulated.note import read_note
from skillopt_ci.model.simulated.said import Said
from skillopt_ci.model.simulated.shell import script
from skillopt_ci.model.simulated.shell.order import read_order
from skillopt_ci.model.simulated.shell.worker import work_on
from skillopt_ci.model.simulated.skill_reading import stances
from skillopt_ci.model.simulated.temperament import Temperament
from skillopt_ci.model.types import Tool
from skillopt_ci.skill.regions import REGIONS, region_text

_OPENINGS = ("Here is the ledger line.", "The line for this note:", "This is how I would book it.")


def reply(
    messages: Sequence[Message], dice: Dice, temperament: Temperament, tools: Sequence[Tool] = ()
) -> Said:
    """Return the target's next turn: a step of its work where it has tools, else its answer."""
    order = next(filter(None, (read_order(m.content) for m in messages if m.role == "user")), None)
    if tools and order is not None:
        names = script.exercised(order)
        return work_on(order, _followed(names, messages, dice, temperament), messages, tools)
    text = answer(messages, dice, temperament)
    if any(tool.name == "submit" for tool in tools):
        return Said("", (ToolCall("call_0", "submit", json.dumps({"answer": text})),))
    return Said(text)


def answer(messages: Sequence[Message], dice: Dice, temperament: Temperament) -> str:
    """Return the target's reply: a short sentence, then the answer in its tag."""
    prompt = next((m.content for m in reversed(messages) if m.role == "user"), "")
    note = read_note(prompt)
    if note is None:
        return f"I have no special knowledge of this.\n\n<answer>{_echo(prompt)}</answer>"
    line = ledger_line(note, _followed(exercised(note), messages, dice, temperament))
    return f"{dice.pick('opening', _OPENINGS)}\n\n<answer>{line}</answer>"


def _followed(
    names: Iterable[str], messages: Sequence[Message], dice: Dice, temperament: Temperament
) -> frozenset[str]:
    system = "\n".join(m.content for m in messages if m.role == "system")
    said = stances(system)
    slip = _slip(len(system), sum(len(taken) > 1 for taken in said.values()), temperament)
    reminded = stances("\n".join(region_text(system, region) or "" for region in REGIONS))
    failing = {
        name: temperament.torn
        if len(taken) > 1
        else slip * (temperament.heedless if reminded[name] else 1)
        for name, taken in said.items()
    }
    return frozenset(
        name
        for name in names
        if "for" in said[name] and not dice.chance(f"slip {name}", failing[name])
    )


def _slip(length: int, contradictions: int, temperament: Temperament) -> float:
    excess = max(0, length - temperament.bloat_from) / 1_000
    return (
        temperament.slip
        + temperament.bloat_slip * excess
        + temperament.contradiction_slip * contradictions
    )


def _echo(prompt: str) -> str:
    words = prompt.replace("<", " ").replace(">", " ").split()
    return " ".join(words[-12:]) or "nothing was asked"
