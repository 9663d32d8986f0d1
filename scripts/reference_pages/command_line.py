"""Every command with its arguments and options, from the commands themselves."""

import inspect
from collections.abc import Iterator

import click

from reference_pages.glossary import meaning
from reference_pages.markdown import prose, table
from skillopt_ci.cli.main import cli

_HEAD = """\
# Command line

Options that every command takes may stand before its name or after it. Without `--config`, the
nearest `skillopt.yaml` counts, here or in a folder above, up to the repository's top.

## Shell completion

Commands and options complete with the Tab key once your shell reads one line at its start:

- bash, in `~/.bashrc`: `eval "$(_SKILLOPT_CI_COMPLETE=bash_source skillopt-ci)"`
- zsh, in `~/.zshrc`: `eval "$(_SKILLOPT_CI_COMPLETE=zsh_source skillopt-ci)"`
- fish, in `~/.config/fish/config.fish`: `_SKILLOPT_CI_COMPLETE=fish_source skillopt-ci | source`

"""


def page() -> str:
    """The page: the options of all commands, then a part for each command."""
    with click.Context(cli, info_name="skillopt-ci") as context:
        shared: set[str | None] = {option.name for option in cli.params}
        parts = ["## Options of every command\n\n" + _options(cli.params, context, "")]
        parts += [_part(command, sub, shared) for command, sub in _commands(cli, context)]
    return _HEAD + "\n".join(parts)


def _commands(
    group: click.Group, context: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    """Each command with its context; those of a group follow it."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            raise ValueError(f"{name} is listed, but there is no such command")
        inner = click.Context(command, info_name=name, parent=context)
        yield command, inner
        if isinstance(command, click.Group):
            yield from _commands(command, inner)


def _part(command: click.Command, context: click.Context, shared: set[str | None]) -> str:
    own = [option for option in command.params if option.name not in shared]
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    path = context.command_path.removeprefix("skillopt-ci ")
    text = prose(inspect.cleandoc(command.help or "").replace("\b", ""))
    fence = f"```text\n{usage}\n```\n"
    lines = [f"## {path}", text, fence + (f"\n{_options(own, context, path)}" if own else "")]
    return "\n\n".join(lines)


def _options(params: list[click.Parameter], context: click.Context, path: str) -> str:
    with context:
        records = filter(None, [param.get_help_record(context) for param in params])
        rows = [(f"`{names}`", prose(text or meaning(path, names))) for names, text in records]
    return table(("option", "meaning"), rows) if rows else ""
