"""Where the runner starts: from its environment to outputs, a summary and an exit status."""

import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from skillopt_ci.action import git_access
from skillopt_ci.action.event import decide, read_event
from skillopt_ci.action.event_context import configured, gather, model_keys
from skillopt_ci.action.git_access import owner_kept
from skillopt_ci.action.inputs import Inputs, read_inputs
from skillopt_ci.action.job import Job, announce
from skillopt_ci.action.outputs import JobLog, Outputs, Runner, append_outputs, append_summary
from skillopt_ci.action.perform import Outcome, perform
from skillopt_ci.action.publish import RunPublisher
from skillopt_ci.action.review import PullReviewer
from skillopt_ci.cli.build import learn_secrets
from skillopt_ci.cli.main import describe, secrets_of, terminate_is_interrupt
from skillopt_ci.confinement import close_process, keep_back, whole_environment
from skillopt_ci.git.process import Git
from skillopt_ci.github.client import Access, connect
from skillopt_ci.redaction import Redactor, named_secrets

REPORT = "report.md"

_new_token = partial(secrets.token_hex, 16)


def main() -> int:
    """Do what the event asks for; return the job's exit status."""
    log = JobLog(sys.stdout, _new_token)
    close_process()
    environ = whole_environment()
    try:
        with terminate_is_interrupt():
            runner, inputs = Runner.of(environ), read_inputs(environ)
            for secret in _secrets(inputs, environ):
                log.mask(secret)
            # For every git process from here on: there is no other way to reach them all.
            keep_back(git_environment(runner, inputs, environ))
            with owner_kept(runner.workspace, os.geteuid()):
                return run(_job(runner, inputs, log))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the outermost layer reports all
        failure = describe(error, ["action"], environ)
        announce(log, failure, error, Path(environ.get("GITHUB_WORKSPACE") or "."))
        return failure.exit_code


def run(job: Job) -> int:
    """Decide, perform, and hand everything to the runner; return the job's exit status."""
    loaded = configured(job)
    for name in () if loaded is None else model_keys(loaded.config):
        job.log.mask(job.environ.get(name, ""))
    if loaded is not None:
        learn_secrets(job.redact, loaded, job.environ)
    try:
        event = read_event(job.runner.event_name, job.runner.event_path)
        outcome = perform(job, decide(event, job.inputs, gather(job, event)))
    except BaseException:
        _hand_over(job, Outcome(Outputs(result="failed")))
        raise
    _hand_over(job, outcome)
    return outcome.exit_code


def git_environment(runner: Runner, inputs: Inputs, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with which git works in the workspace and may push."""
    folders = git_access.repositories(runner.workspace, runner.workspace / inputs.directory)
    settings = [
        *git_access.trust(folders),
        *git_access.authorize(runner.server_url, inputs.token),
    ]
    trusted = git_access.as_environment(settings, environ)
    if not Git(folders[-1], trusted).attempt("config", "--get", "user.email").text:
        settings += git_access.identify()
    return git_access.as_environment(settings, environ)


def _job(runner: Runner, inputs: Inputs, log: JobLog) -> Job:
    environ = whole_environment()
    redact = Redactor([inputs.token, *named_secrets(environ)])
    job = Job(runner, inputs, log, environ, redact=redact)
    if not inputs.token:
        return job
    access = Access(runner.repository, inputs.token, runner.api_url)
    client = connect(access, redact=redact)
    return replace(
        job, client=client, publisher=RunPublisher(client), reviewer=PullReviewer(client)
    )


def _secrets(inputs: Inputs, environ: Mapping[str, str]) -> list[str]:
    token = [inputs.token, git_access.basic(inputs.token)] if inputs.token else []
    return [*token, *secrets_of(environ)]


def _hand_over(job: Job, outcome: Outcome) -> None:
    report = _write_report(job, outcome.report) if outcome.report else ""
    if job.runner.output is not None:
        outputs = replace(outcome.outputs, report=report)
        append_outputs(job.runner.output, outputs.by_name(), _new_token)
    if job.runner.summary is not None and outcome.report:
        append_summary(job.runner.summary, outcome.report)


def _write_report(job: Job, report: str) -> str:
    """Leave the report and return its path relative to the workspace; nothing without a `.git`."""
    if not job.keep.parent.is_dir():
        return ""
    job.keep.mkdir(exist_ok=True)
    file = job.keep / REPORT
    file.write_text(report, encoding="utf-8")
    return file.relative_to(job.runner.workspace).as_posix()
