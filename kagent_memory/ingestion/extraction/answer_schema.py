"""What the model is asked to answer, and what of its answer can be used."""

from __future__ import annotations

import logging
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, Field, field_validator

from ...records import MEMORY_TYPES, MemoryType, valid_text
from ..answer_fields import Flag, OptionalText, Text, digits

logger = logging.getLogger(__name__)
_TYPES: dict[str, MemoryType] = {name: name for name in MEMORY_TYPES}


def known_type(name: str) -> MemoryType | None:
    """The type that a model means; None when it is not one of ours."""
    return _TYPES.get(name.strip().lower())


def read_type(value: object) -> str:
    """The name of a type, which may be unknown; "semantic" for what is not a name."""
    return value if isinstance(value, str) else "semantic"


def read_texts(value: object) -> list[str]:
    """A list of texts, or of a text what stands between its commas."""
    if isinstance(value, str):
        return value.split(",")
    if isinstance(value, (list, tuple)):
        return [valid_text(digits(item)) for item in cast("list[object]", value) if isinstance(item, (str, int))]
    return [digits(value)] if isinstance(value, int) else []


def read_importance(value: object) -> float:
    """A number, or one of the words for some; 0.5 for anything else."""
    words = {"low": 0.2, "medium": 0.5, "high": 0.8, "critical": 1.0}
    try:
        if isinstance(value, str):
            return words.get(value.strip().lower()) or float(value)
        return float(cast("Any", value))
    except (TypeError, ValueError, OverflowError):
        return 0.5


class ExtractedFact(BaseModel):
    """One fact as a model writes it; read tolerantly."""

    text: Text = ""
    type: Annotated[str, BeforeValidator(read_type)] = Field(
        default="semantic", json_schema_extra={"enum": list(MEMORY_TYPES)}
    )
    topics: Annotated[list[str], BeforeValidator(read_texts)] = Field(default_factory=list[str])
    importance: Annotated[float, BeforeValidator(read_importance)] = 0.5
    is_error: Flag = False
    happened_at: OptionalText = None
    subject: OptionalText = None
    attribute: OptionalText = None
    sources: Annotated[list[str], BeforeValidator(read_texts)] = Field(default_factory=list[str])


class ExtractedFacts(BaseModel):
    """The facts of one part of a transcript.

    Items that are none are left out. An empty list is a good answer; a list of nothing but such items is none.
    """

    facts: list[ExtractedFact]

    @field_validator("facts", mode="before")
    @classmethod
    def only_facts(cls, value: Any) -> Any:
        """The items that have the text of a fact, which may be empty, and no unknown type."""
        if not isinstance(value, list):
            return value
        facts: list[Any] = []
        for item in cast("list[Any]", value):
            fact = {"text": item} if isinstance(item, str) else item
            if isinstance(fact, dict):
                fields = cast("dict[str, Any]", fact)
                kind = fields.get("type", "semantic")
                if isinstance(fields.get("text"), str) and (not isinstance(kind, str) or known_type(kind) is not None):
                    facts.append(fields)
            elif isinstance(fact, ExtractedFact):
                facts.append(fact)
        if value and not facts:
            raise ValueError("no item of the list is a fact")
        if left_out := len(cast("list[Any]", value)) - len(facts):  # not what they say: it is of a conversation
            logger.warning("Left out %s of a model's facts: no text, or an unknown type.", left_out)
        return facts


class ExtractedSession(ExtractedFacts):
    """The same at a session's end, with a summary of the whole session."""

    summary: Text = ""
