"""GitHub's OpenAPI description: what may be sent, and what an answer must have."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

Json = Any
#: What the description forgets and GitHub does.
_DELETED_FORK = "$.head.repo: None is not of type 'object'"
_MISSING = object()
_EXAMPLES = {"date-time": "2026-01-02T03:04:05Z", "uri": "http://127.0.0.1/example"}
_PLAIN = {"string": "", "integer": 1, "number": 1, "boolean": False}


@dataclass(frozen=True)
class Operation:
    """An operation of the description with the path parameters of one request."""

    name: str
    """Method and template, such as ``GET /repos/{owner}/{repo}``."""
    params: dict[str, str]
    spec: dict[str, Json]


@cache
def _document() -> dict[str, Json]:
    text = Path(__file__).with_name("openapi.json").read_text(encoding="utf-8")
    return _with_null(json.loads(text))  # type: ignore[no-any-return]


def _with_null(node: Json) -> Json:
    """Say `nullable` the way that JSON Schema does."""
    if isinstance(node, list):
        return [_with_null(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _with_null(value) for key, value in node.items() if key != "nullable"}
    return {"anyOf": [plain, {"type": "null"}]} if node.get("nullable") is True else plain


@cache
def _templates() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The paths, those with more fixed words first."""
    found = []
    for template in sorted(_document()["paths"], key=lambda path: path.count("{")):
        pattern = re.sub(r"\{(path|ref|branch)\}", r"(?P<\1>.+)", template)
        found.append((re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern)), template))
    return tuple(found)


def find(method: str, path: str) -> Operation | None:
    """Return the operation that a request is for."""
    for pattern, template in _templates():
        match = pattern.fullmatch(path)
        spec = _document()["paths"][template].get(method.lower())
        if match and spec is not None:
            return Operation(f"{method} {template}", match.groupdict(), spec)
    return None


def request_problems(operation: Operation, query: dict[str, str], body: Json) -> list[str]:
    """Say what a request has that GitHub's description does not allow."""
    parameters = [_resolve(each) for each in operation.spec.get("parameters", ())]
    schemas = {each["name"]: each["schema"] for each in parameters if each["in"] == "query"}
    problems = [f"unknown parameter {name}" for name in query if name not in schemas]
    for name in query.keys() & schemas.keys():
        problems += _problems(_typed(query[name]), schemas[name])
    schema = _body_schema(operation)
    if schema is None:
        return problems + (["a body"] if body is not None else [])
    known = _known_fields(schema)
    unknown = set(body or {}) - known if known else set()
    return problems + [f"unknown field {name}" for name in unknown] + _problems(body, schema)


def answer_problems(operation: Operation, status: int, body: Json) -> list[str]:
    """Say in what an answer departs from the description."""
    schema = _answer_schema(operation, status)
    found = [] if schema is None else _problems(body, schema)
    return [problem for problem in found if problem != _DELETED_FORK]


def complete(operation: Operation, status: int, body: Json) -> Json:
    """Add to an answer whatever else GitHub's description demands of it."""
    schema = _answer_schema(operation, status)
    return body if schema is None else _fill(schema, body)


def _typed(word: str) -> Json:
    return int(word) if word.isdigit() else word


def _body_schema(operation: Operation) -> Json | None:
    body = operation.spec.get("requestBody")
    return None if body is None else body["content"]["application/json"]["schema"]


def _answer_schema(operation: Operation, status: int) -> Json | None:
    answer = _resolve(operation.spec["responses"].get(str(status), {}))
    return answer.get("content", {}).get("application/json", {}).get("schema")


def _known_fields(schema: Json) -> set[str]:
    schema = _resolve(schema)
    names = set(schema.get("properties", ()))
    return names.union(*(_known_fields(each) for each in schema.get("anyOf", ())))


def _resolve(node: Json) -> Json:
    while "$ref" in node:
        target = _document()
        for word in node["$ref"].removeprefix("#/").split("/"):
            target = target[word]
        node = target
    return node


def _problems(value: Json, schema: Json) -> list[str]:
    root = {"allOf": [schema], "components": _document()["components"]}
    return [
        f"{error.json_path}: {error.message[-160:]}"
        for error in Draft202012Validator(root).iter_errors(value)
    ]


def _fill(schema: Json, value: Json = _MISSING) -> Json:
    """Return ``value`` with what ``schema`` requires; without a value, the least that is valid."""
    schema = _resolve(schema)
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if alternatives:
        return _fill_one(alternatives, value)
    if "allOf" in schema:
        parts = [_fill(each, value) for each in schema["allOf"]]
        return {key: item for part in parts for key, item in part.items()}
    if "properties" in schema and (value is _MISSING or isinstance(value, dict)):
        return dict(_fill_object(schema, {} if value is _MISSING else value))
    if isinstance(value, list) and "items" in schema:
        return [_fill(schema["items"], item) for item in value]
    return value if value is not _MISSING else _least(schema)


def _fill_one(alternatives: list[Json], value: Json) -> Json:
    if {"type": "null"} in alternatives and (value is _MISSING or value is None):
        return None
    for each in alternatives:
        filled = _fill(each, value)
        if not _problems(filled, each):
            return filled
    return value


def _fill_object(schema: Json, value: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    yield from value.items()
    for name, field in schema["properties"].items():
        if name in value or name in schema.get("required", ()):
            yield name, _fill(field, value.get(name, _MISSING))


def _least(schema: Json) -> Json:
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "string":
        return _EXAMPLES.get(schema.get("format", ""), "x")
    return {"array": [], "object": {}}.get(kind, _PLAIN.get(kind))
