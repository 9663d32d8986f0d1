"""What the optimizer writes at an epoch's end: guidance for the target, memory for itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from skillopt_ci.config.config import Gradient
from skillopt_ci.messages import fenced
from skillopt_ci.model.types import ChatClient
from skillopt_ci.progress import Observer, StageFinished, StageStarted
from skillopt_ci.prompts import library
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.report.text import plural
from skillopt_ci.skill.document import word_count
from skillopt_ci.skill.regions import strip_markers
from skillopt_ci.training import reply_schema
from skillopt_ci.training.ask import Lost, ask_vital, optimizer_request
from skillopt_ci.training.comparison import render_pairs
from skillopt_ci.training.pairs import Pair
from skillopt_ci.training.wire_json import extract_json
from skillopt_ci.training.wire_shape import clean, validated

_FIRST = "There is none yet: this is the first slow update of the run."


@dataclass(frozen=True, slots=True)
class Written:
    """A text with the reasoning behind it; blank when there was nothing to say."""

    content: str = ""
    reasoning: str = ""


class _SlowUpdateShape(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    slow_update_content: str
    reasoning: str = ""


class _MetaSkillShape(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    meta_skill_content: str
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Advisor:
    """Asks for guidance and memory; ``gradient`` says what is shown of the conversations.

    Without pairs there is no evidence: nobody is asked, and nothing is written. The same comes of
    a reply that cannot be used. A model that is unavailable raises
    :class:`~skillopt_ci.model.types.ModelUnavailable`, so that an outage costs no epoch its end.
    """

    client: ChatClient
    prompts: Prompts
    observer: Observer
    gradient: Gradient

    async def slow_update(
        self, earlier: str, current: str, guidance: str, pairs: Sequence[Pair]
    ) -> Written:
        """Return the guidance that is to replace ``guidance``."""
        user = library.joined(
            library.section("Previous Epoch's Skill", fenced(earlier, "markdown")),
            library.current_skill(current),
            library.section("Previous Guidance", fenced(guidance) if guidance else _FIRST),
            render_pairs(pairs, earlier, current, self.gradient),
        )
        return await self._ask("slow_update", user, pairs, _parse_slow_update)

    async def meta_skill(
        self, earlier: str, current: str, memory: str, pairs: Sequence[Pair]
    ) -> Written:
        """Return the memory that is to replace ``memory``."""
        user = library.joined(
            library.section("Previous Epoch's Skill", fenced(earlier, "markdown")),
            library.current_skill(current),
            library.section(
                "Previous Meta Skill", fenced(memory.strip()) if memory else "None yet."
            ),
            render_pairs(pairs, earlier, current, self.gradient),
        )
        return await self._ask("meta_skill", user, pairs, _parse_meta_skill)

    async def _ask(
        self, stage: str, user: str, pairs: Sequence[Pair], parse: Callable[[str], Written]
    ) -> Written:
        if not pairs:
            return Written()
        what = stage.replace("_", " ")
        self.observer(StageStarted(what))
        schema = reply_schema.written(stage)
        request = optimizer_request(self.prompts, stage, stage, user, reply_schema=schema)
        reply = await ask_vital(self.client, request, parse, what=what, observer=self.observer)
        written = Written() if isinstance(reply, Lost) else reply
        self.observer(StageFinished(what, plural(word_count(written.content), "word")))
        return written


def _parse_slow_update(text: str) -> Written:
    reply = validated(_SlowUpdateShape, extract_json(text))
    return _written(reply.slow_update_content, reply.reasoning)


def _parse_meta_skill(text: str) -> Written:
    reply = validated(_MetaSkillShape, extract_json(text))
    return _written(reply.meta_skill_content, reply.reasoning)


def _written(content: str, reasoning: str) -> Written:
    return Written(strip_markers(clean(content)).strip(), clean(reasoning).strip())
