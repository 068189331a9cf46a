"""Schemas of models' answers, which read whatever a model wrote as far as it can be used."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
)

from ..checks import valid_text
from ..models.prompts.escaping import unescaped
from ..records import MemoryType
from ..retrieval.ranking.importance import clamped

logger = logging.getLogger(__name__)

Model = TypeVar("Model", bound=BaseModel)
_IMPORTANCE = {"low": 0.2, "medium": 0.5, "high": 0.8, "critical": 1.0}


def _plain(text: str) -> str:
    """Return a text on one line, with the signs that its prompt had escaped."""
    return " ".join(unescaped(valid_text(text)).split())


def _text(value: object) -> str:
    return _plain(str(value)) if isinstance(value, (str, int)) else ""


def _name(value: object) -> str:
    """Return a name that a prompt gave, such as "M3", of a text that may stand in brackets."""
    return _text(value).upper().strip("[] ")


def _action(value: object) -> str:
    """Return an action that was offered; whatever else a model says counts as ADD."""
    action = _text(value).upper()
    return action if action in ("UPDATE", "SUPERSEDE", "NOOP") else "ADD"


def _type(value: object) -> str:
    return value.strip().lower() if isinstance(value, str) else "semantic"


def _texts(value: object) -> list[str]:
    """Return a list of texts; of a text what stands between its commas."""
    items = value.split(",") if isinstance(value, str) else value
    listed = cast("list[object]", items) if isinstance(items, list) else [items]
    return list(filter(None, map(_text, listed)))


def _truth(value: object) -> bool:
    return _text(value).lower() in ("true", "yes", "1")


def _number(value: object) -> float:
    number = _IMPORTANCE.get(_type(value), value)
    try:
        return clamped(float(cast("Any", number)))
    except (TypeError, ValueError, OverflowError):
        return 0.5


def _fitting(kind: type[Model], value: Any) -> Any:
    """Return a list without the items that do not fit; anything else as it is."""
    if not isinstance(value, list):
        return value
    items: list[Model] = []
    for item in cast("list[Any]", value):
        try:
            items.append(kind.model_validate(item))
        except ValidationError:
            continue
    return items


Text: TypeAlias = Annotated[str, BeforeValidator(_text)]
Name: TypeAlias = Annotated[str, BeforeValidator(_name)]
Texts: TypeAlias = Annotated[list[str], BeforeValidator(_texts)]


class ExtractedFact(BaseModel):
    """One fact."""

    text: Annotated[str, AfterValidator(_plain)]
    type: Annotated[MemoryType, BeforeValidator(_type)] = "semantic"
    topics: Texts = Field(default_factory=list[str])
    importance: Annotated[float, BeforeValidator(_number)] = 0.5
    is_error: Annotated[bool, BeforeValidator(_truth)] = False
    happened_at: Text | None = None
    subject: Text | None = None
    attribute: Text | None = None
    sources: Texts = Field(default_factory=list[str])


class ExtractedFacts(BaseModel):
    """The facts of one part of a transcript.

    Items that are none are left out. An empty list is a good answer; a list of nothing but such
    items is none.
    """

    facts: list[ExtractedFact]

    @field_validator("facts", mode="before")
    @classmethod
    def only_facts(cls, value: Any) -> Any:
        """Return the items that have the text of a fact, which may be empty, and no unknown
        type.
        """
        if not isinstance(value, list):
            return value
        items = cast("list[Any]", value)
        items = [{"text": item} if isinstance(item, str) else item for item in items]
        facts = cast("Sequence[ExtractedFact]", _fitting(ExtractedFact, items))
        if items and not facts:
            raise ValueError("no item of the list is a fact")
        if left_out := len(items) - len(facts):  # not what they say: it is of a conversation
            logger.warning("Left out %s of a model's facts: no text, or an unknown type.", left_out)
        return facts


class ExtractedSession(ExtractedFacts):
    """The same at a session's end, with a summary of the whole session."""

    summary: Text = ""


class Decision(BaseModel):
    """Decision of a model about one new fact."""

    fact: Name = ""
    action: Annotated[Literal["ADD", "UPDATE", "SUPERSEDE", "NOOP"], BeforeValidator(_action)] = (
        "ADD"
    )
    memory: Name | None = None
    text: Text | None = None


class Decisions(BaseModel):
    """All decisions of a call."""

    decisions: Annotated[list[Decision], BeforeValidator(partial(_fitting, Decision))]


class GroupSummary(BaseModel):
    """The model's summary of some memories."""

    summary: Text
