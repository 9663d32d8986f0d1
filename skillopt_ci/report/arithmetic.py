"""The gate's arithmetic in words: what was compared, how sure that is, what it took."""

from collections.abc import Iterator

from skillopt_ci.ledger.records import Decision, GateRecord, ProposalRecord, RaceRecord
from skillopt_ci.report.figures import plural, score, score_text
from skillopt_ci.sanitize import one_line

_ENDS = {
    "certain": "no outcome of the rest could have changed the verdict",
    "futile": "a gain was unlikely to be shown",
    "convinced": "the gain was sure enough",
}


def after_text(decision: Decision) -> str:
    """The candidate's score: with its interval, or called an estimate where it is one."""
    measured = decision.measurement
    if measured is None:
        return "not measured"
    if measured.partial:
        return f"{score(decision.score_after)} (estimate: {tasks_text(decision)} measured)"
    return score_text(measured.score, measured.n)


def tasks_text(decision: Decision) -> str:
    """The tasks that both sides were measured on: ``40 tasks``, or ``16 of 40 tasks``."""
    measured = decision.measurement
    if measured is None or not measured.partial:
        return plural(decision.compared, "task")
    return f"{decision.compared} of {plural(measured.planned, 'task')}"


def arithmetic(decision: Decision) -> str:
    """How the verdict was reached, in sentences; empty for records that do not say."""
    gate = decision.gate
    return "" if gate is None else " ".join(_sentences(gate))


def _sentences(gate: GateRecord) -> Iterator[str]:
    error = "" if gate.standard_error is None else f" ± {gate.standard_error:.3f}"
    over = f"{gate.compared} of {plural(gate.planned, 'task')}"
    yield f"Policy {policy_text(gate)}: {gate.difference:+.3f}{error} (standard error) over {over}."
    if gate.p_value is not None and gate.alpha is not None:
        beyond = f" beyond {gate.margin:g}" if gate.margin else ""
        yield f"Chance alone does so with p = {gate.p_value:.3f}{beyond}; {gate.alpha:.3g} is sure."
    yield from _effort(gate)
    if gate.losses:
        lost = ", ".join(f"{one_line(kind, 40)} -{loss:.3f}" for kind, loss in gate.losses.items())
        yield f"Types of task that lost too much: {lost}."


def policy_text(gate: GateRecord) -> str:
    """The gate's policy, with its confidence where it has one."""
    if gate.confidence is None:
        return gate.policy
    return f"{gate.policy} at {gate.confidence:.0%} confidence"


def gate_end(gate: GateRecord) -> str:
    """Why measuring ended before all was measured; empty if it did not."""
    return _ENDS.get(gate.end, "")


def _effort(gate: GateRecord) -> Iterator[str]:
    if not gate.candidate_attempts:
        yield "No attempt was needed."
    else:
        fresh = ""
        if gate.current_attempts:
            fresh = f" and {gate.current_attempts} under the current skill"
        saved = f", {gate.saved} saved: {gate_end(gate)}" if gate.saved else ""
        yield f"It took {plural(gate.candidate_attempts, 'attempt')}{fresh}{saved}."
    if gate.baseline_attempts:
        yield (
            f"{plural(gate.baseline_attempts, 'further attempt')} measured the accepted skill, "
            "for later comparisons."
        )


def race_text(proposal: ProposalRecord) -> str:
    """What became of the edits in their race; empty where there was none."""
    return "" if proposal.race is None else _race(proposal.race)


def _race(race: RaceRecord) -> str:
    arms = sum(len(heat.arms) for heat in race.heats)
    kept = sum(effect.kept for effect in race.effects)
    edits = plural(len(race.effects), "edit")
    if not arms:
        return f"{kept} of {edits} kept by what earlier steps had measured."
    effort = f"{plural(arms, 'subset')} in {plural(len(race.heats), 'heat')}"
    return f"{kept} of {edits} kept, raced as {effort} ({plural(race.attempts, 'attempt')})."
