"""Makes untrusted text, from a model, a task or a stranger, inert in GitHub Markdown.

GitHub shows it as written: no mentions, references, links, images, HTML, emoji, formulas, fences.
Escapes are character references, which also work in table cells and between HTML tags.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skillopt_ci.messages import fenced
from skillopt_ci.sanitize import harmless, visible

#: A zero-width space that breaks up mentions, references and addresses. GitHub looks for these
#: after it has rendered Markdown, so escaping alone does not help.
_BREAK = "&#8203;"
_ENTITIES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "$": "<span>$</span>",
    "@": f"&#64;{_BREAK}",
    "#": f"&#35;{_BREAK}",
    **{character: f"&#{ord(character)};" for character in "\\`*_[]!|~{}^"},
}
_ACTING = re.compile(
    r"""[&<>"$@#\\`*_\[\]!|~{}^]
      | :(?=\S)                                     # addresses, emoji, runner commands
      | (?i:\bwww)(?=\.)
      | (?i:(?<![^\W_])GH)(?=-\d)
      | \b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b   # the hash of a commit
      | ^[-+=] | (?<=^\d)[.)](?!\S) | (?<=^\d\d)[.)](?!\S)   # a list, the line of a heading
    """,
    re.VERBOSE,
)
#: A code span: its backticks, as many at both ends, and its code, within one paragraph.
_SPAN = re.compile(r"(?<!`)(`+)(?!`) ?((?:(?!\n\s*\n).){1,1000}?) ?(?<!`)\1(?!`)", re.DOTALL)
#: Invisible, though Unicode classes them as letters, marks or symbols.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_MARKS = "[\u0300-\u036f\u0483-\u0489\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
#: A letter with many combining marks would hide the lines around it.
_PILED_MARKS = re.compile(f"({_MARKS}{{2}}){_MARKS}+")


def inline(text: str, limit: int = 200) -> str:
    """``text`` on one line, inert but for code spans, cut to ``limit`` characters."""
    return with_code(clip(single_line(text), limit), _inert)


def inline_lines(text: str, limit: int) -> str:
    """The same with its line breaks."""
    return "<br>\n".join(inline(line, limit) for line in clip(text, limit).splitlines())


def with_code(text: str, escape: Callable[[str], str]) -> str:
    """``text``, escaped, with its code spans as HTML."""
    parts = _SPAN.split(text)  # words, the backticks of a span, its code, words, …
    words, spans = parts[::3], [f"<code>{escape(code)}</code>" for code in parts[2::3]]
    return "".join(f"{escape(one)}{span}" for one, span in zip(words, [*spans, ""], strict=True))


def code(text: str, limit: int = 80) -> str:
    """A name as it is, cut in the middle: the ends of long names tell them apart."""
    name = single_line(text)
    if len(name) > limit:
        name = f"{name[: limit // 2]}…{name[len(name) - (limit - 1) // 2 :]}"
    return f"<code>{_inert(name) or '–'}</code>"


def codes(texts: Sequence[str], most: int = 12) -> str:
    """A list of names and how many more there are; a word if there are none."""
    if not texts:
        return "none"
    rest, shown = len(texts) - most, ", ".join(code(text, 60) for text in texts[:most])
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def block_quote(text: str) -> str:
    lines = map(single_line, clip(_clean(text).strip(), 1_000).split("\n"))
    return "\n>\n".join(f"> {inline(line, 1_000)}" for line in lines if line)


def block(text: str, info: str = "", *, lines: int = 60, width: int = 300) -> str:
    """``text`` in a fence that it cannot close, cut to ``lines`` of ``width`` characters."""
    found = [line.rstrip() for line in _clean(text).strip("\n").split("\n")]
    shown = [clip(harmless(line), width) for line in found[:lines]]
    if len(found) > lines:
        shown.append(f"… {len(found) - lines:,} more lines")
    return fenced("\n".join(shown), info)


def details(summary: str, body: str) -> str:
    return f"<details>\n<summary>{summary}</summary>\n\n{body.strip()}\n\n</details>"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], align: str = "") -> str:
    """A table; cells must be inert already. ``align`` has a letter, l or r, for each column."""
    marks = [("--:" if side == "r" else ":--") for side in align.ljust(len(headings), "l")]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, marks, *rows))


def cut_table(headings: Sequence[str], rows: Sequence[Sequence[str]], align: str, most: int) -> str:
    """A table of the first ``most`` rows and how many more there are; empty without rows."""
    rest = len(rows) - most
    more = f"<sub>and {rest:,} more</sub>" if rest > 0 else ""
    return join(table(headings, rows[:most], align), more) if rows else ""


def join(*parts: str, by: str = "\n\n") -> str:
    return by.join(part for part in parts if part)


def single_line(text: str) -> str:
    """``text`` without line breaks and invisible characters."""
    return " ".join(_clean(text).split())


def clip(text: str, limit: int) -> str:
    """``text``, cut to ``limit`` characters including an ellipsis."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)].rstrip() + "…"


def _clean(text: str) -> str:
    seen = _BLANK.sub("", visible(text)).replace("\u2028", "\n").replace("\u2029", "\n")
    return _PILED_MARKS.sub(r"\1", seen)


def _inert(text: str) -> str:
    return _ACTING.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    text = found[0]
    if text in _ENTITIES:
        return _ENTITIES[text]
    return f"&#{ord(text)};" if text in "-+=.)" else text[:6] + _BREAK + text[6:]


# Links to what a report mentions.

_PLAIN = re.compile(r"[\w./#-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Links:
    """URLs of the repository and of the current job; without them, names are not linked."""

    repository: str = ""
    workflow_run: str = ""

    def commit(self, sha: str, words: str = "") -> str:
        if not sha:
            return words
        if not self.repository:
            return f"{words} <code>{sha[:7]}</code>".strip()
        return f"[{words or sha[:7]}]({self.repository}/commit/{sha})"

    def within(self, address: str, words: str) -> str:
        """A link to a page of the repository; ``address`` is untrusted: it is from a record."""
        inside = self.repository and address.startswith(f"{self.repository}/")
        rest = address.removeprefix(self.repository)
        return f"[{words}]({address})" if inside and _PLAIN.fullmatch(rest) else words

    def run(self, words: str) -> str:
        return f"[{words}]({self.workflow_run})" if self.workflow_run else ""


# Keep a report within GitHub's limits by omitting what matters least.

#: Bytes of a comment; GitHub allows 65,536 characters, and a character has at least one byte.
COMMENT_BYTES = 60_000
_CUT = "\n\n<sub>The rest did not fit.</sub>\n"


def size(text: str) -> int:
    return len(text.encode("utf-8"))


def compose(head: str, sections: Sequence[str], tail: str, *, limit: int = COMMENT_BYTES) -> str:
    """Join the parts within ``limit`` bytes; what has no room keeps its summary or is counted."""
    room, shown = limit - size(head) - size(tail) - 100, list[str]()
    for section in sections:
        summary, closed, _ = section.partition("</summary>")
        fits = not closed or size(section) + 2 <= room
        kept = section if fits else f"{summary}{closed}\n\nThis did not fit.\n\n</details>"
        room -= size(kept) + 2
        if room < 0:
            break
        shown.append(kept)
    shown = [section for section in shown if section]
    left_out = len(sections) - len(shown)
    more = f"<sub>and {left_out:,} more before that</sub>" if left_out else ""
    return cut(join(head, *shown, more, tail), limit)


def cut(text: str, limit: int = COMMENT_BYTES) -> str:
    """The whole lines within ``limit`` bytes, a last resort: GitHub closes tags, we blocks."""
    if size(text) <= limit:
        return text
    kept, fence, room = list[str](), "", limit - size(_CUT)
    for line in text.split("\n"):
        opened = line[: len(line) - len(line.lstrip("`"))] if line.startswith("```") else ""
        after = "" if line == fence else fence or opened
        room -= size(line) + 1
        if room < size(after):
            break
        kept.append(line)
        fence = after
    return "\n".join((*kept, fence)) + _CUT
