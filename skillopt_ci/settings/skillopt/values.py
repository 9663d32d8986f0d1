"""SkillOpt's keys that stand in another section here, and its other words for the same value."""

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from types import MappingProxyType

from skillopt_ci.settings.node import Node, merge, nested, without

#: Where a key of SkillOpt's `model` section stands here, an older spelling of it included.
_MOVED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "rewrite_max_completion_tokens": ("optimizer", "rewrite_max_completion_tokens"),
        "codex_trace_to_optimizer": ("gradient", "trace_to_optimizer"),
        **dict.fromkeys(("codex_path", "codex_cli_bin", "codex_bin"), ("model", "codex_exec_path")),
        **dict.fromkeys(("sandbox", "codex_sandbox"), ("model", "codex_exec_sandbox")),
    }
)
#: By key: the words that SkillOpt takes besides the one that both know.
_WORDS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "skill_update_mode": {
            "edits": "patch",
            **dict.fromkeys(
                ("rewrite", "suggestions", "rewrite_suggestions"), "rewrite_from_suggestions"
            ),
            **dict.fromkeys(
                ("full_rewrite", "minibatch_full_rewrite", "skill_rewrite_minibatch"),
                "full_rewrite_minibatch",
            ),
        },
        "lr_control_mode": {
            **dict.fromkeys(("manual", "scheduler", "scheduled"), "fixed"),
            **dict.fromkeys(("auto", "optimizer"), "autonomous"),
            **dict.fromkeys(("off", "no_lr"), "none"),
        },
        "longitudinal_pair_policy": {
            **dict.fromkeys(("default", "random", "all"), "mixed"),
            **dict.fromkeys(("change", "delta", "10_01", "01_10"), "changed"),
            **dict.fromkeys(("stable", "same", "00_11"), "unchanged"),
        },
    }
)


def in_place(layer: Node) -> Node:
    """One file with such keys where they belong; the usual spelling in the same file wins."""
    model = layer.entries.get("model")
    moved = {key: node for key, node in model.entries.items() if key in _MOVED} if model else {}
    if model is None or not moved:
        return layer
    rest = replace(layer, value={**layer.entries, "model": without(model, *moved)})
    # Of several spellings the first one listed wins.
    trees = [nested(home, moved[key]) for key, home in _MOVED.items() if key in moved]
    return reduce(merge, [*reversed(trees), rest])


def in_our_words(key: str, node: Node) -> Node:
    """The node with its value as it is spelt here."""
    if key == "leading_words" and isinstance(node.value, str):
        words = [word.strip() for word in node.value.split(",")]
        return replace(node, value=tuple(Node(word, node.mark) for word in words if word))
    if key == "lr_control_mode" and node.value is False:
        return replace(node, value="none")  # YAML reads a bare `off` as false
    word = _WORDS.get(key, {}).get(str(node.value))
    return replace(node, value=word) if word else node
