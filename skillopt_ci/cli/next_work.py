"""What is under way in a run, and what its next command will do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from skillopt_ci.training.trainer import Upcoming


@dataclass(frozen=True, slots=True)
class InFlight:
    """What was proposed and is not judged yet: a step, or the end of an epoch."""

    what: str
    commit: str


@dataclass(frozen=True, slots=True)
class NextWork:
    """What is known here of what comes next.

    ``flight`` is a candidate without a verdict; ``upcoming`` is None if configuration or tasks are
    not here; ``at_work``: a process of this machine trains the run in this clone now; ``edited``:
    the skill is not as training left it.
    """

    flight: InFlight | None = None
    upcoming: Upcoming | None = None
    at_work: bool = False
    edited: bool = False


def in_flight(commit: str, trailers: Mapping[str, str]) -> InFlight:
    """What the candidate ``commit`` with these ``trailers`` belongs to."""
    if "Skillopt-Epoch-End" in trailers:
        return InFlight(f"end of epoch {trailers.get('Skillopt-Epoch', '?')}", commit)
    return InFlight(f"step {trailers.get('Skillopt-Step', '?')}", commit)


def next_rows(work: NextWork) -> Iterator[tuple[str, str]]:
    """Rows for a person: what is under way, and what the next command will do."""
    if work.at_work:
        yield "at work", "another skillopt-ci is training this run in this clone now"
    if work.flight is not None:
        short = work.flight.commit[:10]
        yield "in flight", f"{work.flight.what}: its candidate {short} waits to be measured"
    first = "measure the skill again, which was changed by hand; then " if work.edited else ""
    if work.flight is not None:
        yield "next", f"{first}the verdict on it, by `step` or `run`"
    elif work.upcoming is not None:
        yield "next", first + _sentence(work.upcoming)


def next_json(work: NextWork) -> dict[str, object]:
    """The same for programs."""
    flight, coming = work.flight, work.upcoming
    return {
        "steps": None if coming is None else coming.total,
        "in_flight": None if flight is None else {"what": flight.what, "commit": flight.commit},
        "next": None if coming is None else "verdict" if flight is not None else coming.work,
        "epoch_end_due": None if coming is None else coming.epoch_end,
        "at_work": work.at_work,
    }


def _sentence(coming: Upcoming) -> str:
    step = "" if coming.step is None else f"step {coming.step} of {coming.total}"
    match coming.work:
        case "step" if coming.epoch_end is not None:
            end = f"the end of epoch {coming.epoch_end}"
            return f"{step}, by `step` or `run`; {end} is due, by `slow-update`"
        case "step":
            return f"{step}, by `step` or `run`"
        case "epoch_end":
            then = f", then {step}" if step else ""
            by = "`slow-update`" if coming.scheduled else "`step` or `run`"
            return f"the end of epoch {coming.epoch_end}{then}, by {by}"
        case "finish":
            return f"the tests and the summary, by `run` or `finish`; {_all_done(coming)}"
        case "nothing_to_learn":
            return "nothing: the skill solves every selection task before any training"
        case "done":
            return f"nothing: {_all_done(coming)}"


def _all_done(coming: Upcoming) -> str:
    return "the one step is done" if coming.total == 1 else f"all {coming.total} steps are done"
