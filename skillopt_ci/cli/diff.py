"""``skillopt-ci diff``: what training changed in the skill."""

import json
import sys

import click

from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.diff_text import print_diff
from skillopt_ci.cli.reader import RunReader, open_reader
from skillopt_ci.cli.run_view import step_places
from skillopt_ci.cli.skill_source import find_skill
from skillopt_ci.errors import ExitCode, UsageError
from skillopt_ci.skill.diff import diff_rows, unified_diff
from skillopt_ci.skill.document import word_count
from skillopt_ci.training.offline_eval import NamedSkill

_MOST_DIGITS = 6


@click.command()
@click.argument("before", default="initial", metavar="[A]")
@click.argument("after", default="current", metavar="[B]")
@global_options
def command(settings: Globals, before: str, after: str) -> ExitCode:
    """Show what changed in the skill from A to B, word by word, read from git alone.

    A and B are `initial`, `current` or `best`, the number of a step (the skill as that step left
    it), a file, a git ref, or REF:path. Without them: from `initial` to `current`.
    """
    reader = open_reader(settings)
    old, new = (_version(reader, word, settings) for word in (before, after))
    if settings.json:
        click.echo(json.dumps(_as_json(old, new)))
    else:
        print_diff(old, new, sys.stdout, settings.environ)
    return ExitCode.DONE


def _version(reader: RunReader, word: str, settings: Globals) -> NamedSkill:
    if word.isdecimal() and len(word) <= _MOST_DIGITS:
        return _after_step(reader, int(word))
    return find_skill(reader, word, settings.cwd)


def _after_step(reader: RunReader, number: int) -> NamedSkill:
    """The skill as the step left it, merged or not."""
    reader.step(number)
    place = step_places(reader).get(("step", number))
    text = None if place is None else reader.ledger.read(place.verdict, reader.skill_path)
    if text is None:
        raise UsageError(
            f"Step {number} is not in the history of this clone any more (a squash merge?).",
            hint=f"`skillopt-ci show {number}` shows what it changed, from its record.",
        )
    return NamedSkill(f"step {number}", text)


def _as_json(old: NamedSkill, new: NamedSkill) -> dict[str, object]:
    kinds = [row.kind for row in diff_rows(old.text, new.text)]
    sides = {
        side: {"name": one.name, "sha256": one.sha256, "words": word_count(one.text)}
        for side, one in (("before", old), ("after", new))
    }
    return {
        **sides,
        "lines_removed": kinds.count("removed"),
        "lines_added": kinds.count("added"),
        "diff": unified_diff(old.text, new.text),
    }
