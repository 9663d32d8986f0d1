"""Converts other tools' evaluations into records of a task file, and reports what is lost."""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from string import ascii_uppercase, digits
from typing import Any, Literal

import yaml

from skillopt_ci.config.yaml import load_yaml
from skillopt_ci.errors import TaskFileError, UsageError
from skillopt_ci.tasks.files import TaskRecord, read_records, read_source, refuse
from skillopt_ci.tasks.records import REFERENCE_KEYS, golds, labelled, task_files, to_task
from skillopt_ci.tasks.task import Task, content_key

Entry = dict[str, Any]
#: Columns with the question, the answer and what to read before; the first one present counts.
_ASKS = ("prompt", "messages", "question", "query", "problem", "instruction", "input")
_ANSWERS = (
    *("references", "reference", "ideal", "expected", "expected_output", "answers", "answer"),
    *("target", "label", "output", "ground_truth", "answerkey", "correct_answer"),
)
_PASSAGES = ("context", "passage", "article", "input")
#: A column with one choice ends with its label: B, choice_B, "Option 2", answerC, opb.
_CHOICE = re.compile(r"[A-Z]|(?i:(?:choice|option|ending)[ _]?[a-j\d]|(?:answer|op)[a-j])")
#: Numbers that need more than `normalized`: -6, $1,234.50, 1.5 %, 1 1/2, AIME's 025.
_WOULD_CHANGE = re.compile(
    r"(?=.*[-+./]|0\d\d?\Z)[-+]?(?:[$€£]\s?)?"
    r"(?:(?:\d+\s)?\d+/[1-9]\d*|(?:\d{1,3}(?:,\d{3})+|\d+)?\.\d+|\d{1,3}(?:,\d{3})+|\d+)"
    r"(?:\s?[%$€£])?"
)
#: The number below a worked solution, as in GSM8K; a heading in Markdown begins like it.
_WORKED_OUT = re.compile(r"####\s*(\S*\d\S*)\s*\Z")


@dataclass(slots=True)
class Foreign:
    """Task entries, what is lost, the keys of metadata, and the scorer that all share, if any."""

    entries: list[Entry] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unseen: dict[str, None] = field(default_factory=dict)
    scorer: Entry | None = None


def read_foreign(file: Path, prompt: str, reference: str) -> Foreign:
    """Read ``file`` in any supported format; entries that would not load as tasks are lost.

    ``prompt`` and ``reference`` are names of columns, for formats with rows.
    """
    suffix, found, whole = file.suffix.lower(), Foreign(), None
    read: Callable[[str], Any] = json.loads if suffix == ".json" else load_yaml
    with suppress(ValueError, RecursionError, yaml.YAMLError):  # read as rows, with their lines
        whole = read(read_source(file)) if suffix in (".json", ".yaml", ".yml") else None
    if isinstance(whole, dict) and {"prompts", "tests"} <= whole.keys():
        raise UsageError(
            f"{file}: a promptfoo configuration needs no task files",
            hint=f"Train on it as it is: `environment: {{type: promptfoo, file: {file.name}}}`.",
        )
    cases = whole.get("evals", whole.get("cases")) if isinstance(whole, dict) else whole
    dicts = [one for one in cases if isinstance(one, dict)] if isinstance(cases, list) else []
    queries = not reference and any(
        "query" in one and one.keys() & {"expected_behavior", "should_trigger"} for one in dicts
    )
    if dicts and (cases is not whole or queries):
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
            found.unseen |= dict.fromkeys(made.metadata)
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
        if goal or points:
            each = [f"{goal}\n\nEach of these holds:".strip(), *map(_written, points)]
            # In the guide, a pass means that every expectation is met.
            how = {"rubric": "\n- ".join(each), "hard_at": 1.0} if points else {"rubric": goal}
            entry = {"id": name, "prompt": ask, "metadata": rest, "files": files}
            found.entries.append({**entry, "scorer": {"type": "rubric", **how}})
        else:
            found.lost.append(
                f"{name}: it does not say what is expected, and when a skill loads is not graded"
            )


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
    columns = dict.fromkeys(key for _, _, item in rows for key in item if key)  # "": pandas' index
    # of the whole file: in a row without an answer, another column would pass for one
    known = {key.lower(): key for key in sorted(columns, key=str.islower)}
    asks = [prompt] if prompt else [known[key] for key in _ASKS if key in known] or [""]
    answer = reference or next((known[key] for key in _ANSWERS if key in known), "")
    if rows and not {asks[0], answer} <= columns.keys():
        lacks, option = (
            ("answer or tests", "--reference") if asks[0] in columns else ("question", "--prompt")
        )
        raise UsageError(
            f"{file}: no column is known to hold the {lacks}",
            hint=f"Name it with {option}. The columns are {', '.join(columns)}.",
        )
    first = _first_position([item for _, _, item in rows], answer)
    passage = next((known[key] for key in _PASSAGES if key in known), "")
    for number, record, item in rows:
        ask = next((key for key in asks if item.get(key)), asks[0])
        given, own = item.get("id"), record.name or f"{file.stem}-{number}"
        name = str(own if given is None else given)
        asked, right = item.get(ask), item.get(answer)
        # a list in JSON may be what the model is to write
        if answer in REFERENCE_KEYS or re.match(r"\s*[\[{]\s*'", _written(right)):
            right = golds(right)
        answers = [_written(one) for one in _listed(right) if one not in ("", None)]
        if empty := [key for key, value in ((ask, asked), (answer, answers)) if not value]:
            found.lost.append(f"{name}: the column {empty[0]} is empty")
            continue
        rest = {key: value for key, value in item.items() if key not in ("", "id", ask, answer)}
        kind, references = _right(rest, answers, first)
        kind = "json" if kind == "normalized" and isinstance(right, dict) else kind
        text = _written((isinstance(asked, str) and rest.pop(passage, "")) or "").strip()
        # an instruction may have the words of its input by chance
        if text and (ask == "instruction" or text not in str(asked)):
            asked = f"{asked}\n\n{text}" if ask == "instruction" else f"{text}\n\n{asked}"
        one = {"id": name, ask: asked, "scorer": {"type": kind}, **rest, "references": references}
        if prompt or not isinstance(to_task(TaskRecord(one, file, record.line)), Task):
            one = {
                "id": name,
                **_question(asked, labelled(rest.get("choices")), name, found),
                "metadata": rest,
                "references": references,
                "scorer": {"type": kind},
            }
        found.entries.append(one)


def _question(asked: Any, choices: dict[str, str], name: str, found: Foreign) -> Entry:
    """A conversation, or a question above its choices, unless it lists them."""
    if isinstance(asked, list):
        chat = (one for one in asked if isinstance(one, dict))
        turns = [{key: one.get(key) for key in ("role", "content")} for one in chat]
        if turns and turns[-1]["role"] != "user":
            found.lost.append(f"{name}: that its last message is the {turns[-1]['role']}'s")
            turns[-1]["role"] = "user"
        return {"messages": turns}
    complete = not isinstance(asked, str) or all(
        re.search(rf"{re.escape(label)}\W{{1,4}}{re.escape(text)}", asked)
        for label, text in choices.items()
    )
    listed = "\n".join(f"{label}. {text}" for label, text in choices.items())
    return {"prompt": asked if complete else f"{asked}\n\n{listed}"}


def _right(
    rest: Entry, answers: list[str], first: int | Literal["text"] | None
) -> tuple[str, list[str]]:
    """The scorer's type and the references of a row, of which ``rest`` keeps more.

    ``answers`` that are numbers name choices, counted from ``first``, or are their texts.
    """
    results = [_WORKED_OUT.search(one) for one in answers]
    if all(results):
        rest["solution"] = answers[0]
        answers = [one[1] for one in results if one]
    offered = _offered(rest)
    places = {text: label for label, text in offered.items() if text.upper() in offered}
    if first != "text":
        places = {} if first is None else {str(n): label for n, label in enumerate(offered, first)}
    named = [places.get(one, one) for one in answers]
    if offered and (
        rest.get("choices") is not None
        or {*named} <= {*offered, *map(str.lower, offered), *offered.values()}
    ):
        for key, one in [*rest.items()]:
            column = _CHOICE.fullmatch(key) and str(one) == offered.get(key[-1].upper())
            if column or labelled(one) == offered:
                del rest[key]
        rest["choices"] = offered
        return "choice", named
    if all(re.fullmatch(r"\([A-Z]\)", one) for one in answers):  # of choices in the question
        return "choice", answers
    number = all(results) or all(map(_WOULD_CHANGE.fullmatch, answers))
    return "number" if number else "normalized", answers


def _offered(row: Entry) -> dict[str, str]:
    """A row's choices by label, in `choices`, in columns A, B, C … or in `options`."""
    if row.get("choices") is not None:
        return labelled(row["choices"])
    columns = {key[-1].upper(): row[key] for key in row if _CHOICE.fullmatch(key)}
    for labels in (ascii_uppercase, digits, digits[1:]):
        found = [*takewhile(lambda one: columns.get(one) not in (None, ""), labels)]
        if len(found) > 1:
            return {label: str(columns[label]) for label in found}
    shown = labelled(row.get("options") or row.get("endings"))
    return shown if any(shown.values()) else {}


def _first_position(rows: Sequence[Entry], answer: str) -> int | Literal["text"] | None:
    """From where answers that are positions of choices count: only all rows together can tell.

    ``text`` if all are texts of choices, which may be labels of others: 2, 3 and 4, or x and a.
    """
    answers = ((str(one), _offered(row)) for row in rows for one in _listed(row.get(answer)))
    # some may be letters, and -1 hides an answer
    chosen = [(one, offered) for one, offered in answers if offered and one not in ("", "-1")]
    if all(one in offered.values() for one, offered in chosen) and any(
        one.upper() not in offered for one, offered in chosen
    ):
        return "text"
    outside = any(one not in {*offered, *offered.values()} for one, offered in chosen)
    # a 0 is only in a count from 0, the number of choices only in one from 1
    first = 0 if any(one == "0" for one, _ in chosen) else 1
    proven = first == 0 or any(one == str(len(offered)) for one, offered in chosen)
    places = ((one, range(first, first + len(offered)), offered) for one, offered in chosen)
    known = all(one in {*offered, *map(str, numbers)} for one, numbers, offered in places)
    return first if outside and proven and known else None


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _written(value: object) -> str:
    return str(value) if isinstance(value, str | float) else json.dumps(value, ensure_ascii=False)
