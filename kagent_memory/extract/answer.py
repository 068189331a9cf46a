"""What the model is asked to answer, and what of its answer can be used."""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel, Field, field_validator


class ExtractedFact(BaseModel):
    """One fact as a model writes it; read tolerantly."""

    text: str = ""
    type: str = "semantic"
    topics: list[str] = Field(default_factory=list[str])
    importance: float = 0.5
    is_error: bool = False
    happened_at: str | None = None
    subject: str | None = None
    attribute: str | None = None
    sources: list[str] = Field(default_factory=list[str])

    @field_validator("text", "type", mode="before")
    @classmethod
    def _text(cls, value: object) -> str:
        return value if isinstance(value, str) else ""

    @field_validator("happened_at", "subject", "attribute", mode="before")
    @classmethod
    def _text_or_none(cls, value: object) -> str | None:
        return str(value).strip() or None if isinstance(value, (str, int)) else None

    @field_validator("topics", "sources", mode="before")
    @classmethod
    def _texts(cls, value: object) -> list[str]:
        if isinstance(value, str):
            return value.split(",")
        if isinstance(value, (list, tuple)):
            return [str(item) for item in cast("list[object]", value) if isinstance(item, (str, int))]
        return [str(value)] if isinstance(value, int) else []

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
        except (TypeError, ValueError):
            return 0.5

    @field_validator("is_error", mode="before")
    @classmethod
    def _flag(cls, value: object) -> bool:
        return value.strip().lower() in ("true", "yes", "1") if isinstance(value, str) else value is True


class ExtractedFacts(BaseModel):
    """The facts of one part of a transcript; items that are none are left out, an empty list is a good answer."""

    facts: list[ExtractedFact]

    @field_validator("facts", mode="before")
    @classmethod
    def _items(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        items = cast("list[Any]", value)
        read = ({"text": item} if isinstance(item, str) else item for item in items)
        return [item for item in read if isinstance(item, (dict, ExtractedFact))]


class ExtractedSession(ExtractedFacts):
    """The same at a session's end, with a summary of the whole session."""

    summary: str = ""

    @field_validator("summary", mode="before")
    @classmethod
    def _summary(cls, value: object) -> str:
        return value if isinstance(value, str) else ""
