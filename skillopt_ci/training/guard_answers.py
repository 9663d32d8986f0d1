"""Reference answers in a text: a skill that knows the answers has learned nothing.

Only answers that tell something are looked for. A short one ("yes", "4"), one that several tasks
share (a label), or one that another task's prompt names anyway (the vocabulary of the field) says
nothing about its task.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from skillopt_ci.tasks.task import Task

#: So many letters and digits, or so many digits alone, are no coincidence.
_TELLING = 12
_TELLING_DIGITS = 5
#: Of a longer answer so many words in a row are looked for.
_RUN = 8

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of ``tasks``, in normalised words, by the ids of the tasks that have them."""

    tasks: Sequence[Task] = ()
    owners: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, tasks: Iterable[Task]) -> "Answers":
        """The answers of all ``tasks``, long-form references included."""
        listed = tuple(tasks)
        owners: dict[str, set[str]] = {}
        for task in listed:
            for reference in (*task.references, task.reference_text):
                if _tells(answer := normalised(reference)):
                    owners.setdefault(answer, set()).add(task.id)
        return cls(listed, {answer: frozenset(ids) for answer, ids in owners.items()})

    def given_away(self, text: str, known: str) -> str:
        """Return the id of a task whose answer stands in ``text`` and not in ``known``."""
        shown, familiar = normalised(text), normalised(known)
        runs = _runs(shown)
        for answer in self.owners:
            for phrase in (answer,) if answer.count(" ") <= _RUN + 1 else runs:
                held = phrase in answer and phrase in shown
                if held and phrase not in familiar and (owner := self._owner(phrase)):
                    return owner
        return ""

    def _owner(self, phrase: str) -> str:
        """The one task that ``phrase`` is the answer of, if nothing else speaks of it."""
        owners = {one for answer, ids in self.owners.items() if phrase in answer for one in ids}
        if len(owners) != 1:
            return ""
        (owner,) = owners
        others = (task for task in self.tasks if task.id != owner)
        return "" if any(phrase in normalised(_asked(task)) for task in others) else owner


def normalised(text: str) -> str:
    """Return the words of ``text`` in lower case, a space before and after each."""
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return f" {' '.join(words)} "


def _runs(words: str) -> tuple[str, ...]:
    listed = words.split()
    runs = (listed[start : start + _RUN] for start in range(len(listed) - _RUN + 1))
    return tuple(phrase for run in runs if _tells(phrase := f" {' '.join(run)} "))


def _tells(answer: str) -> bool:
    compact = answer.replace(" ", "")
    return len(compact) >= _TELLING or sum(map(str.isdigit, compact)) >= _TELLING_DIGITS


def _asked(task: Task) -> str:
    said = (message.content for message in task.messages)
    return "\n".join((*said, *(file.content for file in task.files)))
