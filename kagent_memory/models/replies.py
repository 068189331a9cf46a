"""From a model's text to an object of the wanted shape: pure."""

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
# The end of a thought that the model's template opened; a value that leads its reply or its code
# block, or may be one in prose. Bounded, since what a model answers must not be read twice.
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
    """Return the prompt for a model that cannot be held to a schema: it asks for JSON and shows the
    shape.
    """
    shape = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    return (
        f"{prompt}\n\nAnswer with one JSON value that fits this JSON schema, and with "
        f"nothing else:\n{shape}"
    )


def parse_answer(text: str | None, schema: type[Answer]) -> Answer:
    """Return the model's own answer: the one JSON value that its reply is, or that stands alone in
    a code block of it.

    Thoughts in <think> tags and prose around a code block are passed over. One object without a
    code block may have prose around it when it ends its line and says something. Nothing inside a
    value is ever taken for the answer. An array serves for a schema whose only field that must be
    there is a list. An object must name at least one of the schema's fields, so that an apology in
    JSON never passes for an empty answer.

    Raises:
        TruncatedAnswer: the reply ends before its value does.
        ModelError: the reply is not one value that fits.
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
    """Return a reply without the thoughts before it.

    Raises:
        TruncatedAnswer: it ends within a thought.
    """
    text = _THOUGHTS.sub("", text)
    if _OPENING.match(text):
        raise TruncatedAnswer("The model's answer contains only unfinished reasoning.")
    return text


def _values(text: str) -> tuple[list[Any], list[Any]]:
    """Return the JSON values that are the whole reply or a whole code block, and the objects that
    prose surrounds: None for one that does not end its line.

    Raises:
        TruncatedAnswer: the reply ends before its thought or a value does.
        ModelError: a value cannot be read for another reason; what it holds is no answer by itself.
    """
    text = _spoken(text)
    alone: list[Any] = []
    in_prose: list[Any] = []
    at = 0
    while start := _START.search(text, at):
        if start["closes"] or start["thought"]:
            alone, in_prose, at = [], [], start.end()  # what was thought is no answer
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
    """Return the JSON value that starts here, and where it ends.

    Raises:
        TruncatedAnswer: it is cut off.
        ModelError: it is not JSON.
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
        # half of a character, which no schema takes
        value = json.loads(valid_text(json.dumps(value, ensure_ascii=False)))
        if isinstance(value, list):  # it fills the only field that must be there
            needed = [name for name, field in fields.items() if field.is_required()]
            value = dict.fromkeys(needed, cast("Any", value)) if len(needed) == 1 else {}
        names = set(cast("dict[str, Any]", value)) if isinstance(value, dict) else set[str]()
        return schema.model_validate(value) if fields.keys() & names else None
    except (TypeError, ValueError, RecursionError):  # what JSON cannot hold, and what does not fit
        return None


def shaped(answer: Any, schema: type[Answer], what: str) -> Answer:
    """Return an answer as the wanted object; it may come as one, as another model, a dict, a list
    or text.

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
        raise ModelError(
            f"{what} returned {type(answer).__name__}, which does not fit {schema.__name__}."
        )
    return fitting
