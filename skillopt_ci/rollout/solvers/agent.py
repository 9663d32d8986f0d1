"""The built-in agent: the target model with tools, in a loop, until it submits."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from skillopt_ci.config.rollout import AgentSettings, AttemptLimits
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import ChatClient, ChatReply, ChatRequest, Role, Usage
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.solver import Workplace, conversation
from skillopt_ci.rollout.solvers.tools import SUBMIT, BadArguments, Toolbox, submitted, tools
from skillopt_ci.rollout.steps import Asked, Attempt, Limit, ModelSaid, Nudged, Step, ToolUsed
from skillopt_ci.tasks.task import Task

Calls = tuple[ToolCall, ...]

_NOT_DONE = "Not carried out: the work was submitted before."


@dataclass(frozen=True, slots=True)
class AgentSolver:
    """Asks the model, carries out its tool calls, and asks again.

    The conversation only ever grows at its end, so that a server can cache what came before.
    """

    client: ChatClient
    prompts: Prompts
    settings: AgentSettings

    @property
    def name(self) -> str:
        """Return the solver's name."""
        return "agent"

    @property
    def needs_computer(self) -> bool:
        """The tools work on one."""
        return True

    def identity(self) -> Mapping[str, object]:
        """Return settings and prompts."""
        return {
            **self.settings.model_dump(mode="json"),
            "prompt": self.prompts.text("agent"),
            "reminder": self.prompts.text("agent_reminder"),
        }

    async def solve(
        self, task: Task, skill: str, place: Workplace
    ) -> AsyncIterator[Step | Attempt]:
        """Work until a submission is accepted, patience is used up, or a limit is reached."""
        toolbox = Toolbox(place.computer, self.settings)
        talk = _Talk([*conversation(task, skill, self.prompts, "agent")])
        reminders, nudges, response = self.settings.reminders, place.nudges, ""
        yield Asked(tuple(talk.messages))
        while (limit := _reached(place.limits, talk)) is None:
            reply = await self._ask(talk, place, toolbox)
            yield talk.said(reply)
            response = reply.text
            if not reply.tool_calls and reminders:
                reminders -= 1
                yield talk.nudged(self.prompts.text("agent_reminder"))
                continue
            work, ending = _until_submission(reply.tool_calls)
            for call in work:
                yield talk.used(await toolbox.use(call))
            if work and not ending:
                continue
            response = (submitted(ending[0]) if ending else "") or reply.text
            objection = await place.check_submission()
            for used in _results(ending, objection or "Submitted."):
                yield talk.used(used)
            if objection is None or not nudges:
                break
            nudges -= 1
            yield talk.nudged(objection, said=bool(ending))
        yield Attempt(
            tuple(talk.messages), response, n_turns=talk.turns, limit=limit, usage=talk.usage
        )

    def first_request(self, task: Task, skill: str, stage: str, attempt: int) -> ChatRequest:
        """The question with which an attempt at ``task`` begins."""
        messages = conversation(task, skill, self.prompts, "agent")
        offered = tools(self.settings.tools)
        return ChatRequest(Role.TARGET, stage, messages, attempt=attempt, tools=offered)

    async def _ask(self, talk: "_Talk", place: Workplace, toolbox: Toolbox) -> ChatReply:
        request = ChatRequest(
            Role.TARGET,
            place.stage,
            tuple(talk.messages),
            attempt=place.attempt,
            tools=tools(toolbox.names),
        )
        return await self.client.complete(request)


@dataclass(slots=True)
class _Talk:
    """The conversation as it grows, and what it has consumed."""

    messages: list[Message]
    turns: int = 0
    usage: Usage = field(default_factory=Usage)

    def said(self, reply: ChatReply) -> ModelSaid:
        message = Message("assistant", reply.text, tool_calls=reply.tool_calls)
        self.messages.append(message)
        self.turns += 1
        self.usage += reply.usage
        return ModelSaid(message, reply.usage)

    def used(self, used: ToolUsed) -> ToolUsed:
        self.messages.append(Message("tool", used.output, tool_call_id=used.call.id))
        return used

    def nudged(self, text: str, *, said: bool = False) -> Nudged:
        """Note a nudge; ``said``: the model has read it as the result of its call."""
        if not said:
            self.messages.append(Message("user", text))
        return Nudged(text)


def _reached(limits: AttemptLimits, talk: _Talk) -> Limit | None:
    if limits.steps is not None and talk.turns >= limits.steps:
        return Limit.STEPS
    if limits.tokens is not None and talk.usage.tokens >= limits.tokens:
        return Limit.TOKENS
    if limits.cost_usd is not None and (talk.usage.cost_usd or 0.0) >= limits.cost_usd:
        return Limit.COST
    return None


def _until_submission(calls: Calls) -> tuple[Calls, Calls]:
    """Divide ``calls`` before the first good submission; the second part is empty without one."""
    for number, call in enumerate(calls):
        if _submits(call):
            return calls[:number], calls[number:]
    return calls, ()


def _submits(call: ToolCall) -> bool:
    try:
        return call.name == SUBMIT and submitted(call) is not None
    except BadArguments:
        return False


def _results(ending: Calls, verdict: str) -> list[ToolUsed]:
    """Return the results of a submission and of the calls after it: each call must have one."""
    return [ToolUsed(call, _NOT_DONE if number else verdict) for number, call in enumerate(ending)]
