"""Secrets in a text: the formats of well-known keys, random values under a telling name, own keys.

A scanner such as detect-secrets is not used: it brings an HTTP client along, keeps its settings in
the process, and takes ordinary words of a sentence for random values.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from skillopt_ci.redaction import HIDDEN

_FORMATS: Mapping[str, re.Pattern[str]] = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----"),
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b"),
    "a GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{40,})\b"),
    "a GitLab token": re.compile(r"\bgl(?:pat|ptt|rt)-[\w-]{20,}"),
    "an API key": re.compile(r"\bsk-(?=[\w-]*\d)[\w-]{20,}|\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    "a Google API key": re.compile(r"\bAIza[\w-]{35}"),
    "a Slack token": re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    "a Hugging Face token": re.compile(r"\bhf_[A-Za-z0-9]{30,}\b"),
    "a package registry token": re.compile(r"\b(?:npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,})"),
    "a web token": re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
    "a password in a web address": re.compile(r"\b[A-Za-z][\w+.-]*://[^\s/:@]+:[^\s/@]{4,}@"),
}
_NAMED = re.compile(
    r"(?:api[ _-]?key|access[ _-]?key|secret|token|passw(?:or)?d|passphrase|credential|bearer|auth)"
    r"[\w-]*[\"'`]?\s*(?:[:=]+|\bis\b|\s)\s*[\"'`]?(?P<value>[A-Za-z0-9+/=_.~$!@#%^&*-]{12,})",
    re.IGNORECASE,
)
_HEX = re.compile(r"[0-9a-fA-F-]+")
_JOINT = re.compile(r"[._=/-]")
#: A random value has a part of so many characters, and so many bits in each of them.
_RANDOM_CHARS, _RANDOM = 8, 2.5
#: A shorter value of an environment variable may be a word like any other.
_SHORTEST_KEY = 8


def secret_in(text: str, known: str, keys: Iterable[str] = ()) -> str:
    """Return what kind of secret ``text`` holds that ``known`` does not, empty for none."""
    for kind, found in _secrets(text, keys):
        if found not in known:
            return kind
    return ""


def without_secrets(text: str, keys: Iterable[str] = ()) -> str:
    """Return ``text`` with every secret replaced by a word for it."""
    for kind, found in _secrets(text, keys):
        text = text.replace(found, f"[{kind} was here]")
    return text


def _secrets(text: str, keys: Iterable[str]) -> Iterable[tuple[str, str]]:
    for key in keys:
        if len(key) >= _SHORTEST_KEY and key in text:
            yield "a key of this run", key
    if HIDDEN in text:
        yield "a key of this run", HIDDEN
    for kind, pattern in _FORMATS.items():
        yield from ((kind, found[0]) for found in pattern.finditer(text))
    for found in _NAMED.finditer(text):
        if _looks_random(found["value"]):
            yield "what looks like a password or a key", found["value"]


def _looks_random(value: str) -> bool:
    """Whether a part of the value mixes letters and digits as no word does."""
    parts = (value.replace("-", ""),) if _HEX.fullmatch(value) else _JOINT.split(value)
    return any(len(part) >= _RANDOM_CHARS and _mixed(part) for part in parts)


def _mixed(part: str) -> bool:
    counts = Counter(part).values()
    bits = -sum(n / len(part) * math.log2(n / len(part)) for n in counts)
    return bits >= _RANDOM and any(map(str.isdigit, part)) and any(map(str.isalpha, part))
