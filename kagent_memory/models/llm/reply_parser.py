"""From a model's text to an object of the wanted shape: pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, TypeVar, cast, get_origin

from pydantic import BaseModel, RootModel, ValidationError

from ...checks import valid_text
from ...concurrency import run_in_thread
from ...errors import ModelError, TruncatedAnswer

Answer = TypeVar("Answer", bound=BaseModel)
MOST_VALUES = 200  # read in one reply
MOST_CHARS = 2_000_000
_THOUGHT = r"think|thinking|thought|thoughts|reasoning|reflection"
_MARK = re.compile(
    rf"(?P<opens><(?:{_THOUGHT})>|\[THINK\])|(?P<closes></(?:{_THOUGHT})>|\[/THINK\])|[\[{{\]}}]",
    re.IGNORECASE,
)
_CLOSING = re.compile(rf"</(?:{_THOUGHT})>|\[/THINK\]", re.IGNORECASE)
_BLOCK = re.compile(r"(?:\A|\n)[ \t]*```(?:[ \t]*[\w+-]+)?\s*\Z|```(?:[ \t]*[\w+-]+)?[ \t]*\n\s*\Z")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.|\\\Z)*(?:"|\Z)|[\[{\]}]', re.DOTALL)


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
    values = _values(text) if len(text) <= MOST_CHARS else []
    alone = [one for one in values if one.alone]
    own = alone or [one for one in values if isinstance(one.value, dict)]
    if own and all(one.value == own[0].value for one in own[1:]):
        answer = _fitting(own[0].value, schema)
        says_something = answer is not None and any(
            getattr(answer, name) for name in type(answer).model_fields
        )
        if answer is not None and (alone or (own[0].ends_line and says_something)):
            return answer
    raise ModelError(
        f"The model's answer of {len(text)} characters is not JSON that fits {schema.__name__}."
    )


async def read_answer(text: str | None, schema: type[Answer]) -> Answer:
    """Parse an answer as `parse_answer` does, beside the event loop where the reply is long."""
    return await run_in_thread(len(text or ""), parse_answer, text, schema)


@dataclass(frozen=True, slots=True)
class _Found:
    """A JSON value of a reply that lies in no other.

    Attributes:
        alone: it is the whole reply, or the whole of a code block.
        ends_line: nothing follows on its line.
    """

    value: Any
    alone: bool
    ends_line: bool


def _values(text: str) -> list[_Found]:
    values: list[_Found] = []
    begin = at = depth = tried = 0
    while mark := _MARK.search(text, at):
        at = mark.end()
        if mark["opens"]:
            if not text[begin : mark.start()].strip():
                closing = _CLOSING.search(text, at)
                if closing is None:
                    raise TruncatedAnswer(
                        f"The model's answer of {len(text)} characters contains only unfinished "
                        "reasoning."
                    )
                begin = at = closing.end()
        elif mark["closes"]:  # some models' templates open the thought before the model speaks
            values, begin, depth = [], at, 0
        elif depth or mark[0] in "]}" or tried == MOST_VALUES:
            depth = max(0, depth + (1 if mark[0] in "[{" else -1))
        else:
            tried += 1
            value = _value_at(text, begin, mark.start())
            if value is None:
                depth = 1
            else:
                values.append(value[0])
                at = value[1]
    return values


def _value_at(text: str, begin: int, start: int) -> tuple[_Found, int] | None:
    """Return the JSON value that starts here, and where it ends; None for a bracket of prose.

    Raises:
        TruncatedAnswer: a value starts here, and the reply ends before it does.
        ModelError: it cannot be read for another reason; what it holds is not an answer by itself.
    """
    before = text[begin:start]
    leads = not before.strip() or _BLOCK.search(before) is not None
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        if not (
            leads
            or (text[start] == "{" and text[start + 1 : start + 200].lstrip()[:1] in ('"', ""))
        ):
            return None
        depth = 0
        for token in _TOKEN.finditer(text, start):
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
            if depth == 0:
                raise ModelError(
                    f"The model's answer of {len(text)} characters is not valid JSON."
                ) from None
        raise TruncatedAnswer(
            f"The model's answer of {len(text)} characters ends before its JSON does."
        ) from None
    line = text.find("\n", end)
    rest = text[end : line if line >= 0 else len(text)].strip()
    behind = text[end : end + 200].lstrip()
    alone = leads and (behind.startswith("```") or not text[end:].strip())
    return _Found(value, alone, not rest or rest.startswith("```")), end


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key occurs twice")  # which of both was meant nobody can say
    return made


# strict=False: small models write line breaks inside strings
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_object)


def _valid(value: Any) -> Any:
    """Return the value with every text in it valid."""
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, list):
        return [_valid(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _valid(item) for key, item in cast("dict[Any, Any]", value).items()}
    return value


def _fitting(value: Any, schema: type[Answer]) -> Answer | None:
    try:
        value = _valid(value)
        if issubclass(schema, RootModel):
            return cast("Answer", schema.model_validate(value))
        fields = schema.model_fields
        if isinstance(value, list):
            # it fills the schema's only field, or the only one that must be there, when that is a
            # list
            needed = [
                (name, field)
                for name, field in fields.items()
                if len(fields) == 1 or field.is_required()
            ]
            lists = [
                one
                for one in needed
                if (get_origin(one[1].annotation) or one[1].annotation) in (list, tuple)
            ]
            if len(needed) != 1 or not lists:
                return None
            ((name, only),) = lists
            return schema.model_validate({only.alias or name: value})
        known = set(fields) | {str(item.alias or item.validation_alias) for item in fields.values()}
        return schema.model_validate(value) if not fields or known & set(value) else None
    except (ValidationError, RecursionError):
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
