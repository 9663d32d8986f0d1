import io

import pytest

from skillopt_ci.cli.options import build_console, wants_colour


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "wanted"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colour_is_for_capable_terminals(
    stream: io.StringIO, environ: dict[str, str], wanted: bool
) -> None:
    assert wants_colour(stream, environ) is wanted


def test_text_is_printed_as_it_is() -> None:
    stream = io.StringIO()
    build_console(stream, {}).print("[red]not markup[/red] :smile: 'x' 42")
    assert stream.getvalue() == "[red]not markup[/red] :smile: 'x' 42\n"
