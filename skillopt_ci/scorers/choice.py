"""Which choice of a multiple-choice task an answer names."""

import re
from collections.abc import Mapping
from string import ascii_uppercase

from skillopt_ci.config import scorers as specs
from skillopt_ci.scorers import base
from skillopt_ci.tasks.records import labelled
from skillopt_ci.tasks.task import Task

#: Declares the rest of the line to be the answer, or the last line below it, maybe in a formula.
_DECLARED = re.compile(
    r"""
    (?: # "## Answer", "**Answer:** …" or "answer": …, unless another declaration follows
        ^(?:[^\w\n]|_)*+(?:the[ ])?(?:final[ ]|correct[ ])?answer["*_ \t]*(?:$|:)
        (?!\W*(?:(?:so|thus|therefore),?[ ])?(?:the[ ](?:\w+[ ])?answer[ ]is
            |the[ ](?:correct|right|best)[ ](?:option|choice)[ ]is
            |(?:the[ ])?(?:\w+[ ])?answer[*_ \t]*:))
    | \b(?:the|my)[ ](?:(?:final|correct|right|best)[ ])?answer[ ]is\b:?
    | # such words of a choice or in another language, if a label follows
        ^(?>.*?(?:\bthe[ ](?:correct|right|best)[ ](?:option|choice)[ ]is
            |答案[是为选]?|(?:答え|正解)は?
            |(?:故|因此|所以)\W?选|정답은?|\b(?:antwort|ответ|réponse|respuesta|risposta|resposta)
                (?:[ ]corr?e(?:ct|tt?)[ae])?(?:[ ](?:ist|est|es|è|é)(?:[ ]la\b)?|\s?[:—])
        ))[:：*]*+(?=\W*+(?!a[ ]\w)\w(?:\b|です|입니다)  # the label: a letter or digit, no article
            (?!.*(?:\b\w(?:\b|입니다)|(?<![a-zÀ-ɏ])[a-z](?![a-zÀ-ɏ]))))  # nor two, as in 汉字
    )[*_ \t]*
    (?:\n[\s$\\[]*+(?=\W*+\w(?!.*(?-i:\b[A-Z]\b)).*+[\s$\\\]]*+\Z))?  # the last line, one label
    (.+)$
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
#: "Therefore, **B** is the correct answer.", but not "A or B is …" or "If B is …".
_CONCLUDED = re.compile(
    r"""
    (?:^(?:[^\w\n]{1,9}[ ])?|[.!]\s|\b(?:so|thus|therefore|hence),?\s)[ *_`"'“([$\\]*+
    (?:(?:option|choice|answer)\s)?[*_`"'“([$\\]*+(\w)[*_`"'”)\]$\\.:]*+\sis\s
    (?:the\s)?(?:answer|(?:correct|right|best)(?:\s(?:answer|option|choice))?)
    (?=[*)]*(?:[.!:;](?!\s*(?:no|wait|but|actually)\b)|\s*$|,?\s(?:because|since|as|not)\b))
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
#: A label and "or New York", "is not correct", "can be ruled out" or "is right?". But "B is not a
#: mammal" may well be the answer.
_DOUBTED = re.compile(
    r"""
    \W*+\w++(?:
        [^\w.!\n]+(?:but[ ])?(?:(?:and|und)[ ](?-i:(?!a[ ]|I['’ ]))\W*\w
            |or|maybe|perhaps|possibly|oder|ou|或)\b
        | [ *`):–—-]*[ ](?:(?:is|was|do|does|did|can|will)[ ])?(?:\w+ly[ ])?
            (?:(?:not|cannot|\w+n['’]t)[ ](?!only\b)(?:\w+[ ]){0,3}
                (?:answer|choice|correct|fit|it|option|right|true|work)|wrong|incorrect)\b
        | [ *`):–—-]*[ ](?:is|was|can|ist|es|est)[ ](?:(?!the\b)\w+[ ])?(?:if|out|false|ruled
            |eliminated|unlikely|almost(?![ ]certain)|partly|partially|falsch|incorrecta?|fausse)\b
        | [*`)]*[ ][^.!\n]*\?
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)
#: One line in a formula or a fenced block, and nothing else; two blocks may name two choices.
_ENCLOSED = re.compile(r"\A\s*(?:\$\$|[`~]{3,}\w*)[ \t]*\n(.*)\n[ \t]*(?:\$\$|[`~]{3,})\s*\Z")
_BETWEEN_LABELS = re.compile(r"[\s,;/&+]+(?:(?:and|or)\s+)?", re.IGNORECASE)
#: "A good reason …", "I think …": an ordinary word, not a label. After LaTeX, anything may follow.
_ARTICLE_FIRST = re.compile(
    r"(?i)\s*[AI][ \t]+(?!because\b|since\b|is (?:the )?(?:correct|right|best))[^\W\d]|\W*?\\"
)
#: Separates a label from its explanation, which may name others: "B) …", "**B** …", "B: …".
_SET_OFF = re.compile(r"\W+\w|\w++[*_]*+[.):\]}\n]")
#: What may name others than the choice before it.
_REASON = re.compile(
    r"(?i)\b(?:because|since)\b(?:(?!\bbut\b)[^.!?;\n]|\.\d)*"
    r"|\bnot\s+(?:option\s+)?[^\w\n]*\w\b"
)
#: May be a label, as in "B) New York"; no note "B flat", no "A: Let's think …" as after "Q: …".
_LETTER = re.compile(r"\b(?!\AA:)([A-Z])[*_]*(?:[.):\]}\n]| [–—-] |[ ,]*\Z)")
#: Also a label between Chinese or Japanese characters, but not the article of "A city".
_WORDS = re.compile(r"(?!A\s+[a-z])(?:[\u3040-\u9fff]+|[^\W\u3040-\u9fff]+)")
_EMPHASIS = " *`_\"'“”✅👉"
_AROUND_LABEL = f"{_EMPHASIS}$()[]{{}}.:,;。、"
#: Between a label and its text.
_MARKS = rf"-–—:.)]\\~…|${_EMPHASIS}"
#: "Option (B" and "\\(B\\", of which brackets are stripped.
_ALONE = re.compile(r"\A(?:(?:OPTION|CHOICE|ANSWER):? |\\)[^\w?−-]*(\w+)[^\w?]*\Z")


def grade_choice(spec: specs.ChoiceScorer, task: Task, answer: str) -> base.Score:
    choices = choices_of(spec, task)
    expected = [parse_choice(reference, choices) for reference in task.references]
    chosen = parse_choice(answer, choices)
    if not choices and {*expected} <= {*ascii_uppercase}:  # their texts stand in the question
        letters = {*_LETTER.findall(_REASON.sub("", chosen))}
        if len(letters) == 1:
            chosen = parse_choice(chosen, dict.fromkeys(letters, ""))
    solved, wanted = bool(chosen) and chosen in expected, " or ".join(dict.fromkeys(expected))
    got = base.quote(chosen) if chosen else "an empty answer"
    reason = f"chose {chosen}" if solved else f"expected choice {base.quote(wanted)}, got {got}"
    return base.scored(solved, reason, answer)


def choices_of(spec: specs.ChoiceScorer, task: Task) -> dict[str, str]:
    """The choices by label; a plain list is labelled A, B, C …"""
    given = labelled(spec.choices or task.metadata.get("choices")).items()
    return {_label(key.translate(base.PLAIN)): text.translate(base.PLAIN) for key, text in given}


def parse_choice(answer: str, choices: Mapping[str, str]) -> str:
    """The label that ``answer`` names, any label if none is known; else the normalised answer."""
    answer = answer.translate(base.PLAIN).replace(". I hope it is correct", ".")
    answer = _ENCLOSED.sub(r"\1", answer)
    for _ in range(2):  # a text in a box
        answer = base.LATEX_BOX.sub(r"\1", answer)
    concluded = {*_CONCLUDED.findall(answer)}
    declared = _DECLARED.findall(answer) or (list(concluded) if len(concluded) == 1 else [])
    for said in (answer, *declared[-1:]):
        if found := _alone(said, choices) or _first(said, choices):
            return found
    named = [_alone(one, choices) for one in answer.strip().split("\n\n")]
    if not declared and named[-1] and len({*named} - {""}) == 1:
        return named[-1]
    return _label(declared[-1] if declared and not choices else answer)


def _alone(said: str, choices: Mapping[str, str]) -> str:
    """The choice whose label or text, or both, is all that is ``said``."""
    label = _label(said)
    return label if label in choices else _meant(said, choices) or _pair(said, choices) or ""


def _meant(said: str, choices: Mapping[str, str]) -> str:
    """The choice whose text is ``said``; if none is, that of which other marks are around it."""
    plain, bare = _bared(said)
    loose = bare.strip(f"(){{}}{_EMPHASIS}").rstrip(f".!){_EMPHASIS}")  # 5! may be another than 5
    meanings = {key: _bared(choice) for key, choice in choices.items()}
    found = (
        key
        for given in filter(None, (plain, bare, loose))
        for bared in (0, 1)
        for key, meaning in meanings.items()
        if given == meaning[bared]
    )
    return next(found, "")


def _bared(text: str) -> tuple[str, str]:
    plain = " ".join(base.composed(text).casefold().split())
    return plain, plain.strip(_EMPHASIS).rstrip(f".{_EMPHASIS}")


def _pair(line: str, choices: Mapping[str, str]) -> str | None:
    """The choice of "B) 4" or "4 (B)"; empty if label and text only belong to two choices."""
    apart = None
    for key, choice in choices.items():
        label = rf"(?:option\W{{1,9}})?{re.escape(key)}"
        for pair in (rf"(?i)\W*{label}\W(.+)", rf"(?i)(.+?)\W{{1,9}}{label}\W{{0,9}}"):
            if found := re.fullmatch(pair, line):
                spaced = re.sub(rf"\A[{re.escape(_MARKS)}]* ", "", found[1])
                texts = (found[1], spaced, found[1].strip(_MARKS))
                meant = (_meant(text, {key: choice}) or _meant(text, choices) for text in texts)
                if (named := next(filter(None, meant), None)) == key:
                    return key
                apart = apart if named is None else ""
    return apart


def _first(said: str, choices: Mapping[str, str]) -> str:
    """The choice that begins ``said``, unless what follows denies it or names another."""
    lines = [line for line in said.splitlines() if line.strip()][:2]
    pairs = [_pair(line, choices) for line in lines]
    labels = {_label(word) for word in _BETWEEN_LABELS.split(said.strip())} - {""}
    several = len(labels) > 1 and all(len(one) == 1 or one in choices for one in labels)
    listed = None not in pairs or pairs[0] == ""
    if several or listed or _ARTICLE_FIRST.match(said) or _DECLARED.search(said):
        return ""
    words = re.sub(r"(?i)\A\W*option\W+", "", said.strip())
    first = _label(words.split(maxsplit=1)[0])
    if first not in choices:
        return ""
    own = rf"(?i)\A(\W*\w+)[^\w\n]*{re.escape(choices[first])}"  # "C) Maybe, since …"
    claim = re.sub(own, r"\1", words) if choices[first] else words
    if pairs[0] is None and _DOUBTED.match(claim):
        return ""
    if words == said.strip() and _SET_OFF.match(words):
        return first
    return "" if choices.keys() & {*_WORDS.findall(_REASON.sub("", said))} - {first} else first


def check_choice_references(spec: specs.ChoiceScorer, task: Task) -> str | None:
    choices = choices_of(spec, task)
    for one in task.references:
        label = parse_choice(one, choices)
        if not label or (choices and label not in choices):
            return f"the reference {base.quote(one)} is none of the choices {', '.join(choices)}"
    return base.needs_references(spec, task)


def _label(text: str) -> str:
    label = text.strip().lstrip(_AROUND_LABEL).rstrip(f"!{_AROUND_LABEL}")
    label = re.sub(r"(?<=\w)[^\w?]*(?:です|입니다)\Z", "", label.upper())  # "Bです"
    return _ALONE.sub(r"\1", label)
