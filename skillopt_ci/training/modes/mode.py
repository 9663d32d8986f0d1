"""What the stages know of an update mode."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from skillopt_ci.model.types import ChatClient
from skillopt_ci.progress import Observer
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.skill.edits import EditReport, Refuse, permit
from skillopt_ci.training.patch import Item
from skillopt_ci.training.payload import Payload

ModeName = Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"]


@dataclass(frozen=True, slots=True)
class Desk:
    """The optimizer at work in one step, and what it is told of earlier steps and epochs.

    ``guidance`` is what reviewers ask for, as a section of a prompt.
    ``refuse`` is the guard: why a document may not follow another.
    """

    client: ChatClient
    prompts: Prompts
    observer: Observer
    step_buffer: str = ""
    meta_skill: str = ""
    guidance: str = ""
    refuse: Refuse = permit


@dataclass(frozen=True, slots=True)
class Updated:
    """The document after an update, and how it came about.

    ``reports`` tell the fate of single edits, ``change_summary`` what a rewrite says of itself.
    ``skip_no_rewrite`` means that nobody wrote a usable document: the old one stays. So it does
    where ``refused`` says what the guard has against the new one.
    """

    skill: str
    outcome: Literal["updated", "skip_no_rewrite"] = "updated"
    reports: tuple[EditReport, ...] = ()
    change_summary: tuple[str, ...] = ()
    reasoning: str = ""
    refused: str = ""


class UpdateMode(Protocol[Item]):
    """One way to propose changes and to carry them out, in all that the stages need of it."""

    @property
    def name(self) -> ModeName:
        """Its name in the configuration."""
        ...

    @property
    def prompt_suffix(self) -> str:
        """What the names of its prompts end in."""
        ...

    @property
    def noun(self) -> str:
        """What one proposed change is called."""
        ...

    @property
    def payload(self) -> Payload[Item]:
        """How proposed changes are spelt in replies."""
        ...

    @property
    def reply_tokens(self) -> int:
        """The longest reply of an analyst or a merge."""
        ...

    def assignment(self, limit: int | None) -> str:
        """Return the prompt section that says how much to propose; None is no limit."""
        ...

    def pool_line(self, index: int, edit: Item) -> str:
        """Return one proposed change as a line of a numbered list, nothing left out."""
        ...

    async def update(self, skill: str, edits: Sequence[Item], desk: Desk) -> Updated:
        """Make the next document of ``skill``; protected parts are not its business."""
        ...
