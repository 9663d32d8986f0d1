"""The run's folder in the tree, ``.skillopt/<run>/``: names, readers and writers of its files."""

import json
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError

from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger import records
from skillopt_ci.ledger.summary import Summary
from skillopt_ci.text import rounded

_Model = TypeVar("_Model", bound=BaseModel)

#: What all runs' folders have in common.
FIXED_FILES = {
    # GitHub folds such files in reviews and leaves them out of language statistics
    ".skillopt/.gitattributes": "** linguist-generated=true\n",
    ".skillopt/README.md": """\
This folder is the memory of skillopt-ci, which trains a skill of this repository step by step.
`<run>/state.json` says where training stands, `<run>/history.jsonl` has one line per event,
`<run>/steps/` the evidence of each step, `<run>/best_skill.md` the best text measured so far, and
`<run>/initial_skill.md` the text that training started from.
It is written by the trainer; edit the skill itself instead.
""",
}


class RunFolder:
    def __init__(self, run: str) -> None:
        self.run = run
        self.path = f".skillopt/{run}"
        self.state = f"{self.path}/state.json"
        self.history = f"{self.path}/history.jsonl"
        self.summary = f"{self.path}/summary.json"
        self.best_skill = f"{self.path}/best_skill.md"
        self.initial_skill = f"{self.path}/initial_skill.md"
        self.confirmed_skill = f"{self.path}/confirmed_skill.md"
        """The last confirmed skill; `initial_skill` until there is one."""
        self.badge, self.card = f"{self.path}/badge.json", f"{self.path}/card.json"
        """Score, number of tasks, model and day, for shields.io and for registries."""
        self.meta_skill = f"{self.path}/meta_skill.md"
        """The optimizer's advice to itself from earlier epochs."""

    def step(self, number: int) -> str:
        return f"{self.path}/steps/{number:04d}.json"

    def boundary(self, epoch: int) -> str:
        return f"{self.path}/epochs/{epoch:02d}.json"

    def epoch_skill(self, epoch: int) -> str:
        return f"{self.path}/epochs/{epoch:02d}.md"

    def confirmation(self, test: int) -> str:
        return f"{self.path}/confirmations/{test:02d}.json"


class CommittedFolder(RunFolder):
    """The folder in one commit; ``read`` returns a file, None if it is not there."""

    def __init__(self, run: str, read: Callable[[str], str | None]) -> None:
        super().__init__(run)
        self.read = read

    def read_state(self) -> records.State | None:
        """Like the other readers, raises RepositoryError if the file is not a valid record."""
        return self._read(self.state, records.State)

    def read_step(self, number: int) -> records.StepRecord | None:
        return self._read(self.step(number), records.StepRecord)

    def read_boundary(self, epoch: int) -> records.BoundaryRecord | None:
        return self._read(self.boundary(epoch), records.BoundaryRecord)

    def read_conclusion(self, entry: records.HistoryEntry) -> records.Conclusion | None:
        """How the step or epoch's end in ``entry`` came out; None for other kinds of entry."""
        step, end = self.step(entry.step), self.boundary(entry.epoch)
        path = {"step": step, "notes": step, "slow_update": end}.get(entry.kind)
        return None if path is None else self._read(path, records.Conclusion)

    def read_confirmation(self, test: int) -> records.ConfirmationRecord | None:
        return self._read(self.confirmation(test), records.ConfirmationRecord)

    def read_summary(self) -> Summary | None:
        return self._read(self.summary, Summary)

    def read_history(self) -> tuple[records.HistoryEntry, ...]:
        return tuple(
            cast("records.HistoryEntry", _line(records.HistoryEntry, text, f"{self.history}:{n}"))
            for n, text in enumerate(filter(None, (self.read(self.history) or "").split("\n")), 1)
        )

    def _read(self, path: str, model: type[_Model]) -> _Model | None:
        text = self.read(path)
        return None if text is None else cast("_Model", _document(model, text, path))


def _validated(model: type[BaseModel], text: str, where: str) -> BaseModel:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise RepositoryError(
            f"{where} on the skills branch is not a record of this version of skillopt-ci: "
            f"{key}: {first['msg']}",
            hint="It may come from a newer version (upgrade), or from an edit by hand (undo "
            f"it: `git log -- {where.partition(':')[0]}` shows who changed it).",
        ) from error


# each step reads the whole history and the documents of the latest steps
_line = lru_cache(4096)(_validated)
_document = lru_cache(128)(_validated)


def standing_files(
    folder: RunFolder, state: records.State, summary: Summary | None, model: str, day: str
) -> dict[str, str | None]:
    """The badge and the card for the current skill and score of ``state``."""
    measured = state.current.measurement
    tested = () if summary is None else (summary.best, summary.last)
    test = next((one.test for one in tested if one.sha256 == state.current.sha256), None)
    score, n, what = measured.score, measured.n, "tasks"
    if test is not None:
        score, n, what = test.hard, test.n, "test tasks"
    marks = ", provisional" if state.provisional else ""
    marks += ", simulated" if state.simulated else ""
    badge = {
        "schemaVersion": 1,
        "label": f"skill {state.run}",
        "message": f"{rounded(score, 2)} on {n} {what}, {model}{marks}, {day}",
        "color": "lightgrey" if state.simulated else "blue",
    }
    card = {
        "version": 1,
        "skill": state.skill,
        "run": state.run,
        "sha256": state.current.sha256,
        "score": measured.score,
        "n": measured.n,
        "test_score": None if test is None else test.hard,
        "test_n": 0 if test is None else test.n,
        "model": model,
        "date": day,
        "steps": state.step,
        "simulated": state.simulated,
        **({} if state.confirmed is None else {"provisional": state.provisional}),
    }
    return {
        path: json.dumps(told, ensure_ascii=False, indent=1) + "\n"
        for path, told in ((folder.badge, badge), (folder.card, card))
    }


def document(record: BaseModel) -> str:
    """A record as a JSON file, indented for people and diffs."""
    return record.model_dump_json(indent=1) + "\n"
