"""A program that prints its answer and nothing else."""

from skillopt_ci.rollout.solvers.streams.account import Account, Scribe


def read_plain(output: str) -> Account:
    """Take all of ``output`` for the answer."""
    scribe = Scribe()
    if output.strip():
        scribe.say(output.strip())
    return scribe.finished()
