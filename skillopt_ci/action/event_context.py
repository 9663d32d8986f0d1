"""Find out what an event's payload does not say, and only what the decision needs."""

from pathlib import Path

from skillopt_ci.action.event import Event, Facts
from skillopt_ci.action.job import Job
from skillopt_ci.cli.build import load_configured
from skillopt_ci.config.config import Config
from skillopt_ci.config.loading import Loaded
from skillopt_ci.errors import SkilloptError
from skillopt_ci.github.pull_requests import changed_paths
from skillopt_ci.model.keys import required_variable


def gather(job: Job, event: Event) -> Facts:
    """Ask GitHub and the configuration what ``event`` leaves open.

    Raises the errors of GitHub if it cannot tell who may write.
    """
    if event.name == "issue_comment" and event.comment is not None:
        request = job.reviewer.requested(event.comment.body) if job.reviewer else ""
        if not request:
            return Facts()
        return Facts(actor_may_write=_may_write(job, event.actor), request=request)
    if event.pull is None:
        return Facts()
    labelled = event.action == "labeled" and event.label == job.inputs.label
    return Facts(
        actor_may_write=labelled and _may_write(job, event.actor),
        keys_missing=_keys_missing(job),
        skill_changed=_skill_changed(job, event.pull.number),
    )


def model_keys(config: Config) -> tuple[str, ...]:
    """The variables that hold the models' keys."""
    models = config.model
    roles = [role for role in (models.target, models.optimizer, models.judge) if role is not None]
    names = (required_variable(role) for role in roles)
    return tuple(dict.fromkeys(name for name in names if name is not None))


def configured(job: Job) -> Loaded | None:
    """The configuration; None if it has errors, which the command that needs it will tell."""
    try:
        return load_configured(job.settings)
    except SkilloptError:
        return None


def _may_write(job: Job, login: str) -> bool:
    return job.client is not None and job.client.may_write(login)


def _keys_missing(job: Job) -> tuple[str, ...]:
    loaded = configured(job)
    if loaded is None:
        return ()
    return tuple(name for name in model_keys(loaded.config) if not job.environ.get(name))


def _skill_changed(job: Job, number: int) -> bool:
    loaded = configured(job)
    if loaded is None or job.client is None:
        return True
    skill = _inside(job.runner.workspace, loaded.root / loaded.config.skill)
    changed = changed_paths(job.client, number)
    return changed is None or skill in changed


def _inside(workspace: Path, file: Path) -> str | None:
    file, workspace = file.resolve(), workspace.resolve()
    return file.relative_to(workspace).as_posix() if file.is_relative_to(workspace) else None
