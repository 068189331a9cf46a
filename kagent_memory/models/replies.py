"""From a model's text to an object of the wanted shape: pure."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar, cast

from pydantic import BaseModel, RootModel, ValidationError

from ..checks import valid_text
from ..errors import ModelError, TruncatedAnswer

Answer = TypeVar("Answer", bound=BaseModel)
MAX_REPLY_CHARS = 2_000_000
_THOUGHT = r"think|thinking|thought|thoughts|reasoning|reflection"
_MARK = re.compile(
    rf"(?P<opens><(?:{_THOUGHT})>|\[THINK\])|(?P<closes></(?:{_THOUGHT})>|\[/THINK\])|[\[{{\]}}]",
    re.IGNORECASE,
)
_CLOSING = re.compile(rf"</(?:{_THOUGHT})>|\[/THINK\]", re.IGNORECASE)
_BLOCK = re.compile(r"(?:\A|\n)[ \t]*```(?:[ \t]*[\w+-]+)?\s*\Z|```(?:[ \t]*[\w+-]+)?[ \t]*\n\s*\Z")
_BLOCK_CHARS = 100  # that the opening of a code block may take
_SPACE = re.compile(r"\s*")
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


def _values(text: str) -> tuple[list[Any], list[Any]]:
    """Return the JSON values that are the whole reply or a whole code block, and the objects that
    prose surrounds: None for one that does not end its line.

    Raises:
        TruncatedAnswer: the reply ends before its thought or a value does.
        ModelError: a value cannot be read for another reason; what it holds is no answer by itself.
    """
    alone: list[Any] = []
    in_prose: list[Any] = []
    begin = _after_space(text, 0)
    at = depth = 0
    while mark := _MARK.search(text, at):
        start, at = mark.span()
        if mark["closes"] or (mark["opens"] and start == begin):
            alone, in_prose, depth = [], [], 0
            begin = at = _thought_end(text, mark)
        elif mark["opens"]:
            continue
        elif depth or mark[0] in "]}":
            depth = max(0, depth + (1 if mark[0] in "[{" else -1))
        else:
            leads = start == begin or _BLOCK.search(text[max(begin, start - _BLOCK_CHARS) : start])
            parsed = _value_at(text, start, must=bool(leads))
            if parsed is None:  # a bracket of prose
                depth = 1
                continue
            value, at = parsed
            behind = _after_space(text, at)
            ends = behind == len(text) or text.startswith("```", behind)
            if leads and ends:
                alone.append(value)
            elif isinstance(value, dict):
                in_prose.append(value if ends or "\n" in text[at:behind] else None)
    return alone, in_prose


def _thought_end(text: str, mark: re.Match[str]) -> int:
    """Return where the text goes on after the thought that a mark opens or closes; some models'
    templates open it before the model speaks.
    """
    closing = mark if mark["closes"] else _CLOSING.search(text, mark.end())
    if closing is None:
        raise TruncatedAnswer(
            f"The model's answer of {len(text)} characters contains only unfinished reasoning."
        )
    return _after_space(text, closing.end())


def _value_at(text: str, start: int, *, must: bool) -> tuple[Any, int] | None:
    """Return the JSON value that starts here, and where it ends; None for a bracket of prose.

    Raises:
        TruncatedAnswer: it is cut off.
        ModelError: it `must` be one, or looks like one, and is not JSON.
    """
    answer = f"The model's answer of {len(text)} characters"
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        first = _after_space(text, start + 1)
        if not must and (text[start] == "[" or text[first : first + 1] not in ('"', "")):
            return None
        if isinstance(error, json.JSONDecodeError) and (
            error.msg.startswith("Unterminated string") or _LAST_TOKEN.match(text, error.pos)
        ):
            raise TruncatedAnswer(f"{answer} ends before its JSON does.") from None
        raise ModelError(f"{answer} is not valid JSON.") from None


def _after_space(text: str, at: int) -> int:
    """Return where the white space that begins at a place ends."""
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key occurs twice")  # which of both was meant nobody can say
    return members


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
    fields = schema.model_fields
    try:
        value = _valid(value)
        if issubclass(schema, RootModel):
            return cast("Answer", schema.model_validate(value))
        if isinstance(value, list):  # it fills the only field, or the only one that must be there
            needed = [name for name, field in fields.items() if field.is_required()] or list(fields)
            if len(needed) != 1:
                return None
            value = {fields[needed[0]].alias or needed[0]: cast("Any", value)}
        known = {*fields, *(field.alias for field in fields.values())}
        names = set(cast("dict[str, Any]", value)) if isinstance(value, dict) else set[str]()
        return schema.model_validate(value) if known & names or not fields else None
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
