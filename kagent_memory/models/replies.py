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
# The end of a thought that the model's template opened; a value at the start of a reply or code
# block, or a possible one in prose. Bounded, so that reading an answer takes linear time.
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
    """Return the prompt for a model without structured output: it asks for JSON and shows the
    schema.
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
    alone, in_prose = _values(text) if len(text) <= MAX_REPLY_CHARS else ([], [])
    own = alone or in_prose
    if own and all(other == own[0] for other in own[1:]):
        answer = _fitting(own[0], schema)
        if answer is not None and (alone or any(vars(answer).values())):
            return answer
    raise ModelError(
        f"The model's answer of {len(text)} characters is not JSON that fits {schema.__name__}."
    )


def _spoken(text: str) -> str:
    """Remove the thoughts before a reply.

    Raises:
        TruncatedAnswer: the reply ends within a thought.
    """
    text = _THOUGHTS.sub("", text)
    if _OPENING.match(text):
        raise TruncatedAnswer("The model's answer contains only unfinished reasoning.")
    return text


def _values(text: str) -> tuple[list[Any], list[Any]]:
    """Yield the JSON values that are the whole reply or a whole code block, and objects in prose;
    None for an object that does not end its line.

    Raises:
        TruncatedAnswer: the reply ends before a thought or value does.
        ModelError: a value is not valid JSON; nothing inside it counts as an answer.
    """
    text = _spoken(text)
    alone: list[Any] = []
    in_prose: list[Any] = []
    at = 0
    while start := _START.search(text, at):
        if start["closes"] or start["thought"]:
            alone, in_prose, at = [], [], start.end()  # a thought is no answer
        if start["closes"]:
            continue
        value, at = _value_at(text, start.end())
        end = _END.match(text, at)
        if end and start["leads"] is not None:
            alone.append(value)
        elif isinstance(value, dict):
            in_prose.append(value if end or _LINE_END.match(text, at) else None)
        at = end.end() if end else at
    return alone, in_prose


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


def _fitting(value: Any, schema: type[Answer]) -> Answer | None:
    fields = schema.model_fields
    try:
        # lone surrogates, which no schema accepts
        value = json.loads(valid_text(json.dumps(value, ensure_ascii=False)))
        if isinstance(value, list):  # the array is the only required field
            needed = [name for name, field in fields.items() if field.is_required()]
            value = dict.fromkeys(needed, cast("Any", value)) if len(needed) == 1 else {}
        names = set(cast("dict[str, Any]", value)) if isinstance(value, dict) else set[str]()
        return schema.model_validate(value) if fields.keys() & names else None
    except (
        TypeError,
        ValueError,
        RecursionError,
    ):  # not representable in JSON, or not fitting the schema
        return None


def shaped(answer: Any, schema: type[Answer], what: str) -> Answer:
    """Convert an answer, which may be an object of the schema, another model, a dict, a list or
    text, into an object of the schema.

    Raises:
        ModelError: the answer does not fit; `what` names who gave it.
    """
    if isinstance(answer, schema):
        return answer
    if isinstance(answer, str):
        return parse_answer(answer, schema)
    value = cast("Any", answer).model_dump() if isinstance(answer, BaseModel) else answer
    fitting = _fitting(value, schema) if isinstance(value, (dict, list)) else None
    if fitting is None:
        raise ModelError(
            f"{what} returned {type(answer).__name__}, which does not fit {schema.__name__}."
        )
    return fitting
