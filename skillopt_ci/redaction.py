"""Redaction by value: no known secret leaves us, in any spelling, by any way."""

import base64
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TextIO
from urllib.parse import quote, quote_plus, unquote

#: Removes secrets from a text.
Redact = Callable[[str], str]

#: Replaces a secret; the guard treats it like the secret itself.
HIDDEN = "[secret hidden]"
#: A shorter value may occur in any text.
SHORTEST = 8
#: Up to this length, digits may be a number, letters of one case a word. All PEM keys begin so.
_PLAIN = re.compile(r"[0-9]{1,15}|[a-z]{1,15}|[A-Z]{1,15}|-----(?:BEGIN|END) [A-Z0-9 ]+-----")
#: Where a text was cut off inside a secret, a remainder of at least this length is hidden.
_SHORTEST_PART = 12
_SECRET_NAME = re.compile(
    r"(?:^|(?<!^GIT_CONFIG)_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)"
    r"(?:_\d+)?$",
    re.IGNORECASE,
)
_PROXY_PASSWORD = re.compile(r"(?:^|//)[^/@:]*:([^/]+)@")


def unchanged(text: str) -> str:
    return text


def redacted_values(value: object, redact: Redact) -> object:
    """JSON with secrets removed from every text in it, including keys of objects."""
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {redact(str(key)): redacted_values(one, redact) for key, one in value.items()}
        case list() | tuple():
            return [redacted_values(one, redact) for one in value]
        case _:
            return value


def redacted_line(line: str, redact: Redact) -> str:
    """JSON from ``json.dumps`` with secrets removed from each text in it separately."""
    if redact is unchanged or (isinstance(redact, Redactor) and redact.needless(line)):
        return line
    return json.dumps(redacted_values(json.loads(line), redact))


def named_secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """Proxies' passwords, and the values of unmistakably named variables, like `GITHUB_TOKEN`."""
    for name, value in environ.items():
        if _SECRET_NAME.search(name):
            yield value
        if name.lower().endswith("_proxy"):
            yield from map(unquote, _PROXY_PASSWORD.findall(value))


def can_be_hidden(secret: str) -> bool:
    """Whether ``secret`` may be redacted: short and plain values can occur in any text."""
    return len(secret) >= SHORTEST and _PLAIN.fullmatch(secret) is None


class Redactor:
    """Hides all secrets that it has learnt, also in base64, in URLs, or escaped."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: set[str] = set()
        self._spellings: tuple[str, ...] = ()
        self._pattern = re.compile(r"(?!)")
        self._cuttable: tuple[tuple[str, str, str], ...] = ()
        self._in_json: tuple[str, ...] = ()
        self._shortest = _SHORTEST_PART
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        parts = (part.strip() for secret in secrets for part in (secret, *secret.splitlines()))
        found = set(filter(can_be_hidden, parts))
        if found <= self._secrets:
            return
        self._secrets |= found
        spellings = {spelling for one in self._secrets for spelling in _spellings(one)}
        self._spellings = tuple(sorted(sorted(spellings), key=len, reverse=True))
        self._pattern = re.compile("|".join(map(re.escape, self._spellings)))
        self._cuttable = tuple(
            (one, one[:_SHORTEST_PART], one[-_SHORTEST_PART:])
            for one in sorted(self._secrets)
            if len(one) > _SHORTEST_PART
        )
        ends = {end for _, *both in self._cuttable for end in both}
        self._in_json = tuple(json.dumps(one)[1:-1] for one in sorted(spellings | ends))
        self._shortest = min(_SHORTEST_PART, *map(len, spellings))

    def __call__(self, text: str) -> str:
        """``text`` without the secrets, or parts of one where the text was cut off."""
        if len(text) < self._shortest:
            return text
        # usually there is none, and searching for each one is much faster than the pattern
        if any(spelling in text for spelling in self._spellings):
            text = self._pattern.sub(HIDDEN, text)
        for secret, head, tail in self._cuttable:
            # the rest of a cut secret has its first or last letters, which are quick to find
            reach = len(secret) - 1
            sizes = range(min(reach, len(text)), _SHORTEST_PART - 1, -1)
            if text.find(head, -reach) >= 0 and (
                size := next((n for n in sizes if text.endswith(secret[:n])), 0)
            ):
                text = text[:-size] + HIDDEN
            if text.find(tail, 0, reach) >= 0 and (
                size := next((n for n in sizes if text.startswith(secret[-n:])), 0)
            ):
                text = HIDDEN + text[size:]
        return text

    def needless(self, line: str) -> bool:
        """Whether no text in ``line``, from ``json.dumps``, can have a secret, whole or cut off."""
        return not any(one in line for one in self._in_json)


class RedactedStream(io.TextIOBase):
    def __init__(self, stream: TextIO, redact: Redact) -> None:
        self._stream = stream
        self._redact = redact

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._stream.errors

    def write(self, text: str) -> int:
        self._stream.write(self._redact(text))
        return len(text)

    def flush(self) -> None:
        # Python flushes an abandoned object, perhaps after its stream was closed
        if not self._stream.closed:
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


def _spellings(secret: str) -> Iterator[str]:
    yield secret
    for ascii_only in (True, False):
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        # PHP, Go and .NET escape more than JSON asks for
        slashed, quoted = once.replace("/", r"\/"), once.replace(r"\"", r"\u0022")
        go = re.sub("[&<>]", lambda one: rf"\u{ord(one[0]):04x}", once)
        net = re.sub("[&<>'+`]", lambda one: rf"\u{ord(one[0]):04X}", quoted)
        # a reply is JSON, which may quote other JSON
        for text in (once, slashed, go, net, repr(secret)[1:-1]):
            yield from (text, json.dumps(text, ensure_ascii=ascii_only)[1:-1])
    # JavaScript leaves !'()* as they are
    for url in (quote_plus(secret), *(quote(secret, safe=kept) for kept in ("/", "", "!'()*"))):
        yield from (url, re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), url))
    content = secret.encode("utf-8", "surrogatepass")
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + content).decode().rstrip("=")
        # the first and the last letter may also hold bits of their neighbours
        inner = encoded[(shift * 8 + 5) // 6 : (shift + len(content)) * 8 // 6]
        if len(inner) >= SHORTEST:
            yield from (inner, inner.translate(str.maketrans("+/", "-_")))
