"""Parse the text of a model into an object of a schema."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from ..checks import valid_text
from ..errors import ModelError, TruncatedAnswer

Answer = TypeVar("Answer", bound=BaseModel)
MAX_REPLY_CHARS = 2_000_000
_NAMES = "think|thinking|thought|thoughts|reasoning|reflection"
_OPENING = re.compile(rf"<(?:{_NAMES})>|\[THINK\]", re.IGNORECASE)
_CLOSING = re.compile(rf"</(?:{_NAMES})>|\[/THINK\]", re.IGNORECASE)
_THOUGHTS = re.compile(
    rf"\A\s*(?:(?:{_OPENING.pattern}).*?(?:{_CLOSING.pattern})\s*)*+", re.IGNORECASE | re.DOTALL
)
# Finds the end of a thought that the model's template opened; the start of a value at the beginning
# of a reply or code block; the possible start of a value in prose. Every part is bounded, so that
# parsing takes linear time.
_START = re.compile(
    rf"(?P<closes>(?i:{_CLOSING.pattern}))(?!\s*[\[{{])"
    rf"|(?P<leads>\A|(?P<thought>(?i:{_CLOSING.pattern}))"
    r"|^[ \t]*```[ \t]{0,9}[\w+-]{0,20}|```[ \t]{0,9}[\w+-]{0,20}[ \t]{0,9}\n)"
    r"\s*(?=[\[{])"
    r'|(?=\[\s*\{|\{\s*(?:"|\Z))',
    re.MULTILINE,
)
_END = re.compile(r"\s*(?:```|\Z)")
_LINE_END = re.compile(r"[^\S\n]*\n")
_LAST_TOKEN = re.compile(r"\\?\w*\Z")


def json_prompt(prompt: str, schema: type[BaseModel]) -> str:
    """Return a prompt that asks for JSON and shows the schema, for a model without structured
    output.
    """
    shape = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    return (
        f"{prompt}\n\nAnswer with one JSON value that fits this JSON schema, and with "
        f"nothing else:\n{shape}"
    )


def parse_answer(text: str | None, schema: type[Answer]) -> Answer:
    """Parse a model's answer: the one JSON value that is its whole reply or a code block in it.

    Thoughts in <think> tags and prose around a code block are skipped. A single object without a
    code block may have prose around it if it ends its line and is not empty. A value inside another
    is never the answer. An array is accepted for a schema whose only required field is a list. An
    object must name at least one field of the schema, so that an apology in JSON does not pass for
    an empty answer.

    Raises:
        TruncatedAnswer: the reply ends before its value does.
        ModelError: the reply is not exactly one value that fits the schema.
    """
    if not text or not text.strip():
        raise ModelError(f"The model returned an empty answer; {schema.__name__} was expected.")
    blocks, in_prose = _values(text) if len(text) <= MAX_REPLY_CHARS else ([], [])
    values = blocks or in_prose
    if values and all(value == values[0] for value in values[1:]):
        answer = _validated(values[0], schema)
        if answer is not None and (blocks or any(vars(answer).values())):
            return answer
    raise ModelError(
        f"The model's answer of {len(text)} characters is not JSON that fits {schema.__name__}."
    )


def _without_thoughts(text: str) -> str:
    """Remove the thoughts before a reply.

    Raises:
        TruncatedAnswer: the reply ends within a thought.
    """
    text = _THOUGHTS.sub("", text)
    if _OPENING.match(text):
        raise TruncatedAnswer("The model's answer contains only unfinished reasoning.")
    return text


def _values(text: str) -> tuple[list[Any], list[Any]]:
    """Return the JSON values that are the whole reply or a whole code block, and those in prose.

    Values in prose are objects; None stands for one that does not end its line.

    Raises:
        TruncatedAnswer: the reply ends before a thought or value does.
        ModelError: a value is not valid JSON; nothing inside it counts as an answer.
    """
    text = _without_thoughts(text)
    blocks: list[Any] = []
    in_prose: list[Any] = []
    at = 0
    while start := _START.search(text, at):
        if start["closes"] or start["thought"]:
            blocks, in_prose, at = [], [], start.end()  # a thought is no answer
        if start["closes"]:
            continue
        value, at = _value_at(text, start.end())
        end = _END.match(text, at)
        if end and start["leads"] is not None:
            blocks.append(value)
        elif isinstance(value, dict):
            in_prose.append(value if end or _LINE_END.match(text, at) else None)
        at = end.end() if end else at
    return blocks, in_prose


def _value_at(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value at this position and the position after it.

    Raises:
        TruncatedAnswer: the value is cut off.
        ModelError: the text is not JSON.
    """
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and (
            error.msg.startswith("Unterminated string") or _LAST_TOKEN.match(text, error.pos)
        ):
            raise TruncatedAnswer("The model's answer ends before its JSON does.") from None
        raise ModelError("The model's answer is not valid JSON.") from None


# strict=False: small models write line breaks inside strings
_DECODER = json.JSONDecoder(strict=False)


def _validated(value: Any, schema: type[Answer]) -> Answer | None:
    """Return a JSON value as an object of the schema, or None if it does not fit."""
    fields = schema.model_fields
    try:
        # lone surrogates, which no schema accepts
        value = json.loads(valid_text(json.dumps(value, ensure_ascii=False)))
        if isinstance(value, list):  # the array is the only required field
            required = [name for name, field in fields.items() if field.is_required()]
            value = dict.fromkeys(required, cast("Any", value)) if len(required) == 1 else {}
        names = set(cast("dict[str, Any]", value)) if isinstance(value, dict) else set[str]()
        return schema.model_validate(value) if fields.keys() & names else None
    except (TypeError, ValueError, RecursionError):  # no JSON, or not of the schema
        return None


def to_schema(answer: Any, schema: type[Answer], label: str) -> Answer:
    """Convert a model's answer to an object of the schema.

    Args:
        answer: an object of the schema or of another one, a dict, a list or text.
        schema: the schema.
        label: the name of the model for the error message.

    Raises:
        ModelError: the answer does not fit.
    """
    if isinstance(answer, schema):
        return answer
    if isinstance(answer, str):
        return parse_answer(answer, schema)
    value = cast("Any", answer).model_dump() if isinstance(answer, BaseModel) else answer
    fitting = _validated(value, schema) if isinstance(value, (dict, list)) else None
    if fitting is None:
        raise ModelError(
            f"{label} returned {type(answer).__name__}, which does not fit {schema.__name__}."
        )
    return fitting
