"""The prompts of a run: the built-in files, each replaceable by one of the user's own."""

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from skillopt_ci.errors import UsageError

NAMES = (
    "target",
    "analyst_error",
    "analyst_success",
    "merge_failure",
    "merge_success",
    "merge_final",
    "ranking",
    "analyst_error_rewrite",
    "analyst_success_rewrite",
    "merge_failure_rewrite",
    "merge_success_rewrite",
    "merge_final_rewrite",
    "ranking_rewrite",
    "rewrite",
    "analyst_error_full_rewrite",
    "analyst_success_full_rewrite",
    "merge_failure_full_rewrite",
    "merge_success_full_rewrite",
    "merge_final_full_rewrite",
    "analyst_error_skill_aware",
    "analyst_success_skill_aware",
    "appendix_consolidate",
    "lr_autonomous",
    "slow_update",
    "meta_skill",
    "agent",
    "agent_reminder",
    "external",
)

#: Those that speak to whoever works on tasks; each must take in the skill, or where it stands.
FOR_THE_TARGET = ("target", "agent", "external")

#: Where those prompts take in the skill.
PLACEHOLDER = "{skill}"

_SECTION_START = re.compile(r"^(?=#)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Prompts:
    """The system prompt of every stage, by name."""

    texts: Mapping[str, str]

    @classmethod
    def load(
        cls, override_dir: Path | None = None, instead: Mapping[str, str] = MappingProxyType({})
    ) -> "Prompts":
        """Read the built-in prompts and, over them, the files ``<name>.md`` of ``override_dir``.

        Texts of ``instead`` stand in for built-in ones of the same name.

        Raises :class:`~skillopt_ci.errors.UsageError` for a folder that is not there, a file that
        replaces nothing, cannot be read or is blank, and one for the target without ``{skill}``.
        """
        overrides = {} if override_dir is None else _overrides(override_dir)
        return cls(
            {name: overrides.get(name) or instead.get(name) or _built_in(name) for name in NAMES}
        )

    def text(self, name: str) -> str:
        """Return the prompt called ``name``, one of :data:`NAMES`."""
        return self.texts[name]

    def target(self, skill: str) -> str:
        """Return the target's system prompt with ``skill`` in it, see :meth:`with_skill`."""
        return self.with_skill("target", skill)

    def with_skill(self, name: str, skill: str) -> str:
        """Return the prompt called ``name``, one of :data:`FOR_THE_TARGET`, with ``skill`` in it.

        A blank skill leaves out the section (heading to next heading) that would hold it. Nothing
        inside the skill is interpreted.
        """
        template = self.text(name)
        if skill.strip():
            return template.replace(PLACEHOLDER, skill.strip())
        sections = _SECTION_START.split(template)
        kept = "".join(section for section in sections if PLACEHOLDER not in section)
        return kept.strip() or template.replace(PLACEHOLDER, "").strip()

    @property
    def prompts_sha256(self) -> str:
        """Fingerprint of all the prompts."""
        canonical = json.dumps(dict(self.texts), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()


def _built_in(name: str) -> str:
    file = resources.files("skillopt_ci.prompts") / f"{name}.md"
    return file.read_text(encoding="utf-8").strip()


def _overrides(folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        raise UsageError(
            f"{folder}: there is no such folder of prompts.",
            hint="The key `prompts` names a folder whose files replace built-in prompts.",
        )
    files = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
    _refuse_unknown(files)
    return {file.stem: _own_text(file) for file in files}


def _refuse_unknown(files: Iterable[Path]) -> None:
    valid = [f"{name}.md" for name in NAMES]
    for file in files:
        if file.name not in valid:
            nearest = difflib.get_close_matches(file.name, valid, n=1)
            meant = f"Did you mean {nearest[0]}? " if nearest else ""
            raise UsageError(
                f"{file}: replaces no prompt.", hint=f"{meant}Valid names: {', '.join(valid)}."
            )


def _own_text(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read as UTF-8 text: {error}") from error
    if not text:
        raise UsageError(f"{file}: the prompt is blank.", hint="Delete it to use the built-in one.")
    if file.stem in FOR_THE_TARGET and PLACEHOLDER not in text:
        raise UsageError(
            f"{file}: the placeholder {PLACEHOLDER} is missing.",
            hint="Without it the target model would never read the skill.",
        )
    return text
