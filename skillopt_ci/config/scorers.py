"""How an answer is taken out of a response and graded: one model per scorer type."""

import unicodedata
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from skillopt_ci.config.base import Argument, FileName, PathInside, Section
from skillopt_ci.config.rollout import Command

AnswerFrom = Literal["tag", "last_line", "fence", "text"]


class AnswerScorer(Section):
    """Common to scorers that look at an answer inside the response."""

    answer: AnswerFrom = "text"
    """What to grade: the text in the last `<answer>` tag, the last non-empty line (before one that
    closes a formula or a fenced block), the last fenced block, or the whole response. Without a
    tag, the last line is graded; without a fenced block, the whole response."""
    tag: str = "answer"
    """Name of the tag for `answer: tag`."""


class ExactScorer(AnswerScorer):
    """The answer, trimmed, equals one of the references exactly."""

    type: Literal["exact"]


class NormalizedScorer(AnswerScorer):
    """Equal, ignoring case, punctuation, articles and extra spaces (SQuAD)."""

    type: Literal["normalized"]


class F1Scorer(AnswerScorer):
    """Soft: the best token F1 over the references. Hard: equal as with `normalized`."""

    type: Literal["f1"]


class ContainsScorer(AnswerScorer):
    """The answer contains all (or any) of the texts and none of the forbidden ones."""

    type: Literal["contains"]
    contains: tuple[str, ...] = ()
    """Texts the answer must contain; if empty, the task's references."""
    not_contains: tuple[str, ...] = ()
    """Texts the answer must not contain."""
    match: Literal["all", "any"] = "all"
    """Whether it must contain all of `contains`, or one."""
    ignore_case: bool = False
    """Ignore upper and lower case."""


class RegexScorer(AnswerScorer):
    """The answer matches a regular expression (or does not, with `negate`)."""

    type: Literal["regex"]
    pattern: str
    """Python regular expression, searched for anywhere in the answer."""
    ignore_case: bool = False
    """Ignore upper and lower case."""
    multiline: bool = False
    """`^` and `$` match at every line."""
    negate: bool = False
    """Right if the expression does not match."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        import regex  # type: ignore[import-untyped]  # noqa: PLC0415 - few configurations need it

        try:
            regex.compile(unicodedata.normalize("NFC", value))  # the form that answers get
        except regex.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return value


class NumberScorer(AnswerScorer):
    """The answer's last number equals a reference within a tolerance.

    `1,234`, `2 million` and `1.5万` are read as such, `1.234,5` and `0,5` with a decimal comma. If
    there is a `\\boxed{…}`, it counts. An answer that ends in a date, a range or another unclear
    number (`1.2.3`, `2^10`) is wrong."""

    type: Literal["number"]
    abs_tol: float = Field(default=0.0, ge=0)
    """Maximum difference."""
    rel_tol: float = Field(default=1e-9, ge=0)
    """Maximum difference, as a share of the larger number; either tolerance is enough."""


class ChoiceScorer(AnswerScorer):
    """Multiple choice: the answer is the reference's label, or the text of that choice.

    Either on its own, also as the last paragraph, or declared: in a line `Answer: …`, of which the
    last counts, or `So B is correct.` An answer that denies its choice (`B is wrong`), names two or
    puts the text of another beside a label is wrong."""

    type: Literal["choice"]
    choices: dict[str, str] = Field(default_factory=dict)
    """Labels and their texts; if empty, the task's `metadata.choices`."""


class AnlsScorer(AnswerScorer):
    """Average normalised Levenshtein similarity, as used for document question answering."""

    type: Literal["anls"]
    threshold: float = Field(default=0.5, ge=0, le=1)
    """Relative distance from which an answer scores 0."""
    hard_at: float = Field(default=0.999, ge=0, le=1)
    """Soft score from which the task counts as solved."""


class JsonScorer(AnswerScorer):
    """The answer is JSON that equals a reference, or is valid under a JSON Schema."""

    type: Literal["json"]
    schema_: dict[str, object] | None = Field(default=None, alias="schema")
    """JSON Schema; without one, the answer must equal a reference."""

    @field_validator("schema_")
    @classmethod
    def _is_json_schema(cls, value: dict[str, object] | None) -> dict[str, object] | None:
        import jsonschema_rs  # noqa: PLC0415 - only a configuration with a schema pays for it

        try:
            jsonschema_rs.meta.validate(value or {})
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
            raise ValueError(f"not a JSON Schema: {getattr(error, 'message', error)}") from error
        return value


class CommandScorer(AnswerScorer):
    """A program grades the answer."""

    type: Literal["command"]
    command: tuple[Argument, ...] = Field(min_length=1)
    """Program and arguments, run without a shell. `{answer}`, `{response}` and `{task}` are files
    in the folder `{dir}`; the response is also on standard input."""
    score: Literal["exit_status", "stdout"] = "exit_status"
    """`exit_status`: 0 means right; `stdout`: the last line is the score, from 0 to 1."""
    hard_at: float = Field(default=1.0, ge=0, le=1)
    """Soft score from which the task counts as solved."""
    error_status: tuple[int, ...] = (126, 127)
    """Exit statuses that mean the grader failed. If it can grade an empty submission, the work
    broke it and scores 0."""
    timeout: float = Field(default=60.0, gt=0)
    """Seconds."""
    env: tuple[str, ...] = ()
    """Environment variables the program may see besides PATH, HOME and LANG."""


class PythonScorer(AnswerScorer):
    """A Python function in the repository: `(task: dict, answer: str) -> float | bool | dict`."""

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
    """What a good answer does; if empty, the task's references."""
    hard_at: float = Field(default=0.8, ge=0, le=1)
    """Soft score from which the task counts as solved."""


class JUnitReport(Section):
    """A command that writes a test report."""

    command: Command
    """Program and arguments, or a text for `sh -c`. A status other than 0 counts as a failed
    test if the report has none."""
    file: str = Field(default="report.xml", min_length=1)
    """The report, in JUnit XML, relative to the workspace."""


class ComputerScorer(Section):
    """Commands on a fresh computer grade the files that an agent left.

    The artifacts are copied into its workspace, then the grader's own files over them, so none of
    those can have been replaced; then `setup` and the command run. If they run code from the work,
    that code can change the verdict. With `run_work` they need not run any.
    """

    type: Literal["computer"]
    command: Command | None = None
    """Program and arguments, or a text for `sh -c`. Set this or `report`."""
    report: JUnitReport | None = None
    """Soft: the share of its tests that passed. Solved: there was a test, and all passed."""
    files: dict[PathInside, str] = Field(default_factory=dict)
    """The grader's files: paths in the workspace, and their text. Those that begin with `#!` are
    executable, also in `folder`."""
    folder: FileName | None = None
    """A folder of the repository with the grader's files, relative to the configuration."""
    # Left out where it is not used: hashes of older configurations and tasks stay.
    run_work: tuple[Command, ...] | None = Field(None, exclude_if=lambda work: work is None)
    """Commands that run the work, on a computer without the grader. The grader's workspace then has
    only its own files, and the artifacts and these commands' results as data in `work`."""
    setup: tuple[Command, ...] = ()
    """Commands that prepare grading."""
    score: Literal["exit", "last_line"] = "exit"
    """`exit`: 0 means solved; `last_line`: the last line printed is the score, from 0 to 1."""
    hard_at: float = Field(default=1.0, ge=0, le=1)
    """With `last_line`: soft score from which the task counts as solved."""
    error_status: tuple[int, ...] = (126, 127)
    """Exit statuses that mean the grader failed, as do signals and the computer's limits. If it can
    grade an empty submission, the work broke it and scores 0."""
    on_timeout: Literal["failure", "error"] = "failure"
    """If the command exceeds `grading_seconds`: `failure` scores the work 0, `error` blames the
    grader and leaves the work without a score."""
    same_computer: bool = False
    """Grade on the agent's own computer, as the agent left it. An agent that can change programs
    there can change its score. Not in a combination with `command`, `python` or `rubric`."""

    @model_validator(mode="after")
    def _one_way(self) -> "ComputerScorer":
        if (self.command is None) == (self.report is None):
            raise ValueError("give `command` or `report`, and not both")
        if self.same_computer and self.run_work is not None:
            raise ValueError("with `same_computer`, `run_work` has no computer of its own")
        return self


class Combination(Section):
    """Common to scorers that combine other scorers."""

    type: str
    of: tuple["ScorerSpec", ...] = Field(min_length=1)
    """The parts."""


class AllScorer(Combination):
    """Hard: every part is. Soft: the mean."""

    type: Literal["all"]


class AnyScorer(Combination):
    """Hard: some part is. Soft: the maximum."""

    type: Literal["any"]


class WeightedScorer(Combination):
    """Soft: the weighted mean of the parts' soft scores. Hard: from `hard_at` on."""

    type: Literal["weighted"]
    weights: tuple[Annotated[float, Field(ge=0)], ...]
    """One weight per part, in the same order; only their ratios matter."""
    hard_at: float = Field(default=1.0, ge=0, le=1)
    """Soft score from which the task counts as solved."""

    @model_validator(mode="after")
    def _one_weight_each(self) -> "WeightedScorer":
        if len(self.weights) != len(self.of):
            raise ValueError(f"{len(self.of)} scorers but {len(self.weights)} weights")
        if not 0 < sum(self.weights) < float("inf"):
            raise ValueError("the sum of the weights must be above 0 and at most 1.8e308")
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


def parts_of(*specs: ScorerSpec | None) -> Iterator[ScorerSpec]:
    """The scorers in ``specs`` that grade: those that there are, and the parts of combinations."""
    for spec in specs:
        if isinstance(spec, Combination):
            yield from parts_of(*spec.of)
        elif spec is not None:
            yield spec
