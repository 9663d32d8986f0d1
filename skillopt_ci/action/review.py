"""A person's change of the skill, measured: the skill at base against the skill at head.

Configuration, tasks, scorers and code are those of the checkout, which is base. Of the pull
request only the skill's text is read, over the API and as data; nothing of it is checked out.
"""

import asyncio
from dataclasses import replace

from skillopt_ci.action.event import Evaluate
from skillopt_ci.action.job import Job, Outcome
from skillopt_ci.action.outputs import Outputs
from skillopt_ci.cli.build import open_run, unconfined_programs
from skillopt_ci.cli.comment import links_of, noting, task_places
from skillopt_ci.cli.console import build_observer
from skillopt_ci.errors import (
    BudgetExhausted,
    ExitCode,
    InfrastructureError,
    RepositoryError,
    UsageError,
)
from skillopt_ci.github.checks import keep_check
from skillopt_ci.github.client import Client
from skillopt_ci.github.comments import keep_comment
from skillopt_ci.github.pull_requests import file_at
from skillopt_ci.ledger.inspect import resolve
from skillopt_ci.report.evaluation import (
    EvaluationView,
    Finding,
    evaluation_check,
    evaluation_comment,
    judge,
)
from skillopt_ci.training.offline_eval import NO_SKILL, NamedSkill, evaluate
from skillopt_ci.training.run_context import Run

_SPLIT = "selection"
#: A longer document is no skill, and each of its bytes would be paid for once per task.
_MOST_BYTES = 500_000


def review_pull_request(job: Job, client: Client, pull: Evaluate) -> Outcome:
    """Compare base with head on the selection tasks, and show it as a comment and a check.

    A budget's end and failed infrastructure are shown as no finding. Raises UsageError where the
    checkout cannot be evaluated at all.
    """
    head, settings = pull.head_sha, job.settings
    with build_observer(settings) as observer:
        run = open_run(settings, observer)
        _refuse_unconfined(run)
        after, missing = _skill_of(client, run.skill_path, head)
        view, outputs, exit_code = _compare(run, head, after, missing)
    links, wishes, notes = links_of(job.environ), run.config.github, list[str]()
    report = evaluation_comment(view, links)
    loaded = job.configured
    tasks = {} if loaded is None else task_places(loaded, run.ledger.root)
    check = evaluation_check(view, links, head, fail_on=wishes.fail_on, tasks=tasks)
    if wishes.comments != "off":
        with noting(notes):
            keep_comment(client, pull.number, report)
    with noting(notes):
        keep_check(client, check)
    outputs = replace(outputs, finding=str(view.finding), pull_request=str(pull.number))
    return Outcome(outputs, report, exit_code, tuple(notes))


def _skill_of(client: Client, path: str, head: str) -> tuple[str, str]:
    """The skill's text at head, and what is wrong with it: empty if nothing is."""
    content = file_at(client, path, head)
    if content is None:
        return "", f"The head of this pull request has no file {path}"
    if len(content) > _MOST_BYTES:
        return (
            "",
            f"At head, {path} has {len(content):,} bytes; a skill has {_MOST_BYTES:,} at most",
        )
    try:
        return content.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        return "", f"At head, {path} is not UTF-8 text (byte {error.start})"


def _refuse_unconfined(run: Run) -> None:
    """Let no program that somebody's change steers run where it could read our secrets.

    Raises UsageError unless the configuration accepts that.
    """
    config, splits = run.config, run.splits
    tasks = (*splits.train, *splits.selection, *splits.test)
    _, left = unconfined_programs(config, tasks, run.environment)
    if left and not config.rollout.programs_can_read_secrets:
        raise UsageError(
            "a change of the skill is not evaluated where programs that it steers could read this "
            f"job's keys and token: {'; '.join(left)}",
            hint="Use the Docker action or a Linux runner with bubblewrap (apt-get install "
            "bubblewrap). If everybody whose change is evaluated may read them, set "
            "`rollout.programs_can_read_secrets: true`.",
        )


def _compare(run: Run, head: str, after: str, missing: str) -> tuple[EvaluationView, Outputs, int]:
    """What the comparison of base with the text ``after`` found, and the exit code it ends with.

    ``missing`` says why head has no skill, if it has none: agents would be without it.
    """
    wishes = run.config.github
    view = EvaluationView(
        run=run.config.run,
        skill=run.skill_path,
        split=_SPLIT,
        finding=Finding.INCONCLUSIVE,
        confidence=wishes.confidence,
        simulated=run.simulated,
    )
    base = resolve(run.ledger, "HEAD")
    before = None if base is None else run.ledger.read(base, run.skill_path)
    if base is None or before is None:
        raise RepositoryError(f"{run.skill_path} is not in the commit that is checked out.")
    if missing:
        gone = replace(view, finding=Finding.REGRESSION, why=missing)
        return gone, Outputs(improved="false"), ExitCode.DONE
    skills = (NamedSkill("base", before), NamedSkill("head", after))
    try:
        result = asyncio.run(evaluate(run, skills, _SPLIT, NO_SKILL if wishes.baseline else None))
    except (BudgetExhausted, InfrastructureError) as failure:
        return replace(view, why=failure.message), Outputs(), failure.exit_code
    old, new = (one.measurement for one in result.skills)
    difference, finding = result.difference, Finding.INCONCLUSIVE
    if difference is not None:
        finding = judge(difference, confidence=wishes.confidence, threshold=wishes.threshold)
    view = replace(
        view,
        finding=finding,
        sides=((base, old), (head, new)),
        difference=difference,
        baseline=None if result.baseline is None else result.baseline.measurement,
        worth=result.worth,
        usage=result.usage,
    )
    outputs = Outputs.of(
        score_before=old.hard,
        score_after=new.hard,
        improved=None if difference is None else difference.mean > 0,
        cost_usd=result.usage.cost_usd,
    )
    return view, outputs, ExitCode.DONE
