"""Schemas of models' answers, which read whatever a model wrote as far as it can be used."""

from __future__ import annotations

import logging
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, Field, field_validator

from ..checks import valid_text
from ..records import MEMORY_TYPES, MemoryType
from ..retrieval.ranking.importance import clamped

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
_TYPES: dict[str, MemoryType] = {name: name for name in MEMORY_TYPES}
_ACTIONS = frozenset(("UPDATE", "SUPERSEDE", "NOOP"))
_IMPORTANCE = {"low": 0.2, "medium": 0.5, "high": 0.8, "critical": 1.0}


def _text(value: object) -> str:
    return valid_text(str(value)) if isinstance(value, (str, int)) else ""


def _name(value: object) -> str:
    """Return a name that a prompt gave, such as "M3", of a text that may stand in brackets."""
    return _text(value).upper().strip("[] ")


def _action(value: object) -> str:
    """Return an action that was offered; whatever else a model says counts as ADD."""
    action = _text(value).strip().upper()
    return action if action in _ACTIONS else "ADD"


def _texts(value: Any) -> list[str]:
    """Return a list of texts; of a text what stands between its commas."""
    items = value.split(",") if isinstance(value, str) else value
    return (
        [text for item in cast("list[Any]", items) if (text := _text(item))]
        if type(items) is list
        else [_text(value)]
    )


def _truth(value: object) -> bool:
    return str(value).strip().lower() in ("true", "yes", "1")


def _number(value: object) -> float:
    number = _IMPORTANCE.get(value.strip().lower(), value) if isinstance(value, str) else value
    try:
        return clamped(float(cast("Any", number)))
    except (TypeError, ValueError, OverflowError):
        return 0.5


def _objects(value: Any) -> Any:
    """Return a list without the items that are not objects; anything else as it is."""
    if not isinstance(value, list):
        return value
    return [item for item in cast("list[Any]", value) if isinstance(item, (dict, BaseModel))]


Text: TypeAlias = Annotated[str, BeforeValidator(_text)]
Name: TypeAlias = Annotated[str, BeforeValidator(_name)]
Action: TypeAlias = Annotated[
    Literal["ADD", "UPDATE", "SUPERSEDE", "NOOP"], BeforeValidator(_action)
]
Texts: TypeAlias = Annotated[list[str], BeforeValidator(_texts)]
Flag: TypeAlias = Annotated[bool, BeforeValidator(_truth)]
Items: TypeAlias = Annotated[list[Item], BeforeValidator(_objects)]


class ExtractedFact(BaseModel):
    """One fact."""

    text: Text = ""
    type: Text = Field(default="semantic", json_schema_extra={"enum": list(MEMORY_TYPES)})
    topics: Texts = Field(default_factory=list[str])
    importance: Annotated[float, BeforeValidator(_number)] = 0.5
    is_error: Flag = False
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
        items = [
            {"text": fact} if isinstance(fact, str) else fact for fact in cast("list[Any]", value)
        ]
        facts = [item for item in _objects(items) if isinstance(item, BaseModel) or _is_fact(item)]
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
    action: Action = "ADD"
    memory: Name | None = None
    text: Text | None = None


class Decisions(BaseModel):
    """All decisions of a call."""

    decisions: Items[Decision]


class GroupSummary(BaseModel):
    """The model's summary of some memories."""

    summary: Text


def known_type(name: str) -> MemoryType | None:
    """Return the type that a model means; None when it is not one of ours."""
    return _TYPES.get(name.strip().lower())


def _is_fact(item: dict[str, Any]) -> bool:
    kind = item.get("type")
    return isinstance(item.get("text"), str) and (
        not isinstance(kind, str) or known_type(kind) is not None
    )
