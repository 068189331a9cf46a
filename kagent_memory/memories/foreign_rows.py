"""The rows that other memory systems keep, and the memory that each of them is."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from pydantic import AwareDatetime, BaseModel, Json, TypeAdapter
from typing_extensions import override

from ..records import Fact

NO_SESSION = "__unknown_session_id__"  # of ADK's own service
SAYING = ("text", "content", "memory", "data")  # what LangGraph's users call the text of a value


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A memory of another system.

    Attributes:
        key: what it is known by there.
        app, user: None: the source does not say.
    """

    key: tuple[str, ...]
    app: str | None = None
    user: str | None = None
    fact: Fact
    created_at: datetime | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None
    delivered: int = 0
    vector: tuple[float, ...] | None = None


class Form(BaseModel, ABC):
    """How the rows of one system are understood."""

    @abstractmethod
    def found(self) -> Found:
        """The memory."""


class KagentRow(Form):
    """A row of kagent's table `memory`."""

    id: str
    agent_name: str
    user_id: str
    content: str | None
    embedding: Json[tuple[float, ...]] | None
    metadata: str | None
    created_at: AwareDatetime
    expires_at: AwareDatetime | None
    access_count: int | None

    @override
    def found(self) -> Found:
        """The memory."""
        try:
            metadata = json.loads(self.metadata or "{}")
        except ValueError:
            metadata = self.metadata
        if not isinstance(metadata, dict):
            metadata = {} if metadata is None else {"metadata": metadata}
        held = TypeAdapter(dict[str, Any]).validate_python(metadata)
        session = held.get("session_id")
        days = 0
        if self.expires_at:  # told by the client's clock, and the other by the database's
            days = max(1, round((self.expires_at - self.created_at) / timedelta(days=1)))
        return Found(
            key=(self.id,),
            app=self.agent_name,
            user=self.user_id,
            fact=Fact(
                self.content or "",
                session_id=session if isinstance(session, str) and session else None,
                metadata=held,
                ttl_days=min(days, 36_500),
            ),
            created_at=self.created_at,
            expires_at=self.expires_at,
            delivered=self.access_count or 0,
            vector=self.embedding if self.embedding and any(self.embedding) else None,
        )


class Mem0Memory(Form):
    """A memory as mem0's `get_all` gives it."""

    id: str
    memory: str
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    actor_id: str | None = None
    role: str | None = None
    metadata: dict[str, Any] | None = None
    categories: list[str] | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    expiration_date: date | None = None

    @override
    def found(self) -> Found:
        """The memory."""
        until = self.expiration_date
        return Found(
            key=(self.id,),
            app=self.agent_id or None,
            user=self.user_id or None,
            fact=Fact(
                self.memory,
                session_id=self.run_id or None,
                author=self.actor_id or self.role or None,
                topics=tuple(self.categories or ()),
                metadata=self.metadata or {},
                ttl_days=0,
            ),
            created_at=self.created_at,
            updated_at=self.updated_at,
            expires_at=until and datetime.combine(until, time(), UTC),
        )


class Mem0Row(Form):
    """A row of the table that mem0 keeps its memories in."""

    id: str
    payload: dict[str, Any]

    @override
    def found(self) -> Found:
        """The memory."""
        own = {"data", "hash", "text_lemmatized", *Mem0Memory.model_fields}
        more = {name: value for name, value in self.payload.items() if name not in own}
        known = {name: value for name, value in self.payload.items() if name in Mem0Memory.model_fields}
        said = {"id": self.id, "memory": self.payload.get("data"), "metadata": more}
        return Mem0Memory.model_validate({**known, **said}).found()


class AdkPart(BaseModel):
    """A part of a content."""

    text: str | None = None
    thought: bool | None = None


class AdkContent(BaseModel):
    """What an event holds."""

    parts: list[AdkPart] | None = None


class AdkRow(Form):
    """A row of the table `memory_events` of ADK's SqliteMemoryService."""

    app_name: str
    user_id: str
    session_id: str
    event_id: str
    author: str
    timestamp: float
    content_json: Json[AdkContent]

    @override
    def found(self) -> Found:
        """The turn."""
        parts = self.content_json.parts or []
        return Found(
            key=(self.app_name, self.user_id, self.session_id, self.event_id),
            app=self.app_name,
            user=self.user_id,
            fact=Fact(
                "\n".join(part.text for part in parts if part.text and not part.thought),
                type="episodic",
                session_id=None if self.session_id == NO_SESSION else self.session_id,
                event_ids=(self.event_id,),
                author=self.author or None,
                verbatim=True,
                ttl_days=0,
            ),
            created_at=datetime.fromtimestamp(self.timestamp, UTC),
        )


class LangGraphRow(Form):
    """A row of the table `store` of LangGraph."""

    prefix: str
    key: str
    value: dict[str, Any]
    created_at: AwareDatetime
    updated_at: AwareDatetime | None
    expires_at: AwareDatetime | None

    @override
    def found(self) -> Found:
        """The item; whose it is its namespace says, if anything does."""
        text, rest = _said(self.value)
        return Found(
            key=(self.prefix, self.key),
            fact=Fact(text, metadata={**rest, "namespace": self.prefix, "key": self.key}, ttl_days=0),
            created_at=self.created_at,
            updated_at=self.updated_at,
            expires_at=self.expires_at,
        )


def _said(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The text of a value, and the rest of it; a value without one is its own text, as JSON."""
    for name in SAYING:
        inner: object = value.get(name)
        if isinstance(inner, str):
            return inner, {key: one for key, one in value.items() if key != name}
        if isinstance(inner, dict):  # LangMem nests it once
            held = TypeAdapter(dict[str, Any]).validate_python(inner)
            if any(isinstance(held.get(name), str) for name in SAYING):
                text, rest = _said(held)
                return text, {**{key: one for key, one in value.items() if key != name}, **rest}
    return (json.dumps(value, ensure_ascii=False), {}) if value else ("", {})
