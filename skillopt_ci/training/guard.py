"""Guard: refuse certain content in a skill, however well it would score.

The guard judges the lines that a change adds. It never refuses content that an earlier skill of
the run had. A reason names the rule and where it applies, but never repeats the refused text.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from skillopt_ci.config.config import Guard
from skillopt_ci.model.access import resolved_key_values
from skillopt_ci.progress import Note, Observer
from skillopt_ci.redaction import HIDDEN, SHORTEST
from skillopt_ci.skill.document import fence_closed, word_count
from skillopt_ci.skill.edits import Refuse
from skillopt_ci.skill.regions import strip_markers
from skillopt_ci.skill.validation import JOINERS, PLAIN_CONTROLS
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.replies import Item, Patch, Reflection, SkillCandidate, Suggestion
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.state import Checkout
from skillopt_ci.util import grouped

# Reference answers: a skill that knows the answers has learned nothing.

#: A match of this many letters and digits, or this many digits alone, is no coincidence.
_TELLING = 12
_TELLING_DIGITS = 5
#: A longer answer is recognised by this many words in a row.
_RUN = 8

_WORD = re.compile(r"\w+")


def normalised(text: str) -> str:
    """Return the words of ``text`` in lower case, with a space before and after each."""
    return f" {' '.join(_WORD.findall(unicodedata.normalize('NFKC', text).casefold()))} "


def _runs(words: str) -> tuple[str, ...]:
    listed = words.split()
    runs = (listed[start : start + _RUN] for start in range(len(listed) - _RUN + 1))
    return tuple(phrase for run in runs if _tells(phrase := f" {' '.join(run)} "))


def _tells(answer: str) -> bool:
    compact = answer.replace(" ", "")
    return len(compact) >= _TELLING or sum(map(str.isdigit, compact)) >= _TELLING_DIGITS


# Orders to the optimizer: text in a skill that would steer training.

_WHO = r"(?:optimi[sz]er|(?:failure|success|skill)[ -]analyst|skill[ -]trainer)"

_ORDERS: Mapping[str, re.Pattern[str]] = {
    "it would override other instructions": re.compile(
        r"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,30}"
        r"\b(?:previous|prior|above|earlier|preceding|foregoing|system)\b[^.\n]{0,20}"
        r"\b(?:instructions?|prompts?|messages?|directives?|guidelines?)\b",
        re.IGNORECASE,
    ),
    "it addresses the optimizer by name": re.compile(
        r"\b(?:as|you are|act as|dear|attention|note to|message (?:to|for)|instructions? (?:to|for)"
        rf"|tell|hey)[ ,:]{{1,3}}(?:an? |the |all )?{_WHO}s?\b|^[^\w\n]*{_WHO}s?\s*[:,]",
        re.IGNORECASE | re.MULTILINE,
    ),
    "it addresses an analyst": re.compile(
        r"\b(?:as|you are|dear|attention|note to|message (?:to|for))[ ,:]{1,3}(?:an? |the |all )?"
        r"analysts?\b",
        re.IGNORECASE,
    ),
    "it imitates the head of a prompt": re.compile(
        r"^[^\w\n]*Stage:\s*(?:target|analyst|merge|ranking|rewrite|lr_autonomous|slow_update"
        r"|meta_skill|appendix)\w*"
        r"|^[^\w\n]*#{1,6} (?:Current Skill|(?:Edits|Suggestions) Budget|Hidden Reference"
        r"|Optimizer Meta Skill|Previous Steps in This Epoch|Patches to merge"
        r"|(?:Failed|Successful) Trajectories)\b",
        re.IGNORECASE | re.MULTILINE,
    ),
    "it imitates a reply": re.compile(
        r"\b(?:selected_indices|failure_summary|success_patterns|revise_suggestions"
        r"|skill_candidates|appendix_notes|slow_update_content|meta_skill_content|support_count)\b"
        r"|[\"']op[\"']\s*:\s*[\"'](?:append|insert_after|replace|delete)\b|[\"']new_skill[\"']\s*:"
    ),
    "it holds a marker of a protected region": re.compile(
        r"<!--\s*(?:SLOW_UPDATE|APPENDIX)_(?:START|END)\s*-->", re.IGNORECASE
    ),
    "it imitates a change of speaker": re.compile(
        r"<\|\w+\|>|\[/?INST\]|<</?SYS>>|^[^\w\n]*\[(?:system|assistant)\]",
        re.IGNORECASE | re.MULTILINE,
    ),
}


def order_to_the_optimizer(text: str, known: str) -> str:
    """Return how ``text`` addresses the optimizer in phrases that ``known`` does not have."""
    familiar = " ".join(known.casefold().split())
    for what, pattern in _ORDERS.items():
        phrases = {" ".join(found[0].casefold().split()) for found in pattern.finditer(text)}
        if any(phrase not in familiar for phrase in phrases):
            return what
    return ""


# Secrets: well-known key formats, random values after a telling name, and this run's keys.

# Repetitions are bounded so that matching takes linear time.
_FORMATS: Mapping[str, re.Pattern[str]] = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----"),
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b"),
    "a GitHub token": re.compile(
        r"\b(?:gh[pousr]_(?:\d{1,20}_eyJ[\w.-]{36,2000}|[A-Za-z0-9]{36,})|github_pat_\w{40,})\b"
    ),
    "a GitLab token": re.compile(r"\bgl(?:pat|ptt|rt)-[\w-]{20,}"),
    "an API key": re.compile(
        r"\bsk-(?=[\w-]{0,200}\d)[\w-]{20,}|\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"
    ),
    "a Google API key": re.compile(r"\bAIza[\w-]{35}"),
    "a Slack token": re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    "a Hugging Face token": re.compile(r"\bhf_[A-Za-z0-9]{30,}\b"),
    "a package registry token": re.compile(r"\b(?:npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,})"),
    "a web token": re.compile(r"\beyJ[\w-]{10,1000}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
    "a password in a web address": re.compile(r"\b[A-Za-z][\w+.-]{0,30}://[^\s/:@]+:[^\s/@]{4,}@"),
}
_NAMED = re.compile(
    r"(?:api[ _-]?key|access[ _-]?key|secret|token|passw(?:or)?d|passphrase|credential|bearer|auth)"
    r"[\w-]{0,80}+[\"'`]?(?:\s*(?:[:=]+|\bis\b)\s*|\s+)[\"'`]?(?P<value>[A-Za-z0-9+/=_.~$!@#%^&*-]{12,})",
    re.IGNORECASE,
)
_HEX = re.compile(r"[0-9a-fA-F-]+")
_JOINT = re.compile(r"[._=/-]")
#: A random value has a part with at least this many characters and bits per character.
_RANDOM_CHARS, _RANDOM = 8, 2.5


def without_secrets(text: str, keys: Iterable[str]) -> str:
    for kind, found in _secrets(text, keys):
        text = text.replace(found, f"[{kind} was here]")
    return text


def _secrets(text: str, keys: Iterable[str]) -> Iterable[tuple[str, str]]:
    for key in (*keys, HIDDEN):
        if len(key) >= SHORTEST and key in text:
            yield "a key of this run", key
    for kind, pattern in _FORMATS.items():
        yield from ((kind, found[0]) for found in pattern.finditer(text))
    for found in _NAMED.finditer(text):
        if _looks_random(found["value"]):
            yield "what looks like a password or a key", found["value"]


def _looks_random(value: str) -> bool:
    parts = (value.replace("-", ""),) if _HEX.fullmatch(value) else _JOINT.split(value)
    for part in parts:
        bits = -sum(n / len(part) * math.log2(n / len(part)) for n in Counter(part).values())
        mixed = any(map(str.isdigit, part)) and any(map(str.isalpha, part))
        if len(part) >= _RANDOM_CHARS and bits >= _RANDOM and mixed:
            return True
    return False


_EMOJI_STYLE = "\ufe0f"
#: Invisible categories: control, format, lone surrogate, private use, separators.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
#: Characters of other categories that leave no ink.
_BLANK = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)

_ENDINGS = (
    "ai|app|au|biz|br|ca|cc|ch|click|cloud|cn|co|com|de|dev|edu|es|eu|fr|gg|gov|info|io|jp|"
    "kr|link|ly|me|net|nl|online|org|pw|ru|se|sh|shop|site|store|tech|tk|to|top|uk|us|xyz"
)
_ADDRESS = re.compile(
    r"(?:\b[a-z][a-z0-9+.-]{0,30}://|(?<![\w:/])//(?=[\w-]+\.)|\bwww\.)[^\s<>\"'`)\]}]+"
    r"|\b(?:data:\w+/|javascript:|mailto:)[^\s<>\"'`)\]}]+"
    r"|(?<![\w.@/-])(?:[\w.+-]{1,64}(?::[^\s@/]{0,64})?@)?"  # of a user, as in git@a.io:x
    rf"(?:[a-z0-9-]+\.)+(?:{_ENDINGS})(?=[/:?#]\S)[^\s<>\"'`)\]}}]*"
    r"|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?=[/:]\w)[^\s<>\"'`)\]}]*",
    re.IGNORECASE,
)
#: This machine, a left-out host, private networks, labels of Kubernetes.
_NO_ADDRESS = re.compile(
    r"(?:(?:(?<![\w.@/-])(?:(?:https?|wss?|tcp|redis|postgres(?:ql)?|mysql|mongodb|amqp)://)?"
    r"(?:localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1\])(?::\d{1,5})?|\bhttps?://(?:\.\.\.|…))"
    r"(?!=|[^\s/?#]{0,300}@)"  # a user's name, not a host, in http://localhost=@a.io
    r"|(?<![\w.@/-])(?:(?:0|10|127)\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01]))"
    r"(?:\.\d{1,3}){2}/\d{1,2}"
    r"|(?<![\w.@/-])(?:[a-z0-9-]+\.)*(?:kubernetes|k8s)\.io/[\w.-]+"
    r")(?=[/?#=]|[.,;:!*_]*(?:[\s<>\"'`)\]}]|\Z))",
    re.IGNORECASE,
)
_HOST = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://|//|data:|javascript:|mailto:)?(?:[^/?#@]*@)?([^/?#]*)", re.IGNORECASE
)


def hidden_character(text: str, known: str) -> str:
    """Return the name of the first character in ``text`` that models read but people cannot see.

    Joiners and emoji styles pass where they have an effect; characters in ``known`` pass anywhere.
    """
    familiar = set(known + PLAIN_CONTROLS)
    for position, character in enumerate(text):
        blank = _BLANK.match(character)
        if character in familiar or (character.isprintable() and not blank):
            continue
        before, after = text[max(0, position - 1) : position], text[position + 1 : position + 2]
        if character in JOINERS:
            hides = not (_joinable(before) and _joinable(after))
        elif character == _EMOJI_STYLE:
            hides = not before or not (_joinable(before) or before in "#*0123456789")
        else:
            hides = blank is not None or unicodedata.category(character) in _UNSEEN
        if hides:
            return f"U+{ord(character):04X} {unicodedata.name(character, '')}".strip()
    return ""


def new_address(text: str, known: str) -> str:
    """Return the host of the first web address in ``text`` that ``known`` does not have in full."""
    # a space would end an address around it, which may then be one that is known
    known, text = (_NO_ADDRESS.sub("~", one) for one in (known, text))
    old = {_canonical(found[0]) for found in _ADDRESS.finditer(known)}
    for found in _ADDRESS.finditer(text):
        if _canonical(found[0]) not in old:
            host = _HOST.match(found[0])
            return (host[1] if host else "")[:80].rstrip(".,;:!") or "no host"
    return ""


def _joinable(character: str) -> bool:
    return character > "\x7f" and (character == _EMOJI_STYLE or character.isprintable())


def _canonical(address: str) -> str:
    scheme, mark, rest = address.rstrip(".,;:!?*_").rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}{mark}{host.lower()}{slash}{path}".rstrip("/")


@dataclass(frozen=True)
class GuardContext:
    """What the guard knows about a run: earlier skills, tasks, and the secrets visible to it."""

    rules: Guard = field(default_factory=Guard)
    known: str = ""
    tasks: Sequence[Task] = ()
    keys: tuple[str, ...] = ()

    def refuse(self, before: str, after: str) -> str | None:
        """Why ``after`` may not replace ``before``, or None. Only a closing fence must be kept."""
        rules, known = self.rules, f"{self.known}\n{before}"
        added = added_text(before, after)
        if added.strip():
            leaked = (kind for kind, secret in _secrets(added, self.keys) if secret not in known)
            if rules.secrets and (kind := next(leaked, "")):
                return f"it holds {kind}"
            if rules.invisible_characters and (name := hidden_character(added, known)):
                return f"it holds an invisible character, {name}"
            if rules.new_urls and (host := new_address(added, known)):
                return f"it brings in a web address on {host} that no earlier skill had"
            if rules.reference_answers and (task := self.given_away(added, known)):
                return f"it gives away the reference answer of task {task}"
            if rules.optimizer_instructions and (what := order_to_the_optimizer(added, known)):
                return f"it speaks to the optimizer: {what}"
        if fence_closed(after) != after and fence_closed(before) == before:
            return "it leaves a code block open, which would take in what follows"
        words, limit = word_count(after), rules.max_words
        if not limit or words <= limit or words <= word_count(before):
            return None
        return f"the document would have {words} words, more than the {limit} allowed"

    def given_away(self, text: str, known: str) -> str:
        """Return the id of a task whose answer is in ``text`` but not in ``known``."""
        shown, familiar = normalised(text), normalised(known)
        runs = _runs(shown)
        for answer in self._owners:
            whole = answer.count(" ") <= _RUN + 1
            phrases = (answer,) if whole else filter(set(_runs(answer)).__contains__, runs)
            for phrase in phrases:
                if phrase in shown and phrase not in familiar and (owner := self._owner(phrase)):
                    return owner
        return ""

    @cached_property
    def _owners(self) -> Mapping[str, Sequence[str]]:
        """The ids of the tasks that have an answer, by the answer's words."""
        return grouped(
            (answer, task.id)
            for task in self.tasks
            for reference in (*task.references, task.reference_text)
            if _tells(answer := normalised(reference))
        )

    def _owner(self, phrase: str) -> str:
        owners = {one for answer, ids in self._owners.items() if phrase in answer for one in ids}
        if len(owners) != 1:
            return ""
        (owner,) = owners
        for task in self.tasks:
            said = (*(one.content for one in task.messages), *(one.content for one in task.files))
            if task.id != owner and phrase in normalised("\n".join(said)):
                return ""
        return owner


def added_text(before: str, after: str) -> str:
    """Return the lines of ``after`` that are not in ``before``, without region markers."""
    old = set(before.split("\n"))
    return strip_markers("\n".join(line for line in after.split("\n") if line not in old))


def guard_context(run: Run, checkout: Checkout) -> GuardContext:
    folder = run.ledger.at(checkout.commit)
    earlier = (folder.read(path) or "" for path in (folder.initial_skill, folder.best_skill))
    return GuardContext(
        rules=run.config.guard,
        known="\n".join((checkout.skill, *earlier)),
        tasks=run.splits.all,
        keys=resolved_key_values(run.config.model, run.environ, run.root),
    )


# Screen: drop refused proposals before they are merged with others.


def screened(
    reflections: Iterable[Reflection[Item]], skill: str, refuse: Refuse, observer: Observer
) -> tuple[Reflection[Item], ...]:
    """Drop refused suggestions and documents from the reflections, and add the reasons."""
    found = []
    for one in reflections:
        kept, reasons = list[Item](), list[str]()
        for item in one.patch.edits:
            text = ""
            if isinstance(item, Suggestion):
                text = f"{item.title}\n{item.instruction}"
            elif isinstance(item, SkillCandidate):
                text = item.new_skill
            # single edits are judged when applied
            if text and (reason := refuse(skill, text)) is not None:
                observer(Note(f"A proposal is refused: {reason}.", level="warning"))
                reasons.append(reason)
            else:
                kept.append(item)
        patch = Patch(tuple(kept), one.patch.reasoning)
        found.append(replace(one, patch=patch, refused=tuple(reasons)) if reasons else one)
    return tuple(found)
