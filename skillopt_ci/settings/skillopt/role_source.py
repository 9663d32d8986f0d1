"""SkillOpt's `model` section as one role sees it, and what becomes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from skillopt_ci.settings.node import Mark, Node
from skillopt_ci.settings.problem import Problem
from skillopt_ci.settings.skillopt.keys import given

_DEFAULT_MODEL = "gpt-5.5"
#: Names that stand for no choice with a backend that has none of OpenAI's models.
_PLACEHOLDERS = ("gpt-5.4", _DEFAULT_MODEL)


@dataclass(frozen=True, slots=True)
class RoleTranslation:
    """A model role in skillopt-ci's form, with what is wrong and what is doubtful about it."""

    node: Node
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class RoleSource:
    """The section as one role sees it."""

    role: str
    model: Node
    environ: Mapping[str, str]

    def get(self, *keys: str) -> Node | None:
        """The first of ``keys`` that is set; null and empty text count as not set."""
        nodes = (self.model.entries.get(key) for key in keys)
        return next((node for node in nodes if given(node)), None)

    def own(self, key: str) -> Node | None:
        """The role's own value of ``key``, else the shared one."""
        return self.get(f"{self.role}_{key}", key)

    def text(self, *keys: str) -> str:
        """The first of ``keys`` that is set, as text."""
        node = self.get(*keys)
        return str(node.value) if node else ""

    def chosen(self) -> Node:
        """The model's name, or the one that SkillOpt would take."""
        return self.get(self.role) or Node(_DEFAULT_MODEL, self.mark)

    def chosen_or(self, default: str) -> Node:
        """The model's name, or ``default`` where it is one of SkillOpt's placeholders."""
        chosen = self.chosen()
        return Node(default, self.mark) if chosen.value in _PLACEHOLDERS else chosen

    @property
    def mark(self) -> Mark:
        """Where the role is mentioned, else where the section is."""
        return (self.model.entries.get(self.role) or self.model).mark

    def remark(self, text: str) -> Problem:
        """Something to say about the role as a whole."""
        return Problem(self.mark, f"model.{self.role}", text)

    def has_variable(self, name: str) -> bool:
        """Whether the environment has a value under ``name``."""
        return bool(self.environ.get(name))

    def served(self, fields: Mapping[str, Node], provider: str = "openai") -> Node:
        """The role at ``provider``, with these fields."""
        return Node({"provider": Node(provider, self.mark), **fields}, self.mark)


def number(node: Node | None, mark: Mark, default: float | None) -> Node:
    """A number that may be written as text; `none`, `off` and `null` mean: leave it out."""
    if node is None:
        return Node(default, mark)
    if not isinstance(node.value, str):
        return node
    if node.value.lower() in ("none", "off", "null"):
        return replace(node, value=None)
    try:
        number = float(node.value)
    except ValueError:
        return node
    return replace(node, value=int(number) if number.is_integer() else number)
