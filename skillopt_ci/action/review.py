"""A person's change of the skill, measured: the skill at base against the skill at head.

Configuration, tasks, scorers and code are those of the checkout, which is base. Of the pull
request only the skill's text is read, over the API and as data; nothing of it is checked out.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from skillopt_ci.action.event import Evaluate, requested
from skillopt_ci.action.job import Shown
from skillopt_ci.action.outputs import fold
from skillopt_ci.cli.build import load_configured, open_session, unconfined_programs
from skillopt_ci.cli.comment import links_of, task_places
from skillopt_ci.cli.evaluate import evaluation_json
from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.progress import build_observer
from skillopt_ci.errors import (
    BudgetExhausted,
    ExitCode,
    InfrastructureError,
    RepositoryError,
    SkilloptError,
    UsageError,
)
from skillopt_ci.github.checks import keep_check
from skillopt_ci.github.client import Client
from skillopt_ci.github.comments import keep_comment
from skillopt_ci.github.pull_requests import file_at, get_pull_request
from skillopt_ci.ledger.inspect import resolve
from skillopt_ci.report.evaluation import EvaluationView, Side, evaluation_check, evaluation_comment
from skillopt_ci.report.words import Finding, judge
from skillopt_ci.training.offline_eval import Evaluation, NamedSkill, evaluate
from skillopt_ci.training.run_context import Session

_SPLIT = "selection"
#: A longer document is no skill, and each of its bytes would be paid for once per task.
_MOST_BYTES = 500_000


@dataclass(frozen=True, slots=True)
class PullReviewer:
    """Reviews pull requests through ``client``."""

    client: Client

    def requested(self, comment: str) -> str:
        """Return the word after `/skillopt` in a comment; empty if it holds no command."""
        return requested(comment)

    def evaluate(self, settings: Globals, pull: Evaluate) -> Shown:
        """Compare base with head on the selection tasks, and show it as a comment and a check.

        A budget's end and failed infrastructure are shown as no finding. Raises UsageError where
        the checkout cannot be evaluated at all.
        """
        head = pull.head_sha or get_pull_request(self.client, pull.number).head_sha
        with build_observer(settings) as observer:
            session = open_session(settings, observer)
            _refuse_unconfined(session)
            compared = _compared(session, self.client, head)
        return self._shown(settings, session, pull.number, head, compared)

    def _shown(
        self, settings: Globals, session: Session, number: int, head: str, compared: "_Compared"
    ) -> Shown:
        view, links = compared.view, links_of(settings.environ)
        wishes, notes = session.config.github, list[str]()
        text = evaluation_comment(view, links)
        if wishes.comments != "off":
            _try(notes, lambda: keep_comment(self.client, number, text))
        loaded = load_configured(settings)
        check = evaluation_check(
            view,
            links,
            head,
            fail_on=wishes.fail_on,
            tasks=task_places(loaded, session.ledger.root),
        )
        _try(notes, lambda: keep_check(self.client, check))
        told = [] if compared.result is None else [evaluation_json(compared.result)]
        outputs = replace(fold(told), finding=str(view.finding))
        return Shown(text, number, tuple(notes), outputs, compared.exit_code)


def _refuse_unconfined(session: Session) -> None:
    """Let no program that somebody's change steers run where it could read our secrets.

    Raises UsageError unless the configuration accepts that.
    """
    config, splits = session.config, session.splits
    tasks = (*splits.train, *splits.selection, *splits.test)
    _, left = unconfined_programs(config, tasks, session.environment)
    if left and not config.rollout.programs_can_read_secrets:
        raise UsageError(
            "a change of the skill is not evaluated where programs that it steers could read this "
            f"job's keys and token: {'; '.join(left)}",
            hint="Use the Docker action or a Linux runner with bubblewrap (apt-get install "
            "bubblewrap). If everybody whose change is evaluated may read them, set "
            "`rollout.programs_can_read_secrets: true`.",
        )


@dataclass(frozen=True, slots=True)
class _Compared:
    """What a comparison came to; without a result the view says why."""

    view: EvaluationView
    result: Evaluation | None = None
    exit_code: int = ExitCode.DONE


def _compared(session: Session, client: Client, head: str) -> _Compared:
    nothing = EvaluationView(
        run=session.config.run,
        skill=session.skill_path,
        split=_SPLIT,
        finding=Finding.INCONCLUSIVE,
        confidence=session.config.github.confidence,
        simulated=session.simulated,
    )
    base = resolve(session.ledger, "HEAD")
    before = None if base is None else session.ledger.read(base, session.skill_path)
    if base is None or before is None:
        raise RepositoryError(f"{session.skill_path} is not in the commit that is checked out.")
    after = _text(file_at(client, session.skill_path, head))
    if after is None:
        why = f"at head, {session.skill_path} is no readable text of at most {_MOST_BYTES:,} bytes"
        return _Compared(replace(nothing, why=why))
    skills = (NamedSkill("base", before), NamedSkill("head", after))
    try:
        result = asyncio.run(evaluate(session, skills, _SPLIT))
    except (BudgetExhausted, InfrastructureError) as failure:
        return _Compared(replace(nothing, why=failure.message), exit_code=failure.exit_code)
    return _Compared(_found(nothing, result, base, head, session), result)


def _found(
    nothing: EvaluationView, result: Evaluation, base: str, head: str, session: Session
) -> EvaluationView:
    wishes, difference = session.config.github, result.difference
    finding = Finding.INCONCLUSIVE
    if difference is not None:
        finding = judge(difference, confidence=wishes.confidence, threshold=wishes.threshold)
    before, after = result.skills
    return replace(
        nothing,
        finding=finding,
        base=Side(base, before.measurement),
        head=Side(head, after.measurement),
        difference=difference,
        usage=result.usage,
    )


def _text(content: bytes | None) -> str | None:
    if content is None or len(content) > _MOST_BYTES:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _try(notes: list[str], ask: Callable[[], object]) -> None:
    try:
        ask()
    except SkilloptError as error:
        notes.append(str(error))
