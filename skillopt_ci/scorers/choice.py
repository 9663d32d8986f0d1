"""Which choice of a multiple-choice task an answer names."""

import re
from collections.abc import Mapping

from skillopt_ci.config import scorers as specs
from skillopt_ci.scorers.base import (
    LATEX_BOX,
    PLAIN,
    UNSEEN,
    Score,
    composed,
    needs_references,
    quote,
    scored,
)
from skillopt_ci.tasks.records import labelled
from skillopt_ci.tasks.task import Task

#: Declares the rest of the line to be the answer, or the last line below it, maybe in a formula.
_DECLARED = re.compile(
    r"""
    (?: # "## Answer" or "**Answer:** …", unless another declaration follows
        ^[*_#> \t]*(?:the[ ])?(?:final[ ]|correct[ ])?answer[*_ \t]*(?:$|:)
        (?!\W*(?:(?:so|thus|therefore),?[ ])?(?:the[ ](?:\w+[ ])?answer[ ]is
            |the[ ]correct[ ](?:option|choice)[ ]is|(?:the[ ])?(?:\w+[ ])?answer[*_ \t]*:))
    | \bthe[ ](?:(?:final|correct|right|best)[ ])?answer[ ]is\b:?
    | # such words of a choice or in another language, if a label follows
        ^(?>.*?(?:\bthe[ ]correct[ ](?:option|choice)[ ]is|答案[是为选]?|故选|答えは?
            |\b(?:antwort|ответ|réponse|respuesta(?:[ ]correcta)?)(?:[ ]ist|[ ]est|[ ]es|\s?:)
        ))[:：*]*+(?=\W*+(?!a[ ]\w)\w(?:\b|です)  # the label: a letter or digit, no article "a"
            (?!.*(?:\b\w\b|(?<![a-zÀ-ɏ])[a-z](?![a-zÀ-ɏ]))))  # no second one, even between 汉字
    )[*_ \t]*
    (?:\n[\s$\\[]*+(?=\W*+\w(?!.*(?-i:\b[A-Z]\b)).*+[\s$\\\]]*+\Z))?  # the last line, one label
    (.+)$
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
#: One line in a formula or a fenced block, and nothing else; two blocks may name two choices.
_ENCLOSED = re.compile(r"\A\s*(?:\$\$|[`~]{3,}\w*)[ \t]*\n(.*)\n[ \t]*(?:\$\$|[`~]{3,})\s*\Z")
_BETWEEN_LABELS = re.compile(r"[\s,;/&+]+(?:(?:and|or)\s+)?", re.IGNORECASE)
#: "A good reason …", "I think …": an ordinary word, not a label. After LaTeX, anything may follow.
_ARTICLE_FIRST = re.compile(r"\s*[AI][ \t]+[^\W\d]|\W*?\\", re.IGNORECASE)
#: Separates a label from its explanation, which may name others: "B) …", "**B** …", "B: …".
_SET_OFF = re.compile(r"\W+\w|\w++[*_]*+[.):\]}\n]")
#: Also a label between Chinese or Japanese characters, but not the article of "A city".
_WORDS = re.compile(r"(?!A\s+[a-z])(?:[\u3040-\u9fff]+|[^\W\u3040-\u9fff]+)")
_EMPHASIS = " *`_\"'“”"
_AROUND_LABEL = f"{_EMPHASIS}$()[].:,;。、"
#: "Option (B" and "\\(B\\", of which brackets are stripped, "Option B is correct", "Option …".
_ALONE = re.compile(r"\A(?:OPTION |\\)[^\w?−-]*(\w+)[^\w?]*(?: IS (?:CORRECT|RIGHT))?\Z|\AOPTION ")


def grade_choice(spec: specs.ChoiceScorer, task: Task, answer: str) -> Score:
    choices = choices_of(spec, task)
    chosen = parse_choice(answer, choices)
    expected = [parse_choice(reference, choices) for reference in task.references]
    solved, wanted = bool(chosen) and chosen in expected, " or ".join(dict.fromkeys(expected))
    got = quote(chosen) if chosen else "an empty answer"
    reason = f"chose {chosen}" if solved else f"expected choice {quote(wanted)}, got {got}"
    return scored(solved, reason, answer)


def choices_of(spec: specs.ChoiceScorer, task: Task) -> dict[str, str]:
    """The choices by label; a plain list is labelled A, B, C …"""
    given = labelled(spec.choices or task.metadata.get("choices"))
    return {_label(key.translate(UNSEEN)): text.translate(UNSEEN) for key, text in given.items()}


def parse_choice(answer: str, choices: Mapping[str, str]) -> str:
    """The label that ``answer`` names, any label if none is known; else the normalised answer."""
    answer = _ENCLOSED.sub(r"\1", answer.translate(UNSEEN).replace(". I hope it is correct", "."))
    for _ in range(2):  # a text in a box
        answer = LATEX_BOX.sub(r"\1", answer)
    declared = _DECLARED.findall(answer)
    for said in (answer, *declared[-1:]):
        if found := _named(said, choices):
            return found
    return _label(declared[-1] if declared and not choices else answer)


def _named(said: str, choices: Mapping[str, str]) -> str:
    label, text = _label(said), " ".join(composed(said).casefold().split())
    if label in choices:
        return label
    bare = text.strip(_EMPHASIS)  # 5! may be another choice than 5
    for given in filter(None, (text, bare.rstrip(f".{_EMPHASIS}"), bare.rstrip(f".!{_EMPHASIS}"))):
        for key, choice in choices.items():
            meaning = " ".join(composed(choice).casefold().split())
            if given in (meaning, meaning.rstrip("."), f"{key.casefold()} {meaning}"):
                return key
    full = {
        key: rf"(?i)\W*+(?:option\W++)?{re.escape(key)}\W+{re.escape(choice)}\W*+"
        for key, choice in choices.items()
    }
    lines = [line for line in said.splitlines() if line.strip()][:2]
    listed = [key for key in choices if any(re.fullmatch(full[key], line) for line in lines)]
    if listed and len(listed) == len(lines):  # "B) 4" alone names B; a list of choices names none
        return listed[0] if len(lines) == 1 else ""
    labels = {_label(word) for word in _BETWEEN_LABELS.split(said.strip())} - {""}
    several = len(labels) > 1 and all(len(one) == 1 or one in choices for one in labels)
    if several or not text or _ARTICLE_FIRST.match(said) or _DECLARED.search(said):
        return ""
    first = _label(re.sub(r"(?i)\Aoption (?=\w+:)", "", said).split(maxsplit=1)[0])
    others = () if _SET_OFF.match(said.strip()) else _WORDS.findall(said)
    return first if first in choices and not choices.keys() & {*others} - {first} else ""


def check_choice_references(spec: specs.ChoiceScorer, task: Task) -> str | None:
    choices = choices_of(spec, task)
    for reference in task.references:
        label = parse_choice(reference, choices)
        if not label or (choices and label not in choices):
            return f"the reference {quote(reference)} is none of the choices {', '.join(choices)}"
    return needs_references(spec, task)


def _label(text: str) -> str:
    label = text.translate(PLAIN).strip().lstrip(_AROUND_LABEL).rstrip(f"!{_AROUND_LABEL}")
    return _ALONE.sub(r"\1", re.sub(r"(?<=\w)[^\w?]*です\Z", "", label.upper()))  # "Bです"
