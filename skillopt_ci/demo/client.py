"""The simulated models, among them a target that follows its skill but sometimes slips."""

import json
from collections.abc import Callable, Mapping, Sequence

from skillopt_ci.config.models import ModelRole
from skillopt_ci.demo.optimizer import propose
from skillopt_ci.demo.world import Dice, Note, content_key, ledger_line, read_note, stances
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import ChatReply, ChatRequest, Role, Tool, Usage, token_count
from skillopt_ci.skill.regions import REGIONS, region_text
from skillopt_ci.util import nearest

#: Probabilities, unless said otherwise.
RATES = {
    "slip": 0.02,  # of breaking a convention that the skill states
    "bloat_from": 5_000,  # characters of system prompt beyond which it loses track
    "bloat_slip": 0.01,  # added to "slip" for each further 1,000 characters
    "contradiction_slip": 0.02,  # added to "slip" for each contradiction in the skill
    "torn": 0.6,  # of breaking a convention that the skill both states and contradicts
    "heedless": 0.2,  # of a slip also where guidance or a note reminds it
}
_OPENINGS = ("Here is the ledger line.", "The line for this note:", "This is how I would book it.")


def answer(messages: Sequence[Message], dice: Dice) -> str:
    prompt = next((m.content for m in reversed(messages) if m.role == "user"), "")
    if (note := read_note(prompt)) is None:
        words = prompt.replace("<", " ").replace(">", " ").split()
        echo = " ".join(words[-12:]) or "nothing was asked"
        return f"I have no special knowledge of this.\n\n<answer>{echo}</answer>"
    line = ledger_line(note, _followed(note, messages, dice))
    return f"{dice.pick('opening', _OPENINGS)}\n\n<answer>{line}</answer>"


def _followed(note: Note, messages: Sequence[Message], dice: Dice) -> frozenset[str]:
    system = "\n".join(m.content for m in messages if m.role == "system")
    said = stances(system)
    reminded = stances("\n".join(region_text(system, region) or "" for region in REGIONS))
    excess = max(0, len(system) - RATES["bloat_from"]) / 1_000
    contradictions = sum(len(taken) > 1 for taken in said.values())
    slip = (
        RATES["slip"] + RATES["bloat_slip"] * excess + RATES["contradiction_slip"] * contradictions
    )

    def slips(name: str) -> bool:
        usual = slip * (RATES["heedless"] if reminded[name] else 1)
        return dice.chance(f"slip {name}", RATES["torn"] if len(said[name]) > 1 else usual)

    return frozenset(name for name in note.exercised() if "for" in said[name] and not slips(name))


Model = Callable[[Sequence[Message], Dice], str]

MODELS: Mapping[str, Model] = {"simulated-target": answer, "simulated-optimizer": propose}


def find_model(name: str, where: str = "model") -> Model:
    if name in MODELS:
        return MODELS[name]
    hint = nearest(name, MODELS, cutoff=0)
    raise ModelSetupError(f"{where}: there is no simulated model {name!r}.", hint=hint)


def complete(
    model: str,
    messages: Sequence[Message],
    *,
    seed: int,
    attempt: int = 0,
    tools: Sequence[Tool] = (),
) -> ChatReply:
    text = find_model(model)(messages, Dice(seed, content_key(messages, attempt)))
    calls: tuple[ToolCall, ...] = ()
    if model == "simulated-target" and any(tool.name == "submit" for tool in tools):
        calls = (ToolCall("call_0", "submit", json.dumps({"answer": text})),)
    shown = "" if calls else text
    written = [shown, *(call.name + call.arguments for call in calls)]
    asked = sum(token_count(message.content) for message in messages)
    usage = Usage(calls=1, prompt_tokens=asked, completion_tokens=sum(map(token_count, written)))
    return ChatReply(shown, "tool_calls" if calls else "stop", model, usage, tool_calls=calls)


class SimulatedClient:
    """The simulated model that ``config`` names; answers depend only on content and seed."""

    def __init__(self, config: ModelRole, role: Role) -> None:
        find_model(config.model, where=f"model.{role}.model")
        self._config = config

    async def complete(self, request: ChatRequest) -> ChatReply:
        return complete(
            self._config.model,
            request.messages,
            seed=self._config.seed,
            attempt=request.attempt,
            tools=request.tools,
        )
