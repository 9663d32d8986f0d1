import importlib
import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from skillopt_ci.cli.main import COMMANDS
from skillopt_ci.config.reference import json_schema
from skillopt_ci.errors import ExitCode
from skillopt_ci.ledger import records, summary

ROOT = Path(__file__).parents[2]
PAGES, SCRIPTS = ROOT / "docs" / "reference", str(ROOT / "scripts")


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def part(text: str, anchor: str) -> str:
    """The part of a page with this anchor, up to the next heading."""
    return text.partition(f'<a id="{anchor}"></a>')[2].partition("\n## ")[0]


def test_every_command_has_its_part_and_every_option_its_help():
    text = page("command-line")
    missing = [name for name in COMMANDS if f"\n## {name}\n" not in text]
    assert missing == [], "run scripts/docs_reference.py"
    assert text.count("`-o, --override KEY=VALUE`") == 1
    assert not re.search(r"^ {4}", text, re.MULTILINE)  # a command's text is no code block


def test_every_section_of_the_configuration_has_all_its_keys():
    text = page("configuration")
    definitions: Any = json_schema()["$defs"]
    missing = [
        (name, key)
        for name, schema in definitions.items()
        for key in schema.get("properties", {})
        if f"\n| `{key}` |" not in part(text, name.lower())
    ]
    assert definitions
    assert missing == [], "run scripts/docs_reference.py"


def test_a_key_has_its_type_its_default_and_its_meaning():
    row = "| `max_error_rate` | number ≥ 0, ≤ 1 | `0.2` | Stop a step"
    assert row in part(page("configuration"), "evaluation")
    assert "| `run` | text | **required** |" in part(page("configuration"), "top-level")


def test_every_record_of_a_file_has_all_its_keys():
    text = page("records")
    roots: list[type[BaseModel]] = [
        records.State,
        records.HistoryEntry,
        records.StepRecord,
        records.BoundaryRecord,
        summary.Summary,
    ]
    missing = [
        (cls.__name__, key)
        for cls in roots
        for key in cls.model_fields
        if f"\n| `{key}` |" not in part(text, cls.__name__.lower())
    ]
    assert (missing, "skillopt_ci." in text) == ([], False), "run scripts/docs_reference.py"


def test_every_exit_code_has_a_row_with_a_meaning():
    rows = dict(re.findall(r"^\| `(\d+)` \| \w+ \| (.+) \|$", page("exit-codes"), re.MULTILINE))
    assert {int(code) for code in rows} == {int(code) for code in ExitCode}
    assert all(rows.values())


def test_no_link_leads_nowhere_on_its_own_page():
    for file in PAGES.glob("*.md"):
        text = file.read_text(encoding="utf-8")
        wanted = set(re.findall(r"\]\(#([\w-]+)\)", text))
        assert wanted <= set(re.findall(r'<a id="([\w-]+)"></a>', text)), file.name


def test_pages_are_up_to_date_and_keys_and_meanings_without_the_other_are_faults(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    script = importlib.import_module("docs_reference")
    texts = script.pages()
    stale = [name for name, text in texts.items() if not script.says(ROOT / name, text)]
    assert (stale, script.lacking(texts)) == ([], []), "run scripts/docs_reference.py"
    name = "docs/reference/records.md"
    bare = {**texts, name: texts[name].replace("| Number of calls to models. |", "|  |")}
    faults = script.lacking(bare)
    assert any(fault.startswith(f"no meaning: {name}: `calls`") for fault in faults)
    assert "in the glossary in vain: Usage.calls" in faults
