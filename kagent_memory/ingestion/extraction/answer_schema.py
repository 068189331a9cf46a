"""What the model is asked to answer, and what of its answer can be used."""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel, Field, field_validator

from ...records import MEMORY_TYPES, MemoryType, valid_text

_TYPES: dict[str, MemoryType] = {name: name for name in MEMORY_TYPES}


def known_type(name: str) -> MemoryType | None:
    """The type that a model means; None when it is none of ours."""
    return _TYPES.get(name.strip().lower())


class ExtractedFact(BaseModel):
    """One fact as a model writes it; read tolerantly."""

    text: str = ""
    type: str = Field(default="semantic", json_schema_extra={"enum": list(MEMORY_TYPES)})
    topics: list[str] = Field(default_factory=list[str])
    importance: float = 0.5
    is_error: bool = False
    happened_at: str | None = None
    subject: str | None = None
    attribute: str | None = None
    sources: list[str] = Field(default_factory=list[str])

    @field_validator("text", mode="before")
    @classmethod
    def _text(cls, value: object) -> str:
        return valid_text(value) if isinstance(value, str) else ""

    @field_validator("type", mode="before")
    @classmethod
    def _type(cls, value: object) -> str:
        return value if isinstance(value, str) else "semantic"

    @field_validator("happened_at", "subject", "attribute", mode="before")
    @classmethod
    def _text_or_none(cls, value: object) -> str | None:
        return valid_text(_plain(value)).strip() or None if isinstance(value, (str, int)) else None

    @field_validator("topics", "sources", mode="before")
    @classmethod
    def _texts(cls, value: object) -> list[str]:
        if isinstance(value, str):
            return value.split(",")
        if isinstance(value, (list, tuple)):
            return [valid_text(_plain(item)) for item in cast("list[object]", value) if isinstance(item, (str, int))]
        return [_plain(value)] if isinstance(value, int) else []

    @field_validator("importance", mode="before")
    @classmethod
    def _number(cls, value: object) -> float:
        words = {"low": 0.2, "medium": 0.5, "high": 0.8, "critical": 1.0}
        try:
            return (
                words.get(value.strip().lower()) or float(value)
                if isinstance(value, str)
                else float(cast("Any", value))
            )
        except (TypeError, ValueError, OverflowError):
            return 0.5

    @field_validator("is_error", mode="before")
    @classmethod
    def _flag(cls, value: object) -> bool:
        return value.strip().lower() in ("true", "yes", "1") if isinstance(value, str) else value is True


def _plain(value: str | int) -> str:
    try:
        return str(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return ""


class ExtractedFacts(BaseModel):
    """The facts of one part of a transcript.

    Items that are none are left out. An empty list is a good answer; a list of nothing but such items is none.
    """

    facts: list[ExtractedFact]

    @field_validator("facts", mode="before")
    @classmethod
    def _items(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        items = cast("list[Any]", value)
        read = [{"text": item} if isinstance(item, str) else item for item in items]
        facts = [item for item in read if isinstance(item, ExtractedFact) or _is_fact(item)]
        if items and not facts:
            raise ValueError("no item of the list is a fact")
        return facts


def _is_fact(item: Any) -> bool:
    """Whether an item has the text of a fact, which may be empty, and no unknown type."""
    if not isinstance(item, dict) or not isinstance(cast("dict[str, Any]", item).get("text"), str):
        return False
    kind = cast("dict[str, Any]", item).get("type", "semantic")
    return not isinstance(kind, str) or known_type(kind) is not None


class ExtractedSession(ExtractedFacts):
    """The same at a session's end, with a summary of the whole session."""

    summary: str = ""

    @field_validator("summary", mode="before")
    @classmethod
    def _summary(cls, value: object) -> str:
        return value if isinstance(value, str) else ""
