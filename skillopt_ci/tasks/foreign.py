"""Converts other tools' evaluations into records of a task file, and reports what is lost."""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import yaml

from skillopt_ci.config.yaml import load_yaml
from skillopt_ci.errors import TaskFileError, UsageError
from skillopt_ci.tasks.files import TaskRecord, read_records, read_source, refuse
from skillopt_ci.tasks.records import REFERENCE_KEYS, golds, labelled, task_files, to_task
from skillopt_ci.tasks.task import Task, content_key

Entry = dict[str, Any]
#: Columns with the prompt, and columns with the right answer; the first one present counts.
_ASKS = ("prompt", "messages", "input", "question", "query", "instruction")
_ANSWERS = (
    *("references", "reference", "ideal", "expected", "expected_output", "answers", "answer"),
    *("target", "label", "output", "ground_truth"),
)
#: What to do, and with what: the columns of Alpaca's and many other sets of instructions.
_ALPACA = ("instruction", "input")
#: Numbers whose sign, point or slash `normalized` would drop: -6, $1,234.50, 1.5 %, 1 1/2.
_WOULD_CHANGE = re.compile(
    r"(?=.*[-+./])[-+]?(?:[$€£]\s?)?"
    r"(?:(?:\d+\s)?\d+/[1-9]\d*|(?:\d{1,3}(?:,\d{3})+|\d+)?\.\d+|\d{1,3}(?:,\d{3})+|\d+)"
    r"(?:\s?[%$€£])?"
)
#: The number below a worked solution, as in GSM8K; a heading in Markdown begins like it.
_WORKED_OUT = re.compile(r"####\s*(\S*\d\S*)\s*\Z")


@dataclass(slots=True)
class Foreign:
    """Task entries, those that only ask whether the skill is loaded, and what is lost."""

    entries: list[Entry] = field(default_factory=list)
    triggers: list[Entry] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    #: The scorer that all entries share, if any.
    scorer: Entry | None = None


def read_foreign(file: Path, prompt: str, reference: str) -> Foreign:
    """Read ``file`` in any supported format; entries that would not load as tasks are lost.

    ``prompt`` and ``reference`` are names of columns, for formats with rows.
    """
    suffix, found = file.suffix.lower(), Foreign()
    read: Callable[[str], Any] = json.loads if suffix == ".json" else load_yaml
    try:
        whole = read(read_source(file)) if suffix in (".json", ".yaml", ".yml") else None
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise TaskFileError(f"cannot be read: {error}", file=file) from error
    if isinstance(whole, dict) and {"prompts", "tests"} <= whole.keys():
        raise UsageError(
            f"{file}: a promptfoo configuration needs no task files",
            hint=f"Train on it as it is: `environment: {{type: promptfoo, file: {file.name}}}`.",
        )
    cases = whole.get("evals", whole.get("cases")) if isinstance(whole, dict) else whole
    dicts = [one for one in cases if isinstance(one, dict)] if isinstance(cases, list) else []
    behavior = not reference and any({"query", "expected_behavior"} <= one.keys() for one in dicts)
    if dicts and (cases is not whole or behavior or any("should_trigger" in one for one in dicts)):
        _agent_skill(dicts, file.parents[file.parent.name == "evals"], found)
    else:
        _rows(file, prompt, reference, found)
    kept, seen = list[Entry](), set[str]()
    for raw in found.entries:
        entry = {key: one for key, one in raw.items() if one not in (None, "", [], {})}
        made = to_task(TaskRecord(entry, file, 1))
        if not isinstance(made, Task):
            found.lost.append(f"{raw['id']}: {'; '.join(one.message for one in made)}")
        elif seen & (same := {content_key(made), made.id}):
            found.lost.append(f"{raw['id']}: an earlier one has this id, or asks the same")
        else:
            seen |= same
            kept.append(entry)
    scorers = [entry.get("scorer") for entry in kept]
    if scorers and all(one == scorers[0] for one in scorers):
        found.scorer = scorers[0]
        for entry in kept:
            entry.pop("scorer", None)
    return replace(found, entries=kept, lost=[*dict.fromkeys(found.lost)])


# evals/evals.json of the Agent Skills guide, and queries with `should_trigger` or what to expect.


def _agent_skill(cases: Sequence[Entry], skill: Path, found: Foreign) -> None:
    for number, case in enumerate(cases, 1):
        rest = dict(case)
        name, goal = str(rest.pop("id", number)), _written(rest.pop("expected_output", "") or "")
        ask = rest.pop("prompt", None) or rest.pop("query", None) or rest.pop("input", None)
        expected = ("expectations", "assertions", "expected_behavior")
        points = [one for key in expected for one in _listed(rest.pop(key, None))]
        files = {}
        for path in map(str, _listed(rest.pop("files", None))):
            try:
                files[path] = task_files([path], skill)[0].content
            except (TaskFileError, ValueError) as error:
                found.lost.append(f"the file {path}: {getattr(error, 'message', error)}")
        entry = {"id": name, "prompt": ask, "metadata": rest}
        if goal or points:
            each = [f"{goal}\n\nEach of these holds:".strip(), *map(_written, points)]
            # In the guide, a pass means that every expectation is met.
            how = {"rubric": "\n- ".join(each), "hard_at": 1.0} if points else {"rubric": goal}
            found.entries.append({**entry, "files": files, "scorer": {"type": "rubric", **how}})
        elif ask and "should_trigger" in rest:
            found.triggers.append(entry)
        else:
            found.lost.append(f"{name}: it does not say what is expected")
    rests = [item for one in found.entries for item in one["metadata"].items()]
    if unused := dict.fromkeys(key for key, one in rests if one and isinstance(one, list | dict)):
        found.lost.insert(0, f"{', '.join(unused)}: not graded, only kept as metadata")


def _asked(value: object, name: str, found: Foreign) -> Entry:
    if not isinstance(value, list):
        return {"prompt": value}
    turns = [
        {key: one.get(key) for key in ("role", "content")} for one in value if isinstance(one, dict)
    ]
    if turns and turns[-1]["role"] != "user":
        found.lost.append(f"{name}: that its last message is the {turns[-1]['role']}'s")
        turns[-1]["role"] = "user"
    return {"messages": turns}


# Rows of CSV and JSON, of OpenAI's evals (samples, items, results) and of Hugging Face's server.


def _rows(file: Path, prompt: str, reference: str, found: Foreign) -> None:
    rows = list[tuple[int, TaskRecord, Entry]]()
    for number, record in enumerate(read_records(file), 1):
        if isinstance(record, TaskRecord):
            # a table of its own may have a column `row`
            item = record.value.get(
                "row" if "row_idx" in record.value else "item", record.value.get("datasource_item")
            )
            rows.append((number, record, item if isinstance(item, dict) else record.value))
        else:
            refuse([record] if record.is_last else [])
            found.lost.append(str(record))
    # of the whole file: in a row without an answer, another column would pass for one
    columns = dict.fromkeys(key for _, _, item in rows for key in item)
    usual = prompt or next((key for key in _ASKS if key in columns), "")
    answer = reference or next((key for key in _ANSWERS if key in columns), "")
    if rows and not {usual, answer} <= columns.keys():
        lacks, option = (
            ("right answer", "--reference") if usual in columns else ("question", "--prompt")
        )
        raise UsageError(
            f"{file}: no column is known to hold the {lacks}",
            hint=f"Name it with {option}. The columns are {', '.join(columns)}.",
        )
    alpaca = not prompt and columns.keys() >= {*_ALPACA}
    from_0 = any(str(item.get(answer)) == "0" for _, _, item in rows)
    for number, record, item in rows:
        ask = prompt or next((key for key in _ASKS if item.get(key)), usual)
        given, own = item.get("id"), record.name or f"{file.stem}-{number}"
        name = str(own if given is None else given)
        asked, right = item.get(ask), item.get(answer)
        texts = right.get("text") if isinstance(right, dict) and "answer_start" in right else right
        answers = [_written(one) for one in _listed(texts) if one not in ("", None)]
        if empty := [key for key, value in ((ask, asked), (answer, answers)) if not value]:
            found.lost.append(f"{name}: the column {empty[0]} is empty")
            continue
        rest = {key: value for key, value in item.items() if key not in ("id", ask, answer)}
        kind, references, choices = _right(rest, answers, from_0=from_0)
        texts_only = not any(isinstance(one, bool) for one in _listed(right))  # as a task's are
        as_given = texts_only and answer in REFERENCE_KEYS and references is answers
        kept = {answer: right} if as_given and not reference else {"references": references}
        one = {"id": name, ask: asked, "scorer": {"type": kind}, **rest, **kept}
        if alpaca:
            asked = "\n\n".join(str(item[key]) for key in _ALPACA if item.get(key))
        made = None if prompt or alpaca else to_task(TaskRecord(one, file, record.line))
        if not isinstance(made, Task):
            one = {
                "id": name,
                **_asked(_with_choices(asked, choices), name, found),
                "metadata": rest,
                "references": references,
                "scorer": {"type": kind},
            }
        found.entries.append(one)


def _with_choices(asked: object, choices: Mapping[str, str]) -> object:
    # a question may list them itself, and a conversation stays as it is
    complete = not isinstance(asked, str) or all(
        re.search(rf"{re.escape(label)}\W{{1,4}}{re.escape(text)}", asked)
        for label, text in choices.items()
    )
    listed = "\n".join(f"{label}. {text}" for label, text in choices.items())
    return asked if complete else f"{asked}\n\n{listed}"


def _right(
    rest: Entry, answers: list[str], *, from_0: bool
) -> tuple[str, list[str], dict[str, str]]:
    """The scorer's type, the references and the choices of a row, of which ``rest`` keeps more.

    ``answers`` that are numbers name choices, the first of which is 0 if ``from_0``.
    """
    results = [_WORKED_OUT.search(one) for one in answers]
    if all(results):
        rest["solution"] = answers[0]
        answers = [one[1] for one in results if one]
    if choices := _choices(rest, answers):
        rest["choices"] = choices
        labels = [*choices, *choices.values()]
        numbered = {str(number): label for number, label in enumerate(choices)} if from_0 else {}
        named = [one if one in labels else numbered.get(one, one) for one in answers]
        return "choice", named, choices
    number = all(results) or all(map(_WOULD_CHANGE.fullmatch, answers))
    return "number" if number else "normalized", answers, {}


def _choices(rest: Entry, answers: Collection[str]) -> dict[str, str]:
    """A row's choices by label; those in columns A, B, C … are taken out of ``rest``."""
    given = rest.get("choices")
    given = golds(given) if isinstance(given, str) else given  # in CSV, a list as text
    if isinstance(given, dict) and given.keys() == {"text", "label"}:  # as in ARC
        labels = _listed(given["label"]) or ascii_uppercase
        given = {str(key): one for key, one in zip(labels, _listed(given["text"]), strict=False)}
    columns = takewhile(lambda one: rest.get(one) not in (None, ""), ascii_uppercase)
    shown = {column: str(rest[column]) for column in columns} or labelled(rest.get("options"))
    named = {*answers} <= {*shown, *shown.values()}
    if given is None and len(shown) > 1 and named and any(shown.values()):
        given = {label: rest.pop(label, "") or text for label, text in shown.items()}
    return labelled(given)


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _written(value: object) -> str:
    return str(value) if isinstance(value, str | float) else json.dumps(value, ensure_ascii=False)
