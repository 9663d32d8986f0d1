"""Orders to the optimizer: text that would steer training if it stood in the skill."""

import re
from collections.abc import Mapping

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
        rf"|tell|hey)[ ,:]{{1,3}}(?:an? |the |all )?{_WHO}s?\b|^\W*{_WHO}s?\s*[:,]",
        re.IGNORECASE | re.MULTILINE,
    ),
    "it addresses an analyst": re.compile(
        r"\b(?:as|you are|dear|attention|note to|message (?:to|for))[ ,:]{1,3}(?:an? |the |all )?"
        r"analysts?\b",
        re.IGNORECASE,
    ),
    "it imitates the head of a prompt": re.compile(
        r"^\W*Stage:\s*(?:target|analyst|merge|ranking|rewrite|lr_autonomous|slow_update"
        r"|meta_skill|appendix)\w*"
        r"|^\W*#{1,6} (?:Current Skill|(?:Edits|Suggestions) Budget|Hidden Reference"
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
        r"<\|\w+\|>|\[/?INST\]|<</?SYS>>|^\W*\[(?:system|assistant)\]", re.IGNORECASE | re.MULTILINE
    ),
}


def order_to_the_optimizer(text: str, known: str) -> str:
    """Return how ``text`` speaks to the optimizer, empty if it does not.

    Words that ``known`` has as well are the skill's own business, such as an analyst's handbook.
    """
    familiar = " ".join(known.casefold().split())
    for what, pattern in _ORDERS.items():
        for found in pattern.finditer(text):
            if " ".join(found[0].casefold().split()) not in familiar:
                return what
    return ""
