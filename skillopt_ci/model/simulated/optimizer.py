"""The simulated optimizer: answers each stage of training in the agreed JSON."""

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from skillopt_ci.messages import Message
from skillopt_ci.model.simulated.analyst import analyse_failures, analyse_successes
from skillopt_ci.model.simulated.brief import (
    first_prompt,
    read_analyst_brief,
    read_comparison_brief,
    read_merge_brief,
    read_ranking_brief,
    read_skill,
    stage_of,
)
from skillopt_ci.model.simulated.dice import Dice
from skillopt_ci.model.simulated.document import as_document, merge_documents
from skillopt_ci.model.simulated.epoch_end import advise, remember
from skillopt_ci.model.simulated.judge import is_grading, judge
from skillopt_ci.model.simulated.lapse import condense, lapse_notes
from skillopt_ci.model.simulated.merge import merge_edits
from skillopt_ci.model.simulated.ranking import rank
from skillopt_ci.model.simulated.step_size import choose_size
from skillopt_ci.model.simulated.suggestion import as_suggestions, merge_suggestions, rewrite
from skillopt_ci.model.simulated.temperament import Temperament

Reply = dict[str, object]


def propose(messages: Sequence[Message], dice: Dice, temperament: Temperament) -> str:
    """Return the optimizer's reply to whatever stage the system prompt names."""
    stage = stage_of(messages)
    if not stage and is_grading(messages):
        return judge(messages, dice)
    answer = _STAGES.get(stage)
    prompt = first_prompt(messages)
    reply = answer(prompt, dice, temperament) if answer else {}
    if stage.startswith("analyst_error") and _wants_notes(messages):
        reply["appendix_notes"] = lapse_notes(read_analyst_brief(prompt))
    if reply and dice.chance("malformed", temperament.malformed):
        return _malformed(reply, dice)
    return _worded(reply, dice)


def _wants_notes(messages: Sequence[Message]) -> bool:
    return any("appendix_notes" in one.content for one in messages if one.role == "system")


def _failures(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    return analyse_failures(read_analyst_brief(prompt), dice, temperament)


def _successes(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    return analyse_successes(read_analyst_brief(prompt), dice, temperament)


def _merge(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    return merge_edits(read_merge_brief(prompt), dice, temperament)


def _rank(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    del dice, temperament
    return rank(*read_ranking_brief(prompt))


def _failures_as_suggestions(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    return analyse_failures(read_analyst_brief(prompt), dice, temperament, as_suggestions)


def _successes_as_suggestions(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    return analyse_successes(read_analyst_brief(prompt), dice, temperament, as_suggestions)


def _failures_as_document(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    spell = as_document(read_skill(prompt), dice, temperament)
    return analyse_failures(read_analyst_brief(prompt), dice, temperament, spell)


def _successes_as_document(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    spell = as_document(read_skill(prompt), dice, temperament)
    return analyse_successes(read_analyst_brief(prompt), dice, temperament, spell)


def _slow_update(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    return advise(read_comparison_brief(prompt), dice, temperament)


def _meta_skill(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    del dice, temperament
    return remember(read_comparison_brief(prompt))


def _condense(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    del dice, temperament
    return condense(prompt)


_STAGES: Mapping[str, Callable[[str, Dice, Temperament], Reply]] = MappingProxyType(
    {
        "analyst_error": _failures,
        "analyst_success": _successes,
        "merge_failure": _merge,
        "merge_success": _merge,
        "merge_final": _merge,
        "ranking": _rank,
        "analyst_error_rewrite": _failures_as_suggestions,
        "analyst_success_rewrite": _successes_as_suggestions,
        "merge_failure_rewrite": merge_suggestions,
        "merge_success_rewrite": merge_suggestions,
        "merge_final_rewrite": merge_suggestions,
        "ranking_rewrite": _rank,
        "rewrite": rewrite,
        "analyst_error_full_rewrite": _failures_as_document,
        "analyst_success_full_rewrite": _successes_as_document,
        "merge_failure_full_rewrite": merge_documents,
        "merge_success_full_rewrite": merge_documents,
        "merge_final_full_rewrite": merge_documents,
        "lr_autonomous": choose_size,
        "appendix_consolidate": _condense,
        "slow_update": _slow_update,
        "meta_skill": _meta_skill,
    }
)


def _worded(reply: Reply, dice: Dice) -> str:
    """Write ``reply`` as chat models do: bare, in a fence, or with a sentence before it."""
    text = json.dumps(reply, ensure_ascii=False, indent=2)
    match dice.pick("wording", ("bare", "fenced", "introduced")):
        case "bare":
            return text
        case "fenced":
            return f"```json\n{text}\n```"
        case _:
            return f"I have looked at everything. My answer:\n\n```json\n{text}\n```\n"


def _malformed(reply: Reply, dice: Dice) -> str:
    text = json.dumps(reply, ensure_ascii=False)
    match dice.pick("malformation", ("truncated", "prose", "types")):
        case "truncated":
            return text[: len(text) // 3]
        case "prose":
            return "The answers look mostly fine; a few rules about formatting would help."
        case _:
            return json.dumps({"patch": "see above", "edits": 3, "selected_indices": "all"})
