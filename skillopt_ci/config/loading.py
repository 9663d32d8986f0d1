"""Load a configuration: the file, its bases (`_base_:`), one of its `runs:`, and overrides."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path, PurePosixPath
from pkgutil import resolve_name
from types import MappingProxyType

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from skillopt_ci.config.base import Section, meanings
from skillopt_ci.config.config import Config
from skillopt_ci.config.models import ModelRole, with_long_roles
from skillopt_ci.config.reference import BASE, RUNS, choices, fields, homes, locate, sections
from skillopt_ci.config.yaml import (
    InvalidConfigError,
    Mark,
    Node,
    Problem,
    lookup,
    merge,
    nested,
    parse_yaml,
    plain,
    reading_order,
    without,
)
from skillopt_ci.errors import ConfigError
from skillopt_ci.util import did_you_mean, read_text


def read_layers(file: Path) -> tuple[Node, ...]:
    """The trees of a file's bases, the remotest first, and of the file itself."""
    layers: list[Node] = []
    chain: list[Path] = []
    mark = Mark(file)
    while True:
        if os.path.realpath(file) in map(os.path.realpath, chain):
            names = " → ".join(map(str, [*chain, file]))
            raise _invalid_base(mark, f"these files build on each other in a circle: {names}")
        chain.append(file)
        try:
            text = read_text(file, "utf-8-sig")
        except OSError as error:
            name = f"{file} " if mark.line else ""
            raise _invalid_base(mark, f"{name}cannot be read: {error.strerror}") from error
        tree = parse_yaml(text, Mark(file, 1))
        if not isinstance(tree.value, dict):
            raise InvalidConfigError(
                [Problem(tree.mark, "", "expected a mapping of sections, such as `run:`, `skill:`")]
            )
        layers.insert(0, without(tree, BASE))
        if BASE not in tree.entries:
            return tuple(layers)
        base = tree.entries[BASE]
        mark = base.mark
        if not isinstance(base.value, str) or not base.value:
            raise _invalid_base(
                mark,
                f"expected one file, which may build on the next, found {shown((), base.value)}",
            )
        file = Path(os.path.normpath(file.parent / base.value))


def _invalid_base(mark: Mark, text: str) -> InvalidConfigError:
    return InvalidConfigError([Problem(mark, BASE if mark.line else "", text)])


def runs_of(tree: Node) -> dict[str, Node]:
    """The runs that ``tree`` describes, by name; one without a list is its own only run."""
    if (listed := tree.entries.get(RUNS)) is None:
        return {_name(tree): tree}
    if not isinstance(listed.value, tuple) or not listed.value:
        text = "expected a list of runs, each with `run:` and its own settings"
        raise InvalidConfigError([Problem(listed.mark, RUNS, text)])
    problems, runs, common = list[Problem](), dict[str, Node](), without(tree, RUNS)
    names, skills = dict[str, str](), dict[str, str]()
    for entry in listed.value:
        name, run = _name(entry), merge(common, with_long_roles(entry))
        value = plain(run.entries["skill"]) if "skill" in run.entries else ""
        skill = os.path.normpath(str(value)).removesuffix("/SKILL.md") if value else ""
        if not name:
            problems.append(Problem(entry.mark, RUNS, "each run of the list needs its `run:`"))
        elif (other := names.get(name.casefold())) is not None:
            same = "stands here a second time" if other == name else f"and {other!r} differ in case"
            text = f"{name!r} {same}: their branches would be one"
            problems.append(Problem(entry.mark, RUNS, text))
        elif skill and skill in skills:
            text = f"{skills[skill]!r} and {name!r} both train {skill}: give each its own skill"
            problems.append(Problem(entry.mark, RUNS, text))
        names[name.casefold()] = skills[skill] = name
        runs[name] = run
    if problems:
        raise InvalidConfigError(problems)
    return runs


def choose_run(tree: Node, name: str | None) -> Node:
    """The run called ``name``, or the only one; raises ConfigError that lists the names."""
    runs = runs_of(tree)
    if name is None and len(runs) == 1:
        return next(iter(runs.values()))
    if name in runs:
        return runs[name]
    mark, names = lookup(tree, [RUNS if RUNS in tree.entries else "run"]).mark, ", ".join(runs)
    if name is None:
        raise InvalidConfigError([Problem(mark, RUNS, f"which run? Name one with --run: {names}")])
    hint = did_you_mean(name, list(runs)) or f"; its runs: {names}"
    raise InvalidConfigError([Problem(mark, "", f"there is no run {name!r} in this file{hint}")])


def _name(tree: Node) -> str:
    value = plain(tree.entries["run"]) if "run" in tree.entries else None
    return "" if value is None else str(value)


def parse_override(text: str) -> Node:
    """The tree that sets one key; the value is YAML, so that `null` and `4` are typed."""
    dotted, equals, value = text.partition("=")
    path = [step.strip() for step in dotted.split(".")]
    if not equals or not all(path):
        # What follows may hold a secret that was typed into the wrong place: only the key is shown.
        raise ConfigError(
            f"-o {dotted.strip()}: expected section.key=value",
            hint="for example -o train.num_epochs=2",
        )
    mark = Mark(override=".".join(path))
    return nested(path, parse_yaml(value, mark) if value.strip() else Node(None, mark))


KeyPath = tuple[str | int, ...]

_SECRET = re.compile(r"(?i)(^|[_-])(key|token|secret|password|auth|cookie|headers)(_env)?$")
_ADDRESS_WITH_SECRET = re.compile("://.*[@?#]")
_LONGEST_SHOWN = 60
_WRONG_SHAPE = ("union_tag_invalid", "union_tag_not_found", "model_attributes_type", "dict_type")
_EXPECTED = {
    "string_type": "text",
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "finite_number": "a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "tuple_type": "a list",
    **dict.fromkeys(("dict_type", "model_type"), "a mapping"),
    "string_too_short": "text that is not empty",
    "too_short": "a list that is not empty",
}


def _home(path: KeyPath) -> str:
    return "" if path[0] in ("tasks", "scorer") else " or ".join(homes(str(path[-1])))


def explain(
    error: ValidationError, root: type[Section] = Config, home: Callable[[KeyPath], str] = _home
) -> list[tuple[KeyPath, str]]:
    """What is wrong with a ``root``; ``home`` names where an unknown key belongs, if anywhere."""
    told = [_explained(details, root, home) for details in error.errors(include_url=False)]
    found = dict(reversed(told))  # of a value that fits no type of several, what the first says
    # A list "too short" because its items are wrong says nothing new.
    return [
        (path, text)
        for path, text in reversed(found.items())
        if not any(other[: len(path)] == path != other for other in found)
    ]


def _explained(
    error: ErrorDetails, root: type[Section], home: Callable[[KeyPath], str]
) -> tuple[KeyPath, str]:
    (path, section, field), value = locate(error["loc"], root), error["input"]
    annotation = field.annotation if field else None
    shapes = list(sections(annotation))
    if shapes and error["type"] in _WRONG_SHAPE:
        return _wrong_shape(path, shapes, value)
    found = shown(path, value)
    key = next((step for step in reversed(path) if isinstance(step, str)), "")
    about = " ".join((meanings(section).get(key, "") if section else "").split())
    match error["type"]:
        case "model_type" if ModelRole in shapes:
            text = f"expected provider/model, such as openai/gpt-5.5, or a mapping, found {found}"
        case "extra_forbidden":
            text = _unknown(path, section, home(path))
        case "missing":
            text = f"missing. {about}".strip()
        case "literal_error":
            text = _not_among(value, choices(annotation))
        case "string_pattern_mismatch":
            text = f"{found} does not fit. {about}"
        case "json_invalid":
            text = "nested too deeply, or text with characters that are not Unicode"
        case "value_error":
            text = error["msg"].removeprefix("Value error, ")
        case kind:
            said = error["msg"].removeprefix("String should have ")
            other = said.replace("Input should be ", "a value ")
            text = f"expected {_EXPECTED.get(kind, other)}, found {found}"
    return path, text


def _wrong_shape(path: KeyPath, shapes: list[type[Section]], value: object) -> tuple[KeyPath, str]:
    kinds = (shape.model_fields.get("type") for shape in shapes)
    known = tuple(c for kind in kinds if kind for c in choices(kind.annotation))
    if not isinstance(value, dict):
        example = f"{{type: {known[0]}}}" if known else "{path: tasks.jsonl}"
        return path, f"expected a mapping such as {example}, found {shown(path, value)}"
    if "type" in value:
        return (*path, "type"), _not_among(value["type"], known)
    return (*path, "type"), f"missing: one of {', '.join(known)}"


def shown(path: KeyPath, value: object) -> str:
    """A value for a message: in the file's words, short, and never one that may be a secret."""
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None:
        return "nothing"
    if _ADDRESS_WITH_SECRET.search(str(value)) or any(_SECRET.search(str(one)) for one in path):
        return "the value (not shown)"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _unknown(path: KeyPath, section: type[Section] | None, home: str) -> str:
    name = str(path[-1])
    if name == "api_key":
        return (
            "a key does not belong in a file; put it into an environment variable "
            "and give that variable's name as api_key_env"
        )
    known = tuple(fields(section)) if section else ()
    hint = did_you_mean(name, known) or (home and f"; did you mean {home}?")
    return f"unknown key{hint or '; known here: ' + ', '.join(known)}"


def _not_among(value: object, known: tuple[str, ...]) -> str:
    return f"{shown((), value)} is not one of {', '.join(known)}{did_you_mean(str(value), known)}"


def validate(tree: Node, known: tuple[Problem, ...] = ()) -> Config:
    """Nothing is coerced, so that ``yes`` is never a number. ``known`` problems are raised too."""
    try:
        config = Config.model_validate_json(json.dumps(plain(tree)), strict=True)
    except ValidationError as error:
        problems = [
            Problem(lookup(tree, path).mark, ".".join(map(str, path)), text)
            for path, text in explain(error)
        ]
        raise InvalidConfigError([*known, *problems]) from error
    if known:
        raise InvalidConfigError(known)
    return config


#: Keys that did not pay and are gone: people still have them in their files.
_RETIRED = {
    **{
        f"evaluation.gate.{key}": "the gate takes any higher mean"
        for key in ("policy", "confidence", "min_effect", "effect", "futility", "attempts")
    },
    "evaluation.gate.remeasure": "it cost more than it gained",
    "evaluation.race": "races of edits cost more than they gained",
    "evaluation.gate.subset": "every candidate is compared on all selection tasks",
    "evaluation.gate.max_consultations": "the number of candidates is not limited",
    "train.staleness": "it lowered the score; batches are attempted under the current skill",
    "schedule.ahead": "`likely` wasted calls; `sure` is used instead",
}


def without_retired(tree: Node, above: str = "") -> tuple[Node, tuple[Problem, ...]]:
    """``tree``, which stands at ``above``, without retired keys, and a warning for each."""
    kept, warnings = dict[str, Node](), list[Problem]()
    for key, node in tree.entries.items():
        path = f"{above}{key}"
        if path in _RETIRED and (key != "ahead" or node.value == "likely"):
            warnings.append(Problem(node.mark, path, f"retired and ignored: {_RETIRED[path]}"))
        else:
            kept[key], inner = without_retired(node, f"{path}.")
            warnings += inner
    return (replace(tree, value=kept) if warnings else tree), tuple(warnings)


@dataclass(frozen=True, slots=True)
class Loaded:
    config: Config
    file: Path
    #: Where all relative paths start, a base file's as well: the absolute folder of ``file``, and
    #: for a configuration of SkillOpt's the working directory.
    root: Path
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Translation:
    """Another tool's configuration in our own form: what is wrong with it, what was left out."""

    tree: Node
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    #: Where its paths start, if not in the file's folder.
    root: Path | None = None


def _translated(layers: Sequence[Node], *given: object) -> Translation | None:
    if all(layer.entries.keys() <= fields(Config).keys() for layer in layers):
        return None  # in our own form: the integration need not be imported
    translated = resolve_name("skillopt_ci.integrations.skillopt.config:translated")
    found: Translation | None = translated(layers, *given)
    return found


def load(
    file: Path,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] = MappingProxyType({}),
    run: str | None = None,
    cwd: Path | None = None,
) -> Loaded:
    """Read ``file`` in skillopt-ci's own form or in SkillOpt's.

    Later wins over earlier: bases, the file, its run called ``run``, ``overrides`` in their order.
    Of ``environ`` only SkillOpt's variables count, for its form, whose paths start in ``cwd``.
    Raises ConfigError with a line for every problem.
    """
    layers = read_layers(file)
    above = [parse_override(text) for text in overrides]
    if found := _translated(layers, above, environ, cwd):
        found = replace(found, tree=choose_run(found.tree, run))
    else:
        chosen = choose_run(reduce(merge, map(with_long_roles, layers)), run)
        tree, retired = without_retired(reduce(merge, map(with_long_roles, [chosen, *above])))
        found = Translation(tree, warnings=retired)
    config = validate(found.tree, found.problems)
    root = found.root or file.absolute().parent
    folder = root / config.skill
    if folder.is_dir():  # else it is the document, which may be in git alone
        if not (folder / "SKILL.md").is_file():
            hint = "Name the Markdown file to train."
            if inner := sorted(folder.glob("*/SKILL.md")):
                path = PurePosixPath(config.skill) / inner[0].relative_to(folder).as_posix()
                hint = f"Did you mean {path}?"
            raise ConfigError(
                f"skill: {config.skill} is a folder without a SKILL.md", file=file, hint=hint
            )
        config = config.model_copy(update={"skill": str(PurePosixPath(config.skill) / "SKILL.md")})
    warnings = sorted(dict.fromkeys(found.warnings), key=reading_order)
    return Loaded(config, file, root, tuple(one.with_place() for one in warnings))


def run_names(file: Path, cwd: Path | None = None) -> tuple[str, ...]:
    layers = read_layers(file)
    if _translated(layers, (), {}, cwd):
        return (load(file, cwd=cwd).config.run,)
    return tuple(filter(None, runs_of(reduce(merge, layers))))
