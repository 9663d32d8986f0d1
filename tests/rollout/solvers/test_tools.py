from __future__ import annotations

import asyncio
import contextlib
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.agents.builtin import BadArguments, Toolbox, submitted, tools
from skillopt_ci.computer.computer import ComputerSpec
from skillopt_ci.computer.local import Unconfined
from skillopt_ci.config.rollout import AgentConfig
from skillopt_ci.messages import ToolCall
from skillopt_ci.rollout.types import ToolUsed


def use(
    name: str, files: dict[str, bytes] | None = None, given: object = None, **settings: object
) -> ToolUsed:
    async def now() -> ToolUsed:
        async with Unconfined(os.environ["PATH"]).open(ComputerSpec()) as computer:
            for path, content in (files or {}).items():
                await computer.write(path, content)
            chosen = AgentConfig.model_validate({"type": "agent", **settings})
            return await Toolbox(computer, chosen).use(ToolCall("1", name, json.dumps(given)))

    return asyncio.run(now())


def test_the_schemas_say_what_is_needed_and_nothing_else():
    shell, submit = tools(["shell"])
    assert shell.name == "shell"
    assert shell.parameters == {
        "type": "object",
        "properties": {
            "command": {"description": "The command line.", "minLength": 1, "type": "string"}
        },
        "required": ["command"],
        "additionalProperties": False,
    }
    assert submit.parameters["required"] == []


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("exit 7", "[exit code 7]"),
        ("printf 'a\\n\\nb\\n'", "[exit code 0]\na\n\nb"),
        ("[[ a == a ]] && echo bash", "[exit code 0]\nbash"),
        ("echo x >&2; exit 1", "[exit code 1]\n[standard error]\nx"),
        ("pwd | grep -c workspace", "[exit code 0]\n1"),
        ("echo '$(rm -rf /tmp/x)' \"`echo y`\"", "[exit code 0]\n$(rm -rf /tmp/x) y"),
    ],
)
def test_a_command_is_told_by_status_and_output(command, shown):
    assert use("shell", given={"command": command}).output == shown


def test_a_command_that_takes_too_long_is_killed_and_told_so():
    used = use("shell", given={"command": "echo begun; sleep 60"}, command_seconds=0.3)
    assert used.output.startswith("[exit code ")
    assert "killed after 0.3 s]\nbegun" in used.output
    assert used.seconds < 30


def test_a_long_output_keeps_head_and_tail():
    used = use("shell", given={"command": "seq 1 100000"}, output_bytes=1000)
    assert used.output.startswith("[exit code 0]\n1\n2\n")
    assert used.output.endswith("99999\n100000")
    assert "bytes left out" in used.output
    assert len(used.output.encode()) < 1200


def test_lines_of_a_file_are_told_with_their_place():
    files = {"a.txt": b"".join(b"line %d\n" % n for n in range(1, 11))}
    shown = use("read", files, {"path": "a.txt", "start": 4, "lines": 2}).output
    assert shown == "[lines 4 to 5 of 10]\nline 4\nline 5\n"


def test_a_whole_file_is_told_as_it_is():
    assert use("read", {"a": b"one\r\ntwo"}, {"path": "a"}).output == "one\r\ntwo"
    assert use("read", {"a": b""}, {"path": "a"}).output == "[the file is empty]"
    assert use("read", {"a": b"\xff\n"}, {"path": "a"}).output == "\ufffd\n"


def test_a_folder_is_no_file():
    assert use("read", {"a/b": b""}, {"path": "a"}).output.startswith("Error: ")


@given(st.text(max_size=60))
def test_any_arguments_are_read_or_refused(arguments):
    with contextlib.suppress(BadArguments):
        assert isinstance(submitted(ToolCall("1", "submit", arguments)), str)
