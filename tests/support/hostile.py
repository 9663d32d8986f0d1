"""Text that wants to do something in a comment, and a look at what a comment does.

The comment is rendered by GitHub's own Markdown parser; what GitHub does to the result afterwards
(mentions, references, emoji) is looked for in the text that it would look at.
"""

import re
from html.parser import HTMLParser

import cmarkgfm
from cmarkgfm.cmark import Options

HOSTILE = (
    "@octocat please look, cc @octo/security-team",
    "fixes #12, see GH-34 and octo/skills#5 and octo/skills@0123456789abcdef",
    "see https://evil.example/?q=secret and www.evil.example and http://[::1]/",
    "mail root@evil.example or mailto:root@evil.example or xmpp:a@evil.example",
    "[click](https://evil.example) [click][ref]\n\n[ref]: https://evil.example",
    "![beacon](https://evil.example/b.png) ![b][r]\n[r]: https://evil.example/b.png",
    "<img src=https://evil.example/b.png onerror=alert(1)>",
    "<script>alert(1)</script><iframe src=//evil.example></iframe>",
    "<a href='https://evil.example'>x</a> <https://evil.example> <root@evil.example>",
    "</summary></details><details open><summary>forged",
    "<!-- skillopt-ci:v1 key=demo --> --> <!--",
    "```\n</details>\n# Out\n```` \n~~~\n@octocat",
    "`@octocat` ``@octocat`` `",
    "` https://evil.example ` and ` @octocat",
    "| a | b |\n| --- | --- |\n| c \\| d | e |",
    "# Heading\n## Another\nSetext\n===\n---\n***",
    "> [!CAUTION]\n> The build is broken",
    "- [x] done\n1. one\n+ plus\n* star",
    "$$\\unicode{x}\\href{javascript:alert(1)}{x}$$ and $`a`$ and $a$",
    "```mermaid\ngraph LR; A-->B; click A 'https://evil.example'\n```",
    ":tada: :octocat: :+1:",
    "::error file=x::boo\n::set-output name=a::b\n##[error]boo\n  ::add-mask::x",
    "::stop-commands::x\n%0A::warning::y",
    "&lt;script&gt; &#64;octocat &commat;octocat &#35;12",
    "\\@octocat \\[x\\](https://evil.example) \\",
    "*bold* __bold__ ~~gone~~ ^[note] [^1]\n\n[^1]: https://evil.example",
    "left \u202eright\u202c \u2066isolated\u2069 zero\u200bwidth \ufeffbom \u00adsoft",
    "\u0000null \u0007bell \u001b[31mred\u001b[0m \u009bcsi \ud800 surrogate",
    "tag \U000e0041\U000e0042 \U000e0100variation \u3164filler \u2800blank",
    "za\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308\u0309\u030a\u030blgo",
    "line\u2028separator\u2029paragraph\u0085next\x0bvertical\x0cfeed\rreturn",
    "javascript:alert(1) data:text/html,x vbscript:x file:///etc/passwd",
    "deadbeefdeadbeefdeadbeefdeadbeefdeadbeef and 0a1b2c3",
    "😀" * 50 + "@octocat",
    "#" * 200 + "1",
    "\t    @octocat\n    indented",
    "x" * 3_000 + " @octocat",
    "",
    " ",
)

_OURS = ("https://github.com/octo/skills/", "https://github.com/skillopt-ci/skillopt-ci")
_TAGS = frozenset(
    ("a", "b", "blockquote", "br", "code", "del", "details", "em", "h3", "h4", "hr")
) | {
    *("li", "ol", "p", "pre", "span", "strong", "sub", "summary", "ul"),
    *("table", "tbody", "td", "th", "thead", "tr"),
}
_QUIET = frozenset(("a", "code", "pre"))
_ACTING = {
    "a mention": re.compile(r"(?i)(?<![a-z0-9_])@[a-z0-9]"),
    "a reference": re.compile(r"(?i)(?:^|[^a-z0-9_])(?:[\w.-]+/[\w.-]+)?(?:#|gh-)\d"),
    "an address": re.compile(r"(?i)\b(?:https?|ftp|mailto|javascript|xmpp):[^\s\u200b]|\bwww\.\w"),
    "an emoji": re.compile(r":[a-z0-9_+-]+:"),
    "a formula": re.compile(r"\$[^$\s]"),
}
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200c-\u200f\u2028-\u202e\u2060-\u206f\u3164\u2800"
    "\ufe00-\ufe0f\ufeff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_RUNNER = re.compile(r"(?m)^\s*::|##\[")


def problems(markdown: str) -> list[str]:
    """Everything in a text of ours that acts and should not."""
    found = [f"a runner command: {line!r}" for line in _RUNNER.findall(markdown)]
    found += [f"unseen: {character!r}" for character in _UNSEEN.findall(_without_icons(markdown))]
    reader = _Reader()
    reader.feed(to_html(markdown))
    reader.close()
    return found + reader.problems + [f"left open: {tag}" for tag in reader.open]


def to_html(markdown: str) -> str:
    """The text as GitHub's parser renders it, raw HTML included."""
    encodable = markdown.encode("utf-8", "replace").decode("utf-8")
    return cmarkgfm.github_flavored_markdown_to_html(encodable, options=Options.CMARK_OPT_UNSAFE)


def shown(markdown: str) -> str:
    """The words that a reader sees, without the spaces that nobody sees."""
    reader = _Reader()
    reader.feed(to_html(markdown))
    reader.close()
    return "".join(reader.words).replace("\u200b", "").strip()


def _without_icons(markdown: str) -> str:
    """Our own pictures have a selector that makes them colourful."""
    return re.sub("([↩▫⚠])\ufe0f", r"\1", markdown)


class _Reader(HTMLParser):
    """Follows what is open, and notes what has no business in a comment of ours."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.problems: list[str] = []
        self.words: list[str] = []
        self._markers = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _TAGS:
            self.problems.append(f"a tag: {tag}")
        for name, value in attrs:
            if name == "href" and not (value or "").startswith(_OURS):
                self.problems.append(f"a link: {value}")
            if name.startswith("on") or name in ("src", "style"):
                self.problems.append(f"an attribute: {name}")
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"not opened: {tag}")

    def handle_comment(self, data: str) -> None:
        self._markers += 1
        if self._markers > 1 or not data.startswith(" skillopt-ci:v1 key="):
            self.problems.append(f"a hidden text: {data}")

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if not _QUIET.intersection(self.open):
            parted = data if "span" not in self.open else ""
            self.problems += [
                f"{name}: {data!r}" for name, rule in _ACTING.items() if rule.search(parted)
            ]
