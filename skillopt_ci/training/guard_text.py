"""What the guard sees in a text's characters: those that hide, and addresses that are new."""

import re
import unicodedata

_PLAIN_CONTROLS = "\t\n\r"
#: Ordinary between letters of some scripts, and inside of emoji.
_JOINERS = "\u200c\u200d"
_EMOJI_STYLE = "\ufe0f"
#: Categories whose characters nobody sees: control, format, lone surrogate, private, separators.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
#: Letters, marks and symbols of other categories that leave no ink.
_BLANK = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)

_ENDINGS = (
    "ai|app|biz|cc|click|cloud|co|com|dev|edu|eu|gg|gov|info|io|link|ly|me|net|online|org|ru|sh|"
    "shop|site|store|tech|tk|to|top|uk|us|xyz"
)
_ADDRESS = re.compile(
    r"(?:\b[a-z][a-z0-9+.-]*://|(?<![\w:/])//(?=[\w-]+\.)|\bwww\.)[^\s<>\"'`)\]}]+"
    r"|\b(?:data:\w+/|javascript:|mailto:)[^\s<>\"'`)\]}]+"
    rf"|(?<![\w.@/-])(?:[a-z0-9-]+\.)+(?:{_ENDINGS})(?=[/:?#]\S)[^\s<>\"'`)\]}}]*"
    r"|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?=[/:]\w)[^\s<>\"'`)\]}]*",
    re.IGNORECASE,
)
_HOST = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://|//|data:|javascript:|mailto:)?(?:[^/?#@]*@)?([^/?#]*)", re.IGNORECASE
)


def hidden_character(text: str, known: str) -> str:
    """Return the first character of ``text`` that people do not see and models read, by name.

    Empty if there is none, or if ``known`` has them too. Joiners and emoji styles pass where
    they do their work.
    """
    for position, character in enumerate(text):
        if _hides(text, position) and character not in known:
            return f"U+{ord(character):04X} {unicodedata.name(character, '')}".strip()
    return ""


def new_address(text: str, known: str) -> str:
    """Return the host of the first web address in ``text`` that is not in ``known``, or nothing.

    Addresses are compared whole: a known host is no licence for other pages of it.
    """
    old = {_canonical(found[0]) for found in _ADDRESS.finditer(known)}
    for found in _ADDRESS.finditer(text):
        if _canonical(found[0]) not in old:
            host = _HOST.match(found[0])
            return (host[1] if host else "")[:80].rstrip(".,;:!") or "no host"
    return ""


def _hides(text: str, position: int) -> bool:
    character = text[position]
    if character in _PLAIN_CONTROLS or (character.isprintable() and not _BLANK.match(character)):
        return False
    around = text[max(0, position - 1) : position], text[position + 1 : position + 2]
    if character in _JOINERS:
        return not all(map(_joinable, around))
    if character == _EMOJI_STYLE:
        return not (around[0] and (_joinable(around[0]) or around[0] in "#*0123456789"))
    return bool(_BLANK.match(character)) or unicodedata.category(character) in _UNSEEN


def _joinable(character: str) -> bool:
    """Whether the character is one that joiners stand beside: a letter, mark or pictogram."""
    pictogram = character == _EMOJI_STYLE
    return character > "\x7f" and (pictogram or character.isprintable())


def _canonical(address: str) -> str:
    scheme, mark, rest = address.rstrip(".,;:!?*_").rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}{mark}{host.lower()}{slash}{path}".rstrip("/")
