"""A command group that knows its commands by name and imports one only when it is asked for."""

import difflib
from collections.abc import Mapping
from typing import Any, cast

import click

from skillopt_ci.lasting_import import lasting_import


class LazyGroup(click.Group):
    """A group whose commands live in ``<package>.<name>`` as ``command``, with ``_`` for ``-``.

    ``summaries`` maps each command's name to its one-line help, so that ``--help`` and a
    misspelt name cost no import. ``aliases`` maps further names to those.
    """

    def __init__(
        self,
        *args: Any,
        package: str,
        summaries: Mapping[str, str],
        aliases: Mapping[str, str] | None = None,
        **how: Any,
    ) -> None:
        super().__init__(*args, **how)
        self.package = package
        self.summaries = summaries
        self.aliases = dict(aliases or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands' names in the order of the table."""
        del ctx
        return list(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command called ``cmd_name``, if there is one."""
        del ctx
        name = self.aliases.get(cmd_name, cmd_name)
        if name not in self.summaries:
            return None
        module = lasting_import(f"{self.package}.{name.replace('-', '_')}")
        return cast("click.Command", module.command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that ``args`` start with; a name that is not one gets the nearest."""
        known = {*self.summaries, *self.aliases}
        if args and args[0] not in known and not args[0].startswith("-"):
            nearest = difflib.get_close_matches(args[0], self.summaries, n=1)
            meant = f" Did you mean {nearest[0]}?" if nearest else ""
            ctx.fail(f"there is no command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))
