"""How an answer is taken out of a response and graded: one model per scorer type."""

from typing import Annotated, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from skillopt_ci.config.base import Argument, FileName, Section
from skillopt_ci.config.rollout import Command

AnswerFrom = Literal["tag", "last_line", "fence", "text"]


class AnswerScorer(Section):
    """Common to scorers that look at an answer inside the response."""

    answer: AnswerFrom = "text"
    """Where the answer stands: the last `<answer>` tag, the last non-empty line, the last fenced
    block, or the whole text. Without a tag the last non-empty line counts, without a fence the
    whole text."""
    tag: str = "answer"
    """Name of the tag when `answer: tag`."""


class ExactScorer(AnswerScorer):
    """The answer equals one of the references, byte for byte after trimming."""

    type: Literal["exact"]


class NormalizedScorer(AnswerScorer):
    """Equal after lower-casing and dropping punctuation, articles and extra space (SQuAD)."""

    type: Literal["normalized"]


class F1Scorer(AnswerScorer):
    """Soft is the best token F1 over the references; hard is normalised equality."""

    type: Literal["f1"]


class ContainsScorer(AnswerScorer):
    """The answer contains all (or any) of the texts and none of the forbidden ones."""

    type: Literal["contains"]
    contains: tuple[str, ...] = ()
    """Texts that must stand in the answer; the task's references if empty."""
    not_contains: tuple[str, ...] = ()
    """Texts that must not stand in the answer."""
    match: Literal["all", "any"] = "all"
    """Whether all of `contains` must stand there, or one."""
    ignore_case: bool = False
    """Upper and lower case are the same."""


class RegexScorer(AnswerScorer):
    """A regular expression is found in the answer (or not, with `negate`)."""

    type: Literal["regex"]
    pattern: str
    """Python regular expression, searched for anywhere in the answer."""
    ignore_case: bool = False
    """Upper and lower case are the same."""
    multiline: bool = False
    """`^` and `$` match at every line."""
    negate: bool = False
    """Right when the expression is not found."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        import regex  # type: ignore[import-untyped]  # noqa: PLC0415 - few configurations need it

        try:
            regex.compile(value)
        except regex.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return value


class NumberScorer(AnswerScorer):
    """The answer's last number equals a reference within a tolerance."""

    type: Literal["number"]
    abs_tol: float = Field(default=0.0, ge=0)
    """Largest difference that still counts as equal."""
    rel_tol: float = Field(default=1e-9, ge=0)
    """The same as a share of the larger of the two numbers."""


class ChoiceScorer(AnswerScorer):
    """Multiple choice: a label, or the text of a choice, that equals the reference label.

    Either may stand alone or in a line `Answer: …`, the last of which counts."""

    type: Literal["choice"]
    choices: dict[str, str] = Field(default_factory=dict)
    """Label to text; empty: taken from the task's `metadata.choices`."""


class AnlsScorer(AnswerScorer):
    """Average normalised Levenshtein similarity, as document question answering uses it."""

    type: Literal["anls"]
    threshold: float = Field(default=0.5, ge=0, le=1)
    """Relative distance from which an answer scores nothing."""
    hard_at: float = Field(default=0.999, ge=0, le=1)
    """Soft score from which the task counts as solved."""


class JsonScorer(AnswerScorer):
    """The answer is JSON that equals a reference, or satisfies a JSON Schema."""

    type: Literal["json"]
    schema_: dict[str, object] | None = Field(default=None, alias="schema")
    """JSON Schema to satisfy; without one the answer must equal a reference."""

    @field_validator("schema_")
    @classmethod
    def _is_json_schema(cls, value: dict[str, object] | None) -> dict[str, object] | None:
        import jsonschema_rs  # noqa: PLC0415 - only a configuration with a schema pays for it

        try:
            jsonschema_rs.meta.validate(value or {})
        except jsonschema_rs.ValidationError as error:
            raise ValueError(f"not a JSON Schema: {error.message}") from error
        except jsonschema_rs.ReferencingError as error:
            raise ValueError(f"not a JSON Schema: {error}") from error
        return value


class CommandScorer(AnswerScorer):
    """A command of the repository grades the response, which it finds in files and on stdin."""

    type: Literal["command"]
    command: tuple[Argument, ...] = Field(min_length=1)
    """Program and arguments; never a shell line. `{answer}`, `{task}` and `{dir}` name files."""
    score: Literal["exit_status", "stdout"] = "exit_status"
    """Exit status 0 means right; `stdout`: its last line is a number from 0 to 1."""
    hard_at: float = Field(default=1.0, ge=0, le=1)
    """Soft score from which the task counts as solved."""
    error_status: tuple[int, ...] = (126, 127)
    """Exit statuses that mean the grader itself failed. If it works on an empty submission, the
    work made it fail, and scores 0."""
    timeout: float = Field(default=60.0, gt=0)
    """Seconds."""
    env: tuple[str, ...] = ()
    """Names of environment variables that the command may see besides PATH, HOME and LANG."""


class PythonScorer(AnswerScorer):
    """A Python function `(task: dict, answer: str) -> float | bool | dict` of the repository."""

    type: Literal["python"]
    entry: str = Field(pattern=r"^[\w./-]+:[A-Za-z_]\w*$")
    """`package.module:function` or `path/to/file.py:function`."""
    hard_at: float = Field(default=1.0, ge=0, le=1)
    """Soft score from which the task counts as solved."""
    timeout: float = Field(default=60.0, gt=0)
    """Seconds."""


class RubricScorer(AnswerScorer):
    """A model grades the answer against a rubric."""

    type: Literal["rubric"]
    rubric: str = ""
    """What a good answer does; empty: the task's references are the rubric."""
    hard_at: float = Field(default=0.8, ge=0, le=1)
    """Soft score from which the task counts as solved."""


class JUnitReport(Section):
    """A command that leaves a test report behind."""

    command: Command
    """Program and arguments; a plain text is run by `sh -c`. Its exit status does not matter."""
    file: str = Field(default="report.xml", min_length=1)
    """The report, in JUnit's XML, relative to the workspace."""


class ComputerScorer(Section):
    """What an agent left behind is graded by commands in a fresh computer.

    The artifacts are loaded into its workspace, then the grader's own files laid over them: none
    of these can have been replaced before grading begins; then `setup` and the command run. Code of
    the work that they run can change what they do. With `run_work` they run none.
    """

    type: Literal["computer"]
    command: Command | None = None
    """Program and arguments; a plain text is run by `sh -c`. Give this or `report`."""
    report: JUnitReport | None = None
    """Soft is the share of its tests that passed; solved when all did and there was one."""
    files: dict[str, str] = Field(default_factory=dict)
    """The grader's files: paths in the workspace and their text."""
    folder: FileName | None = None
    """A folder of the repository, relative to the configuration's, whose files are the grader's."""
    run_work: tuple[Command, ...] | None = None
    """Commands that run the work, on a computer without the grader. Grading then has the workspace
    to itself, and finds the artifacts and what these commands left, as data, in its folder `work`.
    """
    setup: tuple[Command, ...] = ()
    """Commands that prepare the grading."""
    score: Literal["exit", "last_line"] = "exit"
    """Exit status 0 means solved; `last_line`: the last line printed is a number from 0 to 1."""
    hard_at: float = Field(default=1.0, ge=0, le=1)
    """Soft score from which the task counts as solved, with `last_line`."""
    error_status: tuple[int, ...] = (126, 127)
    """Exit statuses that mean the grader itself failed. If it works on an empty submission, the
    work made it fail, and scores 0."""
    on_timeout: Literal["failure", "error"] = "failure"
    """What it means that the command exceeds `grading_seconds`: work that never ends, or a grader
    at fault, which leaves such work without a score."""
    same_computer: bool = False
    """Grade on the agent's own computer, in the state in which it left it; whoever can change the
    grader's programs there can change the score."""

    @model_validator(mode="after")
    def _one_way(self) -> "ComputerScorer":
        if (self.command is None) == (self.report is None):
            raise ValueError("give `command` or `report`, and not both")
        if self.same_computer and self.run_work is not None:
            raise ValueError("with `same_computer`, `run_work` has no computer of its own")
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        # Left out where it is not used: hashes of older configurations and tasks stay.
        fields: dict[str, object] = dump(self)
        if self.run_work is None:
            fields.pop("run_work", None)
        return fields

    @field_validator("files")
    @classmethod
    def _inside_the_workspace(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name.startswith("/") or not name or ".." in name.split("/"):
                raise ValueError(f"{name!r} is not a path inside the workspace")
        return value


class Combination(Section):
    """Common to scorers that ask other scorers."""

    type: str
    of: tuple["ScorerSpec", ...] = Field(min_length=1)
    """The parts."""


class AllScorer(Combination):
    """Hard when every part is; soft is the mean."""

    type: Literal["all"]


class AnyScorer(Combination):
    """Hard when some part is; soft is the maximum."""

    type: Literal["any"]


class WeightedScorer(Combination):
    """Soft is the weighted mean of the parts' soft scores; hard from `hard_at` on."""

    type: Literal["weighted"]
    weights: tuple[Annotated[float, Field(ge=0)], ...]
    """A weight for each part, in the same order; only their proportions matter."""
    hard_at: float = Field(default=1.0, ge=0, le=1)
    """Soft score from which the task counts as solved."""

    @model_validator(mode="after")
    def _one_weight_each(self) -> "WeightedScorer":
        if len(self.weights) != len(self.of):
            raise ValueError(f"{len(self.of)} scorers but {len(self.weights)} weights")
        if not sum(self.weights) > 0:
            raise ValueError("at least one weight must be above 0")
        return self


ScorerSpec = Annotated[
    ExactScorer
    | NormalizedScorer
    | F1Scorer
    | ContainsScorer
    | RegexScorer
    | NumberScorer
    | ChoiceScorer
    | AnlsScorer
    | JsonScorer
    | CommandScorer
    | PythonScorer
    | RubricScorer
    | ComputerScorer
    | AllScorer
    | AnyScorer
    | WeightedScorer,
    Field(discriminator="type"),
]

for _combination in (Combination, AllScorer, AnyScorer, WeightedScorer):
    _combination.model_rebuild()
