"""The house style for job scripts of a made-up office.

As for the ledger, ``rules`` are what a competent editor writes into a skill and ``harmful`` what a
careless one does; the patterns recognise a rule whoever words it. ``failure`` is what the checker
of the tasks says.
"""

import re

from skillopt_ci.model.simulated.convention import Convention
from skillopt_ci.model.simulated.shell.order import Order


def _says(*parts: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(part, re.IGNORECASE) for part in parts)


_MISSING = r"\bmiss(?:es|ing)?\b|\babsent\b|without (?:its|an) input"

SHELL_CONVENTIONS: tuple[Convention[Order], ...] = (
    Convention(
        name="shebang",
        failure="the first line is no plain /bin/sh",
        applies=lambda _: True,
        rules=(
            "Begin every script with the line `#!/bin/sh`.",
            "The first line of a script is `#!/bin/sh`.",
        ),
        harmful="Begin scripts with `#!/bin/bash`: it knows more.",
        in_favour=_says(r"#!/bin/sh\b|\bshebang\b.*/bin/sh\b"),
        in_conflict=_says(r"#!\S*bash|\bshebang\b.*\bbash"),
    ),
    Convention(
        name="place",
        failure="the script stands in the wrong folder",
        applies=lambda order: not order.folder,
        rules=(
            "Put scripts into the folder `jobs/` unless the order names another.",
            "A script stands in `jobs/` where the order names no folder.",
        ),
        harmful="Keep scripts in the top folder, where people find them.",
        in_favour=_says(r"\bscripts?\b", r"\bjobs/|folder `?jobs\b"),
        in_conflict=_says(r"\bscripts?\b", r"top (?:folder|level)|root folder|current folder"),
    ),
    Convention(
        name="dashes",
        failure="the words of the file name are not joined by dashes",
        applies=lambda order: " " in order.job,
        rules=(
            "Join the words of a script's file name with dashes.",
            "A script's file name has dashes between its words: `tidy-logs.sh`.",
        ),
        harmful="Join the words of a script's file name with underscores.",
        in_favour=_says(r"\b(?:scripts?|files?|jobs?)\b", r"\bnam", r"\bdash|hyphen|kebab"),
        in_conflict=_says(r"\b(?:scripts?|files?|jobs?)\b", r"\bnam", r"underscore|snake|camel"),
    ),
    Convention(
        name="strict",
        failure="the second line does not make it strict",
        applies=lambda order: order.careful,
        rules=(
            "The second line of a script that must end at the first error is `set -eu`.",
            "Write `set -eu` directly below the first line of a careful script.",
        ),
        harmful="Leave `set` options out of scripts: they end at every trifle.",
        in_favour=_says(r"\bset -eu\b"),
        in_conflict=_says(r"`set` option|\bset options", r"leave|omit|without|drop"),
    ),
    Convention(
        name="owner",
        failure="no comment names the owner",
        applies=lambda order: bool(order.owner),
        rules=(
            "Name the owner in a comment line: `# Owner: Ann Example`.",
            "A comment of the form `# Owner: Ann Example` says whose script it is.",
        ),
        harmful="Leave owners out of scripts, since people change.",
        in_favour=_says(r"\bowner", r"# ?owner:|\bcomment"),
        in_conflict=_says(r"\bowner", r"leave|omit|without|drop"),
    ),
    Convention(
        name="locale",
        failure="sorting depends on the locale",
        applies=lambda order: "distinct" in order.action,
        rules=(
            "A script that lists distinct lines sets `LC_ALL=C` before it sorts.",
            "Put `export LC_ALL=C` into every script that sorts.",
        ),
        harmful="Leave the locale of scripts to whoever calls them.",
        in_favour=_says(r"\bLC_ALL=C\b"),
        in_conflict=_says(r"\blocale|\bLC_ALL", r"leave|omit|without|drop"),
    ),
    Convention(
        name="progress",
        failure="messages are not on standard error",
        applies=lambda order: bool(order.message),
        rules=(
            "Send a script's messages to standard error (`>&2`).",
            "What a script announces goes to standard error, so that its output stays clean.",
        ),
        harmful="Print a script's messages to standard output, where people see them.",
        in_favour=_says(r"\bmessage|\bannounce|\bsays?\b", r"standard error|stderr|>&2"),
        in_conflict=_says(r"\bmessage|\bannounce|\bsays?\b", r"standard output|stdout"),
    ),
    Convention(
        name="result",
        failure="the result is not kept in its file",
        applies=lambda order: order.kept,
        rules=(
            "Write a result that is kept to `out/`, in a text file named like the script.",
            "Kept results go to `out/`: the script `tidy-logs.sh` writes `out/tidy-logs.txt`.",
        ),
        harmful="Print a result that is kept; whoever calls the script can redirect it.",
        in_favour=_says(r"\bresults?\b", r"\bout/"),
        in_conflict=_says(r"\bresults?\b", r"\bprint|redirect"),
    ),
    Convention(
        name="missing",
        failure="a missing input does not give exit status 3",
        applies=lambda order: order.needed,
        rules=(
            "A script that misses its input ends with exit status 3.",
            "Exit with status 3 when the input file of a script is missing.",
        ),
        harmful="End a script whose input is missing with exit status 1, like any program.",
        in_favour=_says(r"\bexit|\bstatus", r"\b3\b", _MISSING),
        in_conflict=_says(r"\bexit|\bstatus", r"\b1\b", _MISSING),
    ),
    Convention(
        name="executable",
        failure="the script is not executable",
        applies=lambda order: order.direct,
        rules=(
            "Make a script that is called directly executable (`chmod +x`).",
            "Set the executable bit of every script that is called directly.",
        ),
        harmful="Leave scripts without the executable bit: they run through sh anyway.",
        in_favour=_says(r"\bexecutable|\bchmod"),
        in_conflict=_says(r"\bexecutable|\bchmod", r"leave|without|remove|drop"),
    ),
)
