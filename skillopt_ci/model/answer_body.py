"""The body of an answer, from bytes to the shape of its protocol."""

import json
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from skillopt_ci.model.transient import TransientFailure

_Shape = TypeVar("_Shape", bound=BaseModel)


def well_formed(text: str) -> str:
    """``text`` with lone surrogates, which no UTF-8 file or request can hold, replaced by ``?``."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def parsed(shape: type[_Shape], body: bytes, name: str) -> _Shape:
    """``body`` as ``shape``, which is called ``name`` in messages.

    Raises :class:`TransientFailure` for what is cut off, not JSON or of another shape.
    """
    try:
        # By way of text, because pydantic refuses the lone surrogates of a text cut in an escape.
        document = well_formed(json.dumps(json.loads(body), ensure_ascii=False))
        return shape.model_validate_json(document)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise TransientFailure(f"the response is no {name}: {detail}") from error
    except ValueError as error:
        raise TransientFailure(_not_json(body, error)) from error


def _not_json(body: bytes, error: ValueError) -> str:
    if body.lstrip()[:1] == b"<":
        return (
            "the response is a web page, not a completion: base_url must be the root of an API "
            "(most end in /v1)"
        )
    return f"the response is not JSON: {error}"
