"""A command group that knows its commands by name and imports one only when it is asked for."""

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import click

from skillopt_ci.util import lasting_import


class Lazy(NamedTuple):
    """A command that is imported when it is asked for: ``package.module.attribute``, and its help.

    The help is one line, so that ``--help`` and a misspelt name cost no import.
    """

    place: str
    help: str


class LazyGroup(click.Group):
    """A group of commands by name; ``aliases`` maps further names to those."""

    def __init__(
        self,
        *args: Any,
        commands_by_name: Mapping[str, Lazy],
        aliases: Mapping[str, str] | None = None,
        **how: Any,
    ) -> None:
        super().__init__(*args, **how)
        self.lazy = commands_by_name
        self.aliases = dict(aliases or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands' names in the order of the table."""
        del ctx
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command called ``cmd_name``, if there is one."""
        del ctx
        name = self.aliases.get(cmd_name, cmd_name)
        if name not in self.lazy:
            return None
        module, _, attribute = self.lazy[name].place.rpartition(".")
        return cast("click.Command", getattr(lasting_import(module), attribute))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that ``args`` start with; a name that is not one gets the nearest."""
        known = {*self.lazy, *self.aliases}
        if args and args[0] not in known and not args[0].startswith("-"):
            nearest = difflib.get_close_matches(args[0], self.lazy, n=1)
            meant = f" Did you mean {nearest[0]}?" if nearest else ""
            ctx.fail(f"there is no command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self.lazy.items()])
