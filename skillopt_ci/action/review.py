"""Evaluate a person's change of the skill, base against head.

Configuration, tasks, scorers and code are base's, the checkout; of head, only the skill's text is
read, as data from the API.
"""

import asyncio
import sys
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from skillopt_ci.action.event import Evaluate
from skillopt_ci.action.job import Job, JobOutcome
from skillopt_ci.action.outputs import Outputs
from skillopt_ci.cli import build
from skillopt_ci.cli.comment import links_of, task_places
from skillopt_ci.cli.console import ProgressDisplay
from skillopt_ci.errors import (
    BudgetExhausted,
    ExitCode,
    InfrastructureError,
    LostRace,
    SkilloptError,
    UsageError,
)
from skillopt_ci.github.checks import keep_check
from skillopt_ci.github.client import Client, Refused, noting
from skillopt_ci.github.comments import keep_comment
from skillopt_ci.github.pull_requests import file_at, merge_base
from skillopt_ci.github.types import NOT_EVALUATED, NOTHING_TO_DO, WantedCheck
from skillopt_ci.liveness import scratch_folder
from skillopt_ci.report.evaluation import (
    UNCHANGED,
    EvaluationView,
    Finding,
    evaluation_check,
    evaluation_comment,
    judge,
    unevaluated_check,
    untouched_comment,
)
from skillopt_ci.training.offline_eval import NamedSkill, evaluate_skills
from skillopt_ci.training.run_context import Run

#: A longer document is no skill, and every task would pay for all of its bytes.
_MOST_BYTES = 500_000


def review_pull_request(job: Job, client: Client, pull: Evaluate) -> JobOutcome:
    """Compare base with head on the selection tasks; publish a comment and a check.

    Raises UsageError if the checkout cannot be evaluated at all.
    """
    head, settings, links = pull.head_sha, job.settings, links_of(job.environ)
    with closing(ProgressDisplay(sys.stderr, settings)) as observer:
        run = build.open_run(settings, observer)  # all tasks, even if a budget plans fewer
        _refuse_unconfined(run)
        why = "base and head are not compared yet"
        running = unevaluated_check(run.config.run, head, None, why, links, again=pull.again)
        view, outputs, exit_code = _compare(run, client, running)
    options = run.config.github
    tasks = task_places(run.splits.all, run.ledger.git.folder)
    if view.why == UNCHANGED:
        report = untouched_comment(view.run, view.why, links)
        check = unevaluated_check(view.run, head, "success", view.why, links)
    else:
        report = evaluation_comment(view, links)
        check = evaluation_check(view, links, head, fail_on=options.fail_on, tasks=tasks)
        # a job that measured nothing takes no verdict back
        check = replace(check, yields=view.finding is Finding.INCONCLUSIVE, again=pull.again)
        outputs = replace(outputs, finding=str(view.finding))
    outcome = JobOutcome(replace(outputs, pull_request=str(pull.number)), report, exit_code)
    commented = pull.number if options.comments != "off" else None
    return publish(client, check, outcome, commented, report)


def publish(
    client: Client, check: WantedCheck, outcome: JobOutcome, commented: int | None, comment: str
) -> JobOutcome:
    """Post an evaluation's check, and on the pull request ``commented``, if any, its comment.

    Where an earlier verdict stays, so does its comment. If the check cannot be posted, the job
    fails: a merge may wait for it.
    """
    try:
        keep_check(client, check)
    except LostRace as stays:
        return replace(outcome, notes=(str(stays),))
    except SkilloptError as error:
        note = f"{error.sentences} Once it works, re-run this job: a merge may wait for the check."
        outcome = replace(outcome, exit_code=error.exit_code, notes=(note,))
    with noting(notes := list(outcome.notes)):
        if commented is not None:
            keep_comment(client, commented, comment, new=check.title != NOTHING_TO_DO)
    return replace(outcome, notes=tuple(notes))


def _skill_of(client: Client, path: str, head: str) -> tuple[str, str]:
    content = file_at(client, path, head)
    if content is None:
        return "", f"At head, {path} is missing. If the skill was renamed, merge despite this check"
    if len(content) > _MOST_BYTES:
        return "", f"At head, {path} has {len(content):,} bytes; a skill has up to {_MOST_BYTES:,}"
    try:
        return content.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        return "", f"At head, {path} is not UTF-8 text (byte {error.start})"


def _merged(client: Client, run: Run, base: str, before: str, head: str) -> tuple[str, str]:
    """The skill of ``head``, with what base has changed since head left it, as a merge keeps it.

    ``before`` is the skill of the commit ``base``. The second text says why there is no skill.
    """
    after, missing = _skill_of(client, run.skill_path, head)
    try:
        left = None if missing or after == before else merge_base(client, base, head)
    except Refused as refused:  # its diff takes too long, which another commit may change
        return "", f"Update the branch: {refused.message}"
    if left is None:
        return after, missing
    then, _ = _skill_of(client, run.skill_path, left)
    with scratch_folder("merge") as place:
        texts = {f"{place}/base": before, f"{place}/then": then, f"{place}/head": after}
        for file, text in texts.items():
            Path(file).write_bytes(text.encode())
        done = run.ledger.git.run("merge-file", "-p", *texts, most=255)
    # git does not merge what has a NUL character: for git, that is a binary file
    why = "has a NUL character" if "\0" in after else "conflicts with base: update the branch"
    return done.stdout.decode(), f"{run.skill_path} {why}" if done.status else ""


def _refuse_unconfined(run: Run) -> None:
    """Refuse to run programs that an untrusted change controls if they could read our secrets."""
    _, left = build.unconfined_programs(run.config, run.splits.all, run.environment)
    if left and not run.config.rollout.programs_can_read_secrets:
        raise UsageError(
            "a change to the skill is not evaluated where programs that it steers could read this "
            f"job's keys and token: {'; '.join(left)}",
            hint="Use the Docker action or a Linux runner with bubblewrap (apt-get install "
            "bubblewrap). If everybody whose change is evaluated may read them, set "
            "`rollout.programs_can_read_secrets: true`.",
        )


def _compare(run: Run, client: Client, running: WantedCheck) -> tuple[EvaluationView, Outputs, int]:
    """Compare base with head, on which ``running`` is posted before anything is paid for."""
    options = run.config.github
    view = EvaluationView(
        run=run.config.run,
        skill=run.skill_path,
        finding=Finding.INCONCLUSIVE,
        confidence=options.confidence,
        simulated=run.simulated,
    )
    base = run.ledger.git.run("rev-parse", "HEAD").text
    before = run.ledger.read(base, run.skill_path)
    if before is None:
        alone = replace(view, why=f"base has no {run.skill_path} to compare with")
        return alone, Outputs(), ExitCode.DONE
    after, missing = _merged(client, run, base, before, running.head_sha)
    if missing:
        gone = replace(view, finding=Finding.REGRESSION, why=missing)
        return gone, Outputs(improved="false"), ExitCode.DONE
    if after == before:
        return replace(view, why=UNCHANGED), Outputs(), ExitCode.DONE
    skills = (NamedSkill("base", before), NamedSkill("head", after))
    with suppress(LostRace):  # posted before we pay: it may be refused; an old verdict stays
        keep_check(client, running)
    try:
        result = asyncio.run(
            evaluate_skills(run, skills, "selection", baseline=options.baseline is not None)
        )
    except (BudgetExhausted, InfrastructureError) as failure:
        # here, since a secret is not found any more once it is escaped for Markdown
        return replace(view, why=run.redact(failure.message)), Outputs(), failure.exit_code
    except BaseException:
        ended = replace(running, title=f"{NOT_EVALUATED}: the job says why", conclusion="cancelled")
        with suppress(SkilloptError):
            keep_check(client, ended)
        raise
    old, new = (one.measurement for one in result.skills)
    difference = result.difference
    assert difference is not None  # noqa: S101 - it is left out for a single skill only
    view = replace(
        view,
        finding=judge(difference, confidence=options.confidence, threshold=options.threshold),
        sides=((base, old), (running.head_sha, new)),
        difference=difference,
        baseline=None if result.baseline is None else result.baseline.measurement,
        worth=result.worth,
        usage=result.usage,
    )
    outputs = Outputs.of(
        score_before=old.hard,
        score_after=new.hard,
        improved=difference.mean > 0,
        cost_usd=result.usage.cost_usd,
    )
    return view, outputs, ExitCode.DONE
