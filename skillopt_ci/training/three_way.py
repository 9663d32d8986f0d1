"""The test at the end of a run: initial, best and last skill on tasks that training never used."""

from collections.abc import Mapping, Sequence

from skillopt_ci.aio import map_ordered
from skillopt_ci.ledger.records import DifferenceRecord, FinalSkill, Measurement, Summary, TypeScore
from skillopt_ci.rollout.metrics import paired
from skillopt_ci.skill.document import sha256
from skillopt_ci.stats import wilson
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.evaluate import by_type
from skillopt_ci.training.fingerprint import grader_folders, measurement_fingerprint
from skillopt_ci.training.measure import measure
from skillopt_ci.training.session import Bench, Session


def tested_under(session: Session) -> str:
    """Fingerprint of what test scores depend on besides the skill; empty if nothing is tested."""
    if not (session.test and session.config.evaluation.eval_test):
        return ""
    graders = grader_folders(session.config, session.test, session.root)
    return measurement_fingerprint(
        session.config, session.test, session.prompts, session.rollout_facts, graders
    )


def tests_known(earlier: Summary | None, under: str) -> dict[str, Measurement]:
    """The test scores of an earlier end of the run, by skill, if they still compare."""
    if earlier is None or earlier.tested_under != under:
        return {}
    return {one.sha256: one.test for one in earlier.tested if one.test is not None}


async def try_out(
    session: Session, texts: Mapping[str, str], known: Mapping[str, Measurement], bench: Bench
) -> dict[str, Measurement]:
    """Measure the named ``texts`` at once, each only once however many names it has.

    The result is by the texts' hashes and has what is ``known`` already.
    """
    missing = {sha256(text): (name, text) for name, text in reversed([*texts.items()])}

    async def one(item: tuple[str, str]) -> Measurement:
        return await measure(
            item[1],
            session.test,
            runner=bench.runner,
            evaluation=session.config.evaluation,
            observer=session.observer,
            stage=f"test {item[0]}",
        )

    todo = {key: item for key, item in missing.items() if key not in known}
    measured = await map_ordered(one, todo.values(), limit=len(texts))
    return {**known, **dict(zip(todo, measured, strict=True))}


def with_test(
    skill: FinalSkill, tests: Mapping[str, Measurement], tasks: Sequence[Task]
) -> FinalSkill:
    """``skill`` with its test score, if it has one."""
    test = tests.get(skill.sha256)
    if test is None:
        return skill
    interval = wilson(test.hard, test.n)
    types = by_type(tasks, test)
    return skill.model_copy(
        update={
            "test": test,
            "interval": (interval.low, interval.high),
            "by_type": {kind: TypeScore(hard=mean, n=n) for kind, (mean, n) in types.items()},
        }
    )


def gain(initial: FinalSkill, other: FinalSkill) -> DifferenceRecord | None:
    """How much better ``other`` did on the test than the initial skill, task by task."""
    if initial.test is None or other.test is None:
        return None
    found = paired(_hard(initial.test), _hard(other.test))
    return DifferenceRecord(
        mean=found.mean,
        standard_error=found.standard_error,
        n=found.n,
        fixed=found.fixed,
        broken=found.broken,
    )


def _hard(measurement: Measurement) -> dict[str, float]:
    return {task: hard for task, (hard, _) in measurement.tasks.items()}
