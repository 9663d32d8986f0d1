import io
import re
from pathlib import PurePath

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.action.outputs import JobLog, command

ANY_TEXT = st.text() | st.text(alphabet=":#[]%\r\n,=abc")


def make() -> tuple[JobLog, io.StringIO]:
    stream = io.StringIO(newline="")
    return JobLog(stream, lambda: "f00d"), stream


def obeyed(log: str) -> list[str]:
    """The commands that the runner would take from a log, by their names."""
    found, stopped = [], ""
    for line in re.split(r"\r\n|\r|\n", log):
        match = re.match(r"\s*::([^ :]+)", line)
        if stopped:
            stopped = "" if line.strip() == f"::{stopped}::" else stopped
        elif match:
            found.append(match[1])
            stopped = line.rpartition("::")[2] if match[1] == "stop-commands" else ""
        elif "##[" in line:
            found.append(line)
    return found


def test_a_command_with_properties() -> None:
    text = command("error", "100 %\nof it", file="a:b,c", line="")
    assert text == "::error file=a%3Ab%2Cc::100 %25%0Aof it"


@given(ANY_TEXT, ANY_TEXT)
def test_an_annotation_is_one_command(message: str, title: str) -> None:
    log, stream = make()
    log.annotate("error", message, title=title, file=PurePath("a.py"), line=3)
    assert obeyed(stream.getvalue()) == ["error"]


@given(ANY_TEXT)
def test_what_is_said_is_no_command(text: str) -> None:
    log, stream = make()
    log.say(text)
    assert obeyed(stream.getvalue()) == []


@given(ANY_TEXT)
def test_untrusted_text_starts_no_command(text: str) -> None:
    log, stream = make()
    with log.untrusted() as inside:
        inside.write(text)
    log.annotate("notice", "afterwards")
    assert obeyed(stream.getvalue()) == ["stop-commands", "notice"]


def test_commands_are_obeyed_again_after_a_failure() -> None:
    log, stream = make()
    try:
        with log.group("work"), log.untrusted() as inside:
            inside.write("::set-env name=PATH::/evil without a line's end")
            raise ValueError  # noqa: TRY301
    except ValueError:
        log.annotate("error", "failed")
    assert obeyed(stream.getvalue()) == ["group", "stop-commands", "endgroup", "error"]


def test_every_line_of_a_secret_is_masked() -> None:
    log, stream = make()
    log.mask("first\n\nsecond 100%")
    assert stream.getvalue() == "::add-mask::first\n::add-mask::second 100%25\n"
