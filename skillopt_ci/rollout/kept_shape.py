"""Attempts and grades as JSON: what the store keeps and what machines hand to each other."""

import base64
import zlib
from dataclasses import asdict
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from skillopt_ci.messages import ChatRole, Image, Message, ToolCall
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.steps import Attempt, Limit
from skillopt_ci.rollout.work import Worked
from skillopt_ci.scorers.base import Score

#: More than an agent may leave behind is no artifact of ours.
ARTIFACT_BYTES = 200_000_000


def _writable(text: object) -> object:
    """Half of a surrogate pair cannot be written as UTF-8: a mark stands in its place."""
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else text


_Count = Annotated[int, Field(ge=0)]
_Text = Annotated[str, BeforeValidator(_writable), Field(max_length=50_000_000)]
_Key = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Part = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class UsageShape(_Shape):
    """What was consumed."""

    calls: _Count
    prompt_tokens: _Count
    completion_tokens: _Count
    cached_tokens: _Count
    reasoning_tokens: _Count
    cost_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    estimated: bool
    cache_write_tokens: _Count = 0

    @classmethod
    def of(cls, usage: Usage) -> "UsageShape":
        """The shape of ``usage``."""
        return cls(**asdict(usage))

    def value(self) -> Usage:
        """The value."""
        return Usage(**self.model_dump())


class _ImageShape(_Shape):
    media_type: _Text
    data: _Text


class _CallShape(_Shape):
    id: _Text
    name: _Text
    arguments: _Text
    state: _Text = ""

    def value(self) -> ToolCall:
        """The value."""
        return ToolCall(self.id, self.name, self.arguments, self.state)


class _MessageShape(_Shape):
    role: ChatRole
    content: _Text
    images: tuple[_ImageShape, ...] = ()
    tool_calls: tuple[_CallShape, ...] = ()
    tool_call_id: _Text = ""

    def value(self) -> Message:
        """The value."""
        return Message(
            self.role,
            self.content,
            images=tuple(Image(one.media_type, one.data) for one in self.images),
            tool_calls=tuple(one.value() for one in self.tool_calls),
            tool_call_id=self.tool_call_id,
        )


class ScoreShape(_Shape):
    """A verdict."""

    hard: _Part
    soft: _Part
    reason: _Text
    answer: _Text

    @classmethod
    def of(cls, score: Score) -> "ScoreShape":
        """The shape of ``score``."""
        return cls(**asdict(score))

    def value(self) -> Score:
        """The value."""
        return Score(**self.model_dump())


class WorkedShape(_Shape):
    """What came of the work on a task, without its artifacts."""

    messages: tuple[_MessageShape, ...]
    response: _Text
    n_turns: _Count
    trace: _Text
    limit: Limit | None
    usage: UsageShape
    ending: Literal["done", "refused", "agent_error"]
    reason: _Text
    progress: tuple[ScoreShape, ...] = ()

    @classmethod
    def of(cls, worked: Worked) -> "WorkedShape":
        """The shape of ``worked``."""
        attempt = worked.attempt
        return cls(
            messages=tuple(_MessageShape(**asdict(one)) for one in attempt.messages),
            response=attempt.response,
            n_turns=attempt.n_turns,
            trace=attempt.trace,
            limit=attempt.limit,
            usage=UsageShape.of(attempt.usage),
            ending=worked.ending,
            reason=worked.reason,
            progress=tuple(map(ScoreShape.of, worked.progress)),
        )

    def value(self, artifacts: bytes) -> Worked:
        """The value, with the ``artifacts`` that belong to it."""
        attempt = Attempt(
            messages=tuple(one.value() for one in self.messages),
            response=self.response,
            n_turns=self.n_turns,
            trace=self.trace,
            limit=self.limit,
            artifacts=artifacts,
            usage=self.usage.value(),
        )
        progress = tuple(one.value() for one in self.progress)
        return Worked(attempt, self.ending, self.reason, progress)


class AttemptLine(_Shape):
    """A stored attempt in a file; ``artifacts`` is base64 of what :func:`packed` returns."""

    attempt: _Key
    paid_by: Annotated[str, Field(max_length=1_000)]
    usage: UsageShape
    worked: WorkedShape
    artifacts: Annotated[str, Field(max_length=2 * ARTIFACT_BYTES)] = ""

    def packed_artifacts(self) -> bytes:
        """The artifacts as the store keeps them; raises ValueError for what they cannot be."""
        content = base64.b64decode(self.artifacts, validate=True)
        unpacked(content)
        return content


class GradeLine(_Shape):
    """A stored grade in a file."""

    grade: _Key
    scorer: _Key
    score: ScoreShape


def packed(artifacts: bytes) -> bytes:
    """Compress ``artifacts``; nothing stays nothing."""
    return zlib.compress(artifacts, 6) if artifacts else b""


def unpacked(content: bytes) -> bytes:
    """Undo :func:`packed`; raises ValueError for what is damaged or far too large."""
    if not content:
        return b""
    decompressor = zlib.decompressobj()
    try:
        artifacts = decompressor.decompress(content, ARTIFACT_BYTES)
    except zlib.error as error:
        raise ValueError(f"the artifacts are damaged: {error}") from error
    if not decompressor.eof:
        raise ValueError("the artifacts are cut off or too large")
    return artifacts
