"""The files of a run's folder in the tree, from the records that are read back from them."""

import inspect
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from reference_pages.markdown import table
from reference_pages.objects import part
from skillopt_ci.ledger import evidence, records, summary
from skillopt_ci.ledger.folder import RunFolder
from skillopt_ci.util import attribute_docs

_RUN = RunFolder("<run>")
#: The files that hold JSON, and the record that each (or each line of it) is.
_FILES: dict[str, tuple[type[BaseModel], str]] = {
    _RUN.state: (records.State, "where training stands"),
    _RUN.history: (records.HistoryEntry, "one line for each event, oldest first"),
    _RUN.path + "/steps/NNNN.json": (records.StepRecord, "all evidence of a step"),
    _RUN.path + "/epochs/EE.json": (records.BoundaryRecord, "all evidence of an epoch's end"),
    _RUN.path + "/confirmations/KK.json": (records.ConfirmationRecord, "a test by fresh attempts"),
    _RUN.summary: (summary.Summary, "what came of the run, written by `finish`"),
}
_TEXTS = {
    _RUN.initial_skill: "the skill that training started from",
    _RUN.best_skill: "the best skill measured so far",
    _RUN.path + "/epochs/EE.md": "the skill that an epoch ended with",
    _RUN.confirmed_skill: "the last confirmed skill",
    _RUN.meta_skill: "the optimizer's memory of earlier epochs",
    _RUN.badge: "for shields.io ([a badge](../action.md#a-badge-and-a-card-for-registries))",
    _RUN.card: "the same facts for other programs",
    _RUN.path + "/.gitattributes": "keeps filters of git, such as Git LFS, away from these files",
}
_HEAD = f"""\
# Records

The skills branch `skillopt/<run>` carries the trainer's memory beside the skill, in
`{_RUN.path}/`. These files are validated when they are read back: a key that this version does
not know is refused. The version of their form is {records.RECORD_VERSION}.

"""


def page() -> str:
    """The page: which file holds what, then every record."""
    rows = [
        (f"`{file}`", f"[{cls.__name__}](#{cls.__name__.lower()}): {text}")
        for file, (cls, text) in _FILES.items()
    ]
    texts = [(f"`{file}`", text) for file, text in _TEXTS.items()]
    schemas = _schemas()
    parts = [part(schema, name, name, schemas) for name, schema in schemas.items()]
    return _HEAD + table(("file", "what it holds"), rows + texts) + "\n" + "\n".join(parts)


def _schemas() -> dict[str, Any]:
    """The schema of each record by its name, with the docstrings of its keys; files first."""
    roots = [cls for cls, _ in _FILES.values()]
    _, whole = models_json_schema([(cls, "validation") for cls in roots])
    schemas: dict[str, Any] = whole["$defs"]
    first = [cls.__name__ for cls in roots]
    for name, schema in schemas.items():
        for key, text in _texts(name).items():
            schema["properties"][key]["description"] = text
    return {name: schemas[name] for name in [*first, *sorted(schemas.keys() - set(first))]}


def _texts(name: str) -> dict[str, str]:
    cls = next((vars(one)[name] for one in (records, evidence, summary) if name in vars(one)), None)
    return attribute_docs(cls) if inspect.isclass(cls) else {}
