"""Arguments and results of this folder's functions; texts are within GitHub's limits."""

from dataclasses import dataclass
from typing import Literal

Reaction = Literal["+1", "-1", "eyes", "rocket", "confused"]
Conclusion = Literal["success", "failure", "neutral", "cancelled", "skipped", "action_required"]
MergeMethod = Literal["merge", "squash"]


@dataclass(frozen=True, slots=True)
class WantedPullRequest:
    """The rolling pull request; ``labels`` are only added; a ready one never becomes a draft."""

    head: str
    base: str
    title: str
    body: str
    draft: bool = False
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptPullRequest:
    """``notes`` list what GitHub refused.

    It is ``declined`` if a person closed it and its branch still exists. Without a number there is
    nothing to propose: the branch has no commit that base lacks, or is gone after a merge.
    """

    number: int | None
    declined: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a pull request; ``body`` is untrusted text.

    A comment on a line has a ``path``, the ``line`` at the newest commit if that still exists, and
    ``thread``, the id of the thread's first comment. ``created_at`` is UTC, ISO 8601.
    """

    id: int
    author: str
    by_bot: bool
    body: str
    url: str
    created_at: str
    path: str | None = None
    line: int | None = None
    thread: int | None = None

    @property
    def kind(self) -> Literal["issue", "review"]:
        """In the conversation or on a line of the diff; ids are only unique within a kind."""
        return "issue" if self.path is None else "review"


@dataclass(frozen=True, slots=True)
class Annotation:
    """A check's annotation of lines in a file; fields have the names of GitHub's API."""

    path: str
    start_line: int
    end_line: int
    annotation_level: Literal["notice", "warning", "failure"]
    message: str
    title: str


#: The check that says whether fresh attempts confirm the skill.
CONFIRMED = "skillopt/confirmed"
#: The title of a check on a commit that needs no evaluation.
NOTHING_TO_DO = "Nothing to evaluate"
#: The title of a check on a commit that could not be evaluated.
NOT_EVALUATED = "Not evaluated"
#: The titles of an evaluation's checks without a verdict, also if GitHub concludes them as stale.
UNDECIDED = (NOTHING_TO_DO, NOT_EVALUATED, "Inconclusive", "Waiting")


@dataclass(frozen=True, slots=True)
class WantedCheck:
    """A check to create, with up to 50 annotations; without a conclusion it is in progress."""

    name: str
    head_sha: str
    title: str
    summary: str
    conclusion: Conclusion | None = None
    annotations: tuple[Annotation, ...] = ()
    details_url: str = ""
    #: It replaces no verdict.
    yields: bool = False
    #: Though it yields, it replaces those of earlier workflow runs, which were for another base.
    again: bool = False
