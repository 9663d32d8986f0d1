"""The script for an order, under any subset of the house's conventions."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from skillopt_ci.model.simulated.shell.house_style import SHELL_CONVENTIONS
from skillopt_ci.model.simulated.shell.order import Order

HOUSE_STYLE = frozenset(convention.name for convention in SHELL_CONVENTIONS)


@dataclass(frozen=True, slots=True)
class Script:
    """A script as a file; ``path`` is relative to the workspace."""

    path: str
    content: str
    executable: bool


def exercised(order: Order) -> tuple[str, ...]:
    """Return the names of the conventions that show in this order's script, in house order."""
    return tuple(convention.name for convention in SHELL_CONVENTIONS if convention.applies(order))


def script_for(order: Order, followed: AbstractSet[str]) -> Script:
    """Return the script that someone writes who follows just these conventions."""
    name = order.job.replace(" ", "-" if "dashes" in followed else "_")
    folder = order.folder or ("jobs" if "place" in followed else "")
    path = f"{folder}/{name}.sh" if folder else f"{name}.sh"
    content = "".join(f"{line}\n" for line in _lines(order, followed, name))
    return Script(path, content, order.direct and "executable" in followed)


def _lines(order: Order, followed: AbstractSet[str], name: str) -> Iterator[str]:
    yield "#!/bin/sh" if "shebang" in followed else "#!/usr/bin/env bash"
    if order.careful and "strict" in followed:
        yield "set -eu"
    if order.owner:
        yield f"# Owner: {order.owner}" if "owner" in followed else "# A job of the office."
    if "locale" in followed and "distinct" in order.action:
        yield "export LC_ALL=C"
    if order.needed:
        yield f"[ -f {order.source} ] || exit {3 if 'missing' in followed else 1}"
    if order.message:
        yield f"echo '{order.message}'" + (" >&2" if "progress" in followed else "")
    if order.kept and "result" in followed:
        yield "mkdir -p out"
        yield f"{order.command} > out/{name}.txt"
    else:
        yield order.command
