"""The exit codes, and the failures that end with each."""

from collections import defaultdict
from collections.abc import Iterator

from reference_pages.markdown import prose, table
from skillopt_ci.errors import ExitCode, SkilloptError

_HEAD = """\
# Exit codes

Every command ends with one of these. A message on standard error says what happened and what to
do. With `--json`, a JSON object on standard output has it too (`error`), with the `exit_code`.
The lists that `check`, `discover`, `init` and `new-env` print as JSON have neither.
[The action](../action.md#how-a-job-ends) turns the codes into the outcome of a job.

"""
#: What the codes mean that no failure stands for.
_OTHERS = {
    ExitCode.DONE: "Done: the step is recorded, merged and reverted alike.",
    ExitCode.DEFECT: "A defect of skillopt-ci, with a report to send.",
    ExitCode.NOTHING_TO_DO: "Nothing left to do.",
    ExitCode.INTERRUPTED: "Interrupted; the same command resumes from there.",
    ExitCode.CLOSED_PIPE: "Standard output was closed, as by `| head`; the record is not affected.",
}


def page() -> str:
    """The page: a row for each code."""
    causes: dict[ExitCode, list[type[SkilloptError]]] = defaultdict(list)
    for failure in _descendants(SkilloptError):
        causes[failure.exit_code].append(failure)
    rows = [(f"`{code.value}`", code.name, _meaning(code, causes[code])) for code in ExitCode]
    return _HEAD + table(("code", "name", "meaning"), rows)


def _meaning(code: ExitCode, failures: list[type[SkilloptError]]) -> str:
    if code in _OTHERS:
        return _OTHERS[code]
    return "<br>".join(prose(failure.__doc__ or "").replace("\n", " ") for failure in failures)


def _descendants(cls: type[SkilloptError]) -> Iterator[type[SkilloptError]]:
    for child in cls.__subclasses__():
        if child.__module__ == cls.__module__:
            yield child
            yield from _descendants(child)
