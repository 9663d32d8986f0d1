"""The action's entry point: from the environment to outputs, a summary and an exit status."""

import os
import secrets
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from skillopt_ci.action import git_access
from skillopt_ci.action.event import CHANGED, Facts, GitHubEvent, Request, decide, read_event
from skillopt_ci.action.inputs import read_inputs
from skillopt_ci.action.job import Ended, Job, JobOutcome, announce, workspace_of
from skillopt_ci.action.outputs import UNPUBLISHED, JobLog, Outputs, append_outputs
from skillopt_ci.action.perform import perform, tell_failed
from skillopt_ci.cli.main import describe, terminate_is_interrupt
from skillopt_ci.confinement import close_process, keep_back, whole_environment
from skillopt_ci.github import pull_requests
from skillopt_ci.github.client import connect
from skillopt_ci.model.access import required_variables
from skillopt_ci.redaction import Redactor, can_be_hidden, named_secrets
from skillopt_ci.report.comment import marker
from skillopt_ci.report.markdown import inline, join
from skillopt_ci.util import allow_open_files


def main() -> int:
    log = JobLog(sys.stdout, secrets.token_hex)
    close_process()
    allow_open_files()
    environ = whole_environment()
    redact = Redactor(named_secrets(environ))
    try:
        with terminate_is_interrupt():
            workspace, inputs = workspace_of(environ), read_inputs(environ)
            token = [inputs.token, git_access.basic(inputs.token)] if inputs.token else []
            keys = dict(inputs.keys)
            for secret in (*token, *keys.values(), *filter(can_be_hidden, named_secrets(environ))):
                log.mask(secret)
            # The environment is the only way to reach every git process from here on.
            keep_back(
                git_access.git_environment(workspace, inputs.directory, inputs.token, environ)
            )
            redact.learn([inputs.token, *keys.values()])
            client = connect(environ, inputs.token, redact=redact) if token else None
            with git_access.owner_kept(workspace, os.geteuid()):
                return run(Job(workspace, inputs, log, whole_environment() | keys, client, redact))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - outermost layer
        failure = describe(error, ["action"], redact)
        announce(log, failure, error, Path(environ.get("GITHUB_WORKSPACE") or "."))
        told = Ended(failure.exit_code, failure=failure).told
        with suppress(OSError):  # it may be the very failure which was announced
            _tell_runner(environ, Outputs(result="failed"), told)
        return failure.exit_code


def run(job: Job) -> int:
    if (loaded := job.configured) is not None:
        for name in required_variables(loaded.config.model.roles):
            job.log.mask(job.environ.get(name, ""))
    event = read_event(job.environ["GITHUB_EVENT_NAME"], Path(job.environ["GITHUB_EVENT_PATH"]))
    try:
        outcome = perform(job, decide(event, job.inputs, gather(job, event)))
    except BaseException as error:
        if event.comment is not None:
            failure = describe(error, ["action"], job.redact)
            tell_failed(job, event.comment, Ended(failure.exit_code, failure=failure))
        raise
    _hand_over(job, outcome)
    return outcome.exit_code


def gather(job: Job, event: GitHubEvent) -> Facts:
    """Get the facts missing from ``event`` from GitHub and the configuration, but no others."""
    if event.comment is not None:
        return _of_comment(job, event.actor, event.comment)
    # without a checkout, nobody knows
    configured = job.settings.config_file.is_file() or not job.keep.parent.exists()
    labelled = event.action == "labeled" and event.label.casefold() == job.inputs.label.casefold()
    # other events of pull requests ask for nothing: a review, another label, a close
    if event.pull is None or not configured or not (labelled or event.action in CHANGED):
        return Facts(configured=configured)
    actor_may_write = labelled and job.client is not None and job.client.may_write(event.actor)
    if (loaded := job.configured) is None:
        return Facts(actor_may_write)
    missing = tuple(
        name for name in required_variables(loaded.config.asked_roles) if not job.environ.get(name)
    )
    number, head = event.pull.number, event.pull.head_sha
    changed = pull_requests.changed_paths(job.client, number, head) if job.client else None
    named = loaded.root / loaded.config.skill  # each part of it may be a link
    top = git_access.repositories(job.workspace, job.folder)[-1]
    paths = {os.path.relpath(path, top) for path in (named, *named.parents)}
    paths.add(os.path.relpath(named.resolve(), top.resolve()))
    skill_changed = changed is None or not changed.isdisjoint(paths)
    own = (f"skillopt/{loaded.config.run}", f"skillopt-candidate/{loaded.config.run}")
    return Facts(actor_may_write, missing, skill_changed, trained=event.pull.head_ref in own)


def _of_comment(job: Job, actor: str, comment: Request) -> Facts:
    if job.client is None or not job.client.may_write(actor):
        return Facts()
    pull = pull_requests.get_pull_request(job.client, comment.number)
    run = pull.head.ref.removeprefix("skillopt/")
    ours = not job.run or pull.head.ref == f"skillopt/{job.run}"
    # People's branches may begin like ours.
    if run != pull.head.ref and marker(run, "pull-request") in (pull.body or "") and not ours:
        return Facts(actor_may_write=True, of_other_run=True)
    return Facts(
        actor_may_write=True,
        head_then=pull_requests.head_before(job.client, pull, comment.created_at)
        if comment.request in ("eval", "apply")
        else None,
        into_default=pull.base.ref == pull.base.repo.default_branch,
        notes_read=ours and not pull_requests.is_from_fork(pull),
    )


def _hand_over(job: Job, outcome: JobOutcome) -> None:
    report, told = "", job.redact(outcome.report)
    # There is no `.git` folder without a repository, and another user's may be closed to us.
    if told and os.access(job.keep.parent, os.W_OK | os.X_OK):
        job.keep.mkdir(exist_ok=True)
        file = job.page.with_suffix(".md")
        file.write_text(told, encoding="utf-8")
        report = file.relative_to(job.workspace).as_posix()
    unpublished = (f"> [!WARNING]\n> **{UNPUBLISHED}:** {inline(n, 1_000)}" for n in outcome.notes)
    summary = join(outcome.ending, *unpublished, told)
    _tell_runner(job.environ, replace(outcome.outputs, report=report), summary)


def _tell_runner(environ: Mapping[str, str], outputs: Outputs, summary: str) -> None:
    if file := environ.get("GITHUB_OUTPUT"):
        append_outputs(Path(file), outputs.by_name(), secrets.token_hex)
    if summary and (file := environ.get("GITHUB_STEP_SUMMARY")):
        with Path(file).open("a", encoding="utf-8", newline="\n") as stream:
            stream.write(summary.rstrip("\n") + "\n")
