"""From a model's text to an object of the wanted shape: pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar, cast, get_origin

from pydantic import BaseModel, RootModel, ValidationError

from ..errors import ModelError

Answer = TypeVar("Answer", bound=BaseModel)
MAX_STARTS = 200
_THOUGHT = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
_DECODER = json.JSONDecoder(strict=False)  # small models write line breaks inside strings


def json_prompt(prompt: str, schema: type[BaseModel]) -> str:
    """The prompt for a model that cannot be held to a schema: it asks for JSON and shows the shape."""
    shape = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    return f"{prompt}\n\nAnswer with one JSON value that fits this JSON schema, and with nothing else:\n{shape}"


def parse_answer(text: str | None, schema: type[Answer]) -> Answer:
    """The first JSON object, else array, in a model's text that fits the schema.

    Code fences, prose around it and thoughts in <think> tags are passed over. An array serves for a schema whose only
    field is a list. An object must name at least one of the schema's fields, so that an apology in JSON never passes
    for an empty answer.

    Raises:
        ModelError: the text holds none.
    """
    if not text or not text.strip():
        raise ModelError(f"The model answered nothing where {schema.__name__} was wanted.")
    bare = _THOUGHT.sub("", text)
    for opening in "{[":
        for value in _values(bare, opening):
            answer = _fitting(value, schema)
            if answer is not None:
                return answer
    raise ModelError(f"The model's answer of {len(text)} characters holds no JSON that fits {schema.__name__}.")


def _values(text: str, opening: str) -> Iterator[Any]:
    starts = [match.start() for match in re.finditer(re.escape(opening), text)]
    for start in starts[:MAX_STARTS]:
        try:
            yield _DECODER.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            continue


def _fitting(value: Any, schema: type[Answer]) -> Answer | None:
    try:
        if issubclass(schema, RootModel):
            return cast("Answer", schema.model_validate(value))
        if isinstance(value, list):
            name = _only_list(schema)
            return schema.model_validate({name: value}) if name else None
        fields = schema.model_fields
        known = set(fields) | {str(item.alias or item.validation_alias) for item in fields.values()}
        return schema.model_validate(value) if not fields or known & set(value) else None
    except ValidationError:
        return None


def _only_list(schema: type[BaseModel]) -> str | None:
    """The name by which the schema's only field is filled, when that is a list."""
    if len(schema.model_fields) != 1:
        return None
    ((name, only),) = schema.model_fields.items()
    return (only.alias or name) if (get_origin(only.annotation) or only.annotation) in (list, tuple) else None


def shaped(answer: Any, schema: type[Answer], what: str) -> Answer:
    """An answer given as the wanted object, as another model, a dict, a list or text, as the wanted object.

    Raises:
        ModelError: it does not fit; `what` says who gave it.
    """
    if isinstance(answer, schema):
        return answer
    if isinstance(answer, str):
        return parse_answer(answer, schema)
    value = cast("Any", answer).model_dump() if isinstance(answer, BaseModel) else answer
    fitting = _fitting(value, schema) if isinstance(value, (dict, list)) else None
    if fitting is None:
        raise ModelError(f"{what} answered {type(answer).__name__}, which does not fit {schema.__name__}.")
    return fitting
