import asyncio
import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import pytest
import virtual_time
from solver_play import play

from skillopt_ci.agents.manual import HumanSolver, ScriptedSolver, StreamTerminal
from skillopt_ci.aio import working_time
from skillopt_ci.config.rollout import HumanConfig, ScriptedConfig
from skillopt_ci.errors import UsageError
from skillopt_ci.messages import Image, Message
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.types import AgentError, Asked, ModelSaid, Nudged, ToolUsed
from skillopt_ci.tasks.task import Task, TaskFile, TaskImage


@pytest.fixture
def at_terminal(tmp_path: Path) -> Iterator[Callable[[str], tuple[HumanSolver, io.StringIO]]]:
    with ExitStack() as opened:

        def sits(typed: str) -> tuple[HumanSolver, io.StringIO]:
            (tmp_path / "typed").write_text(typed, encoding="utf-8")
            source = opened.enter_context((tmp_path / "typed").open(encoding="utf-8"))
            shown = io.StringIO()
            return HumanSolver(HumanConfig(type="human"), StreamTerminal(source, shown)), shown

        yield sits


def test_a_person_reads_runs_and_submits(at_terminal):
    solver, shown = at_terminal("\necho hi | tee f\nfalse\nsubmit forty two\n")
    played = play(solver, "Say hi.", look=["f"])
    assert (played.files, played.attempt.response) == ({"f": "hi\n"}, "forty two")
    assert [step.exit_code for step in played.of(ToolUsed)] == [0, 1]
    assert all(t in shown.getvalue() for t in ("Say hi.", "Be brief.", "hi\n", "[exit code 1]"))


def test_without_a_skill_a_person_reads_the_task_alone(at_terminal):
    solver, shown = at_terminal("submit x\n")
    (asked,) = play(solver, "Say hi.", skill="").of(Asked)
    assert asked.messages == (Message("user", "Say hi."),)
    assert shown.getvalue().startswith("── Task t ──\nSay hi.\n")


def test_a_person_sees_the_task_s_files_and_the_names_of_its_pictures(at_terminal):
    picture = TaskImage("a.png", "0" * 64, Image("image/png", ""))
    turns, files = (Message("user", "Say hi."),), (TaskFile("a.txt", "content"),)
    solver, shown = at_terminal("submit x\n")
    play(solver, task=Task("t", turns, files=files, images=(picture,)), skill="")
    assert "Say hi.\n\nFile a.txt:\n```\ncontent\n```\n\nPicture: a.png" in shown.getvalue()


def test_what_is_shown_cannot_steer_the_terminal(at_terminal):
    solver, shown = at_terminal("printf '\\033[31mred'\nsubmit\n")
    play(solver, "Clear\x1b[2J the screen.")
    assert "\x1b" not in shown.getvalue()
    assert "Clear[2J the screen." in shown.getvalue()


def test_a_submission_that_is_refused_is_told_why(at_terminal):
    objections = iter(["there is no report", None])

    async def check() -> str | None:
        return next(objections)

    solver, shown = at_terminal("submit a\nsubmit b\n")
    played = play(solver, place=Workplace("rollout", nudges=2, check_submission=check))
    assert [step.text for step in played.of(Nudged)] == ["there is no report"]
    assert "there is no report" in shown.getvalue()
    assert played.attempt.response == "b"


def test_the_end_of_input_is_no_submission(at_terminal):
    solver, _ = at_terminal("ls\n")
    with pytest.raises(AgentError, match="input ended"):
        play(solver)
    solver, shown = at_terminal("ls\nsubmit 4\n")
    assert play(solver, computer=False).attempt.response == "4"
    assert "no computer" in shown.getvalue()


def test_tasks_are_shown_one_at_a_time(at_terminal):
    async def both(solver: HumanSolver) -> None:
        async def one(name: str) -> None:
            task = Task(name, (Message("user", f"Task {name}"),))
            async for _ in solver.solve(task, "", Workplace("rollout")):
                await asyncio.sleep(0)

        await asyncio.gather(one("a"), one("b"))

    solver, shown = at_terminal("submit 1\nsubmit 2\n")
    asyncio.run(both(solver))
    text = shown.getvalue()
    assert text.index("── Task a ──") < text.index("$ ") < text.index("── Task b ──")


def test_waiting_for_one_s_turn_takes_none_of_the_task_s_time(at_terminal):
    solver, _ = at_terminal("submit 1\n")

    async def after_another() -> float:
        loop = asyncio.get_running_loop()
        await solver.turn.acquire()
        loop.call_later(100, solver.turn.release)
        async with working_time(5):
            async for _ in solver.solve(Task("a", (Message("user", "?"),)), "", Workplace("s")):
                pass
        return loop.time()

    assert virtual_time.run(after_another()) >= 100


def scripted(**settings: object) -> ScriptedSolver:
    return ScriptedSolver(ScriptedConfig.model_validate({"type": "scripted", **settings}))


def test_its_commands_are_run_one_after_the_other():
    solver = scripted(commands=["echo a > f; exit 3", ["sh", "-c", "cat f"]], answer="done")
    played = play(solver, look=["f"])
    assert [one.output for one in played.of(ToolUsed)] == ["[exit code 3]\n", "[exit code 0]\na\n"]
    assert played.attempt.response == "done"
    assert played.attempt.n_turns == len(played.of(ModelSaid)) == 3
    assert played.attempt.usage.calls == 0


def test_a_task_may_bring_its_own_script():
    metadata = {"script": {"commands": ["echo own > f"], "answer": "mine"}}
    earlier = (Message("user", "hi"), Message("assistant", "hello"), Message("user", "x"))
    task = Task("t", earlier, metadata=metadata)
    played = play(scripted(commands=["false"]), task=task, look=["f"])
    assert (played.files, played.attempt.response) == ({"f": "own\n"}, "mine")
    assert played.attempt.n_turns == 2  # the prompt's own turn is none


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (["echo"], ": expected a mapping"),
        ({"comands": []}, ".comands: unknown key"),
        ({"commands": ["\0"]}, ".commands.0: contains a zero byte, which .* cannot$"),
    ],
)
def test_what_is_no_script_is_told_with_the_task(script, told):
    task = Task("odd", (Message("user", "x"),), metadata={"script": script})
    with pytest.raises(UsageError, match=rf"^task 'odd': metadata\.script{told}"):
        play(scripted(), task=task)


def test_an_answer_needs_no_computer():
    solver = scripted(answer="4")
    assert not solver.needs_computer
    assert play(solver, computer=False).attempt.response == "4"
    solver = scripted(commands=["ls"])
    assert solver.needs_computer
    with pytest.raises(UsageError, match="no computer") as refused:
        play(solver, computer=False)
    assert "`computer` block" in refused.value.hint


# Lines of a person: from a terminal, a pipe, a file.

SAID = ["ls -la", "", "submit 4 \u20ac", "and no break", None, None]
TYPED = "ls -la\n\nsubmit 4 \u20ac\r\nand no break"


def lines(source: TextIO) -> list[str | None]:
    async def asked() -> list[str | None]:
        terminal = StreamTerminal(source, io.StringIO())
        return [await terminal.ask("$ ") for _ in SAID]

    return asyncio.run(asked())


def test_a_file_is_read_line_by_line(tmp_path):
    (tmp_path / "typed").write_bytes(TYPED.encode())
    with (tmp_path / "typed").open(encoding="utf-8") as source:
        assert lines(source) == SAID


def test_a_pipe_is_read_line_by_line_however_it_is_filled():
    reading, writing = os.pipe()

    def fill() -> None:
        for byte in TYPED.encode():
            os.write(writing, bytes([byte]))
        os.close(writing)

    with os.fdopen(reading, encoding="utf-8") as source:
        filler = threading.Thread(target=fill)
        filler.start()
        assert lines(source) == SAID
        filler.join()


def test_who_gives_up_waits_for_nobody_and_takes_no_line_away():
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8") as source, os.fdopen(writing, "w") as keyboard:
        terminal = StreamTerminal(source, io.StringIO())

        async def given_up() -> None:
            waiting = asyncio.create_task(terminal.ask("$ "))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled()

        asyncio.run(given_up())  # would hang if a thread still read
        keyboard.write("submit late\n")
        keyboard.flush()
        assert asyncio.run(terminal.ask("$ ")) == "submit late"
