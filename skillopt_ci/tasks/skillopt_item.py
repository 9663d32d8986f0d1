"""Question-answering items as SkillOpt's split folders hold them, put into this product's words."""

import string
from collections.abc import Mapping

_REFERENCE_KEYS = ("references", "reference", "answers", "answer", "correct_choice")
_OWN_KEYS = ("id", "task_type", "files", "images", "metadata", "scorer", "reference_text")
_IMAGE = "image_path"
_CONTEXT_CHARS = 6000
_DOCUMENT = "[DOC]"


def is_skillopt_item(value: Mapping[str, object]) -> bool:
    """Whether the record asks through ``question``, and not through keys of our own."""
    return isinstance(value.get("question"), str) and not value.keys() & {"prompt", "messages"}


def from_skillopt(value: Mapping[str, object]) -> dict[str, object]:
    """The same task under our keys; what has no key here is kept as metadata."""
    choices = _labelled(value.get("choices"))
    sections = [
        ("Context", _clipped(str(value.get("context") or ""))),
        ("Question", str(value["question"]).strip()),
        ("Choices", "\n".join(f"{label}. {text}" for label, text in choices.items())),
    ]
    entry = {key: value[key] for key in _OWN_KEYS if key in value}
    entry["prompt"] = "\n\n".join(f"## {title}\n{text}" for title, text in sections if text)
    entry["references"] = _references(value)
    if isinstance(value.get(_IMAGE), str):
        entry.setdefault("images", [value[_IMAGE]])
    metadata = entry.get("metadata", {})
    if isinstance(metadata, Mapping):
        rest = {key: value[key] for key in value if key not in _KNOWN_KEYS}
        entry["metadata"] = {**rest, **({"choices": choices} if choices else {}), **metadata}
    return entry


_KNOWN_KEYS = {"question", "context", "choices", _IMAGE, *_REFERENCE_KEYS, *_OWN_KEYS}


def _references(value: Mapping[str, object]) -> object:
    found = next((value[key] for key in _REFERENCE_KEYS if key in value), ())
    return found.get("label", found) if isinstance(found, Mapping) else found


def _labelled(choices: object) -> dict[str, str]:
    if isinstance(choices, Mapping):
        return {str(label): str(text) for label, text in choices.items()}
    if not isinstance(choices, list):
        return {}
    labelled = {}
    for letter, choice in zip(string.ascii_uppercase, choices, strict=False):
        parts = choice if isinstance(choice, Mapping) else {"text": choice}
        labelled[str(parts.get("label", letter))] = str(parts.get("text", ""))
    return labelled


def _clipped(context: str) -> str:
    """At most 6000 characters: the leading documents that fit whole, else the start of the first.

    Documents begin with ``[DOC]``.
    """
    text = context.strip()
    if len(text) <= _CONTEXT_CHARS:
        return text
    end = text.rfind(_DOCUMENT, 1, _CONTEXT_CHARS + len(_DOCUMENT))
    return text[:end].strip() if end > 0 else f"{text[:_CONTEXT_CHARS]}...[truncated]"
