import asyncio
import hashlib
import json
import time
import uuid

import pytest
from computer_kinds import EVERY, SPEC, Desk, computers, desk, eventually, processes_with
from virtual_time import out_of_time

from skillopt_ci.computer.computer import HOME, WORKDIR
from skillopt_ci.program import Capture, CommandResult

pytestmark = pytest.mark.integration


def test_outputs_exit_codes_and_signals_are_told_as_by_a_shell(any_desk):
    done = any_desk.sh("echo out; echo err >&2; exit 3")
    assert (done.exit_code, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert (done.timed_out, done.out.truncated, done.limit) == (False, False, "")
    assert done.seconds > 0
    assert any_desk.python("import os; os.kill(os.getpid(), 15)").exit_code == 128 + 15
    assert any_desk.python("import os; os.kill(os.getpid(), 9)").exit_code == 128 + 9
    any_desk.write("plain", b"text")
    assert any_desk.run("no-such-program").exit_code == 127
    assert any_desk.run("./plain").exit_code == 126
    assert any_desk.sh("true", cwd="nowhere").exit_code == 126


def test_words_reach_the_program_as_they_are(any_desk):
    words = ["$HOME", "a b", "'", '"', "*", "", "ü\n✓", "--", "-n"]
    code = "import json, sys; print(json.dumps(sys.argv[1:]))"
    assert json.loads(any_desk.run("python3", "-c", code, *words).stdout) == words


def test_words_that_no_program_can_be_given_are_the_callers_mistake(any_desk):
    long = (("echo", "x" * 200_000), ("x" * 100_000,) * 20)
    for command in ((), ("echo", "a\0b"), ("echo", "\ud800"), *long):
        done = any_desk.run(*command)
        assert (done.exit_code, bool(done.stderr)) == (126, True)


def test_standard_input_arrives_and_ends(any_desk):
    code = (
        "import hashlib, sys; d = sys.stdin.buffer.read(); "
        "print(len(d), hashlib.sha256(d).hexdigest())"
    )
    for content in (b"", b"one line\n", bytes(range(256)) * 8000):
        done = any_desk.run("python3", "-c", code, stdin=content)
        assert done.stdout == f"{len(content)} {hashlib.sha256(content).hexdigest()}\n"


def test_unread_input_holds_nothing_up_and_text_that_is_not_utf8_is_replaced(any_desk):
    assert any_desk.run("true", stdin=b"x" * 3_000_000).exit_code == 0
    assert any_desk.sh(r"printf 'gr\374n ✓'").stdout == "gr�n ✓"


def test_beginning_and_end_of_a_long_output_are_kept(any_desk):
    code = "import sys; sys.stdout.write('begin' + 'x' * 5_000_000 + 'end')"
    done = any_desk.run("python3", "-c", code, output_bytes=1000)
    assert done.out.truncated
    assert done.stdout.startswith("begin")
    assert done.stdout.endswith("end")
    assert f"{5_000_008 - 1000} bytes left out" in done.stdout
    assert len(done.stdout) < 1100
    done = any_desk.run("printf", "%s", "x" * 999, output_bytes=999)
    assert (done.stdout, done.out.truncated) == ("x" * 999, False)


def test_folders_and_variables(any_desk):
    any_desk.sh("mkdir -p a/b")
    show = 'pwd; echo "$HOME"; echo "$GIVEN"'
    workdir, home, given = any_desk.sh(show, environ={"GIVEN": "a\nb"}).stdout.split("\n", 2)
    assert given == "a\nb\n"
    if any_desk.kind != "unconfined":
        assert (workdir, home) == (WORKDIR, HOME)
    assert any_desk.sh("pwd", cwd="a/b").stdout == f"{workdir}/a/b\n"
    assert any_desk.sh("pwd", cwd=f"{WORKDIR}/a").stdout == f"{workdir}/a\n"
    assert any_desk.sh('touch "$HOME/made" /tmp/agent-made && ls "$HOME"').stdout == "made\n"
    any_desk.sh("echo kept > here; echo kept > /tmp/agent-there")
    assert any_desk.sh("cat here /tmp/agent-there").stdout == "kept\nkept\n"


def endless(marker: str) -> str:
    """A command that never ends; only its own process has the whole ``marker``."""
    return f"sh -c 'sleep 1000; :' {marker[:16]}''{marker[16:]}"


def out_of_time_in(opened: Desk, script: str, marker: str) -> CommandResult:
    """Run ``script`` until we heard of it and its endless command runs; then its time is over."""
    work, heard = opened.computer.run(["sh", "-c", script], timeout=60), bytearray()
    feed = Capture.feed

    def listening(self: Capture, chunk: bytes) -> None:
        heard.extend(chunk)
        feed(self, chunk)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Capture, "feed", listening)
        return opened.do(out_of_time(work, lambda: b"begun" in heard and processes_with(marker)))


def test_time_is_limited(any_desk):
    marker = uuid.uuid4().hex
    done = out_of_time_in(any_desk, f"echo begun; sleep 1000 & {endless(marker)}", marker)
    assert done.timed_out
    assert (done.exit_code, done.stdout) == (137, "begun\n")
    assert done.seconds < 60
    assert eventually(lambda: not processes_with(marker))


def test_time_is_over_for_what_is_in_a_session_of_its_own_too(any_desk):
    marker = uuid.uuid4().hex
    any_desk.write("inner", f"echo begun; {endless(marker)}; :".encode())
    done = out_of_time_in(any_desk, 'setsid sh -c "setsid sh inner; :" & wait', marker)
    assert (done.timed_out, done.stdout) == (True, "begun\n")
    assert eventually(lambda: not processes_with(marker))


def test_what_hides_goes_with_its_computer(tmp_path, monkeypatch):
    monkeypatch.setattr("skillopt_ci.program._PATIENCE", 0.1)  # for each output that it holds open
    marker = uuid.uuid4().hex
    script = f"setsid sh -c 'touch begun; while :; do sleep 1; done; : {marker}' & "
    with desk("unconfined", environ={"HOME": str(tmp_path)}) as opened:
        opened.sh(f"{script} until test -e begun; do :; done")
        assert processes_with(marker)
    assert eventually(lambda: not processes_with(marker))


def test_nothing_works_on_in_the_background(any_desk):
    marker = uuid.uuid4().hex
    script = f"sh -c 'while :; do sleep 1; done; : {marker}' & echo started"
    begin = time.monotonic()
    assert any_desk.sh(script).stdout == "started\n"
    assert time.monotonic() - begin < 30
    assert eventually(lambda: not processes_with(marker))


def test_not_even_what_hides(cell):
    marker = uuid.uuid4().hex
    script = f"setsid sh -c 'setsid sh -c \"while :; do sleep 1; done; : {marker}\" &' & echo ok"
    assert cell.sh(f"{script} > /dev/null 2>&1 < /dev/null").exit_code == 0
    assert eventually(lambda: not processes_with(marker))


@pytest.mark.parametrize("kind", EVERY)
def test_cancellation_kills(kind):
    marker = uuid.uuid4().hex

    async def cancel(opened: Desk) -> None:
        script = f"touch begun; sleep 1000; : {marker}"
        task = asyncio.create_task(opened.computer.run(["sh", "-c", script], timeout=600))
        while not processes_with(marker):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with desk(kind) as opened:
        opened.do(cancel(opened))
        assert eventually(lambda: not processes_with(marker))
        assert opened.sh("echo usable").stdout == "usable\n"


@pytest.mark.parametrize("kind", EVERY)
def test_several_computers_at_once_know_nothing_of_each_other(kind):
    kinds = computers(kind)

    async def work(number: int) -> str:
        async with kinds.open(SPEC) as computer:
            await computer.write("mine", str(number).encode())
            await computer.run(["true"], timeout=60)
            return (await computer.run(["sh", "-c", "ls; cat mine"], timeout=60)).stdout

    async def together() -> list[str]:
        return await asyncio.gather(*map(work, range(4)))

    assert asyncio.run(together()) == [f"mine\n{number}" for number in range(4)]


@pytest.mark.parametrize("kind", EVERY)
def test_commands_in_one_computer_may_overlap(kind):
    async def overlap(opened: Desk) -> list[str]:
        runs = (opened.computer.run(["echo", str(n)], timeout=60) for n in range(6))
        return [done.stdout for done in await asyncio.gather(*runs)]

    with desk(kind) as opened:
        assert opened.do(overlap(opened)) == [f"{number}\n" for number in range(6)]
