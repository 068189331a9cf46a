"""The options of the verbs, as what passes them on takes them: `MemoryApi` says what each means."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from ..records import Filter, MemoryType, Scope, Vector
from .findings import Defect, Progress

if TYPE_CHECKING:
    from ..models.llm import Llm
    from ..stores.base import JobState, Order


class RememberOptions(TypedDict, total=False):
    """The options of `MemoryApi.remember`."""

    ended: bool
    save: bool
    end_after_minutes: float | None
    compaction: bool
    llm: Llm | str | None


class AddOptions(TypedDict, total=False):
    """The options of `MemoryApi.add`."""

    embedding: Sequence[Vector] | None
    embedding_space: str | None
    who: str
    replaces: str | None


class EditOptions(TypedDict, total=False):
    """The options of `MemoryApi.edit`."""

    content: str | None
    type: MemoryType | None
    topics: Sequence[str] | None
    tags: Sequence[str] | None
    importance: float | None
    metadata: Mapping[str, Any] | None
    category: str | None
    ttl_days: int | None
    happened_at: datetime | None
    revision: int | None
    who: str
    why: str


class ForgetOptions(TypedDict, total=False):
    """The options of `MemoryApi.forget`."""

    session_id: str | None
    tag: str | None
    author: str | None
    before: datetime | None
    after: datetime | None
    filter: Filter | None
    everything: bool
    dry_run: bool
    who: str


class ListOptions(TypedDict, total=False):
    """The options of `MemoryApi.list`."""

    filter: Filter
    order: Order
    limit: int
    cursor: str | None


class AuditOptions(TypedDict, total=False):
    """The options of `MemoryApi.audit`."""

    defects: Collection[Defect] | None
    most: int
    progress: Progress | None


class ScopeOptions(TypedDict, total=False):
    """The options of `MemoryApi.scopes`.

    Attributes:
        tenant: only scopes with this tenant.
        user: only scopes with this user.
        app: only scopes with this app.
        after: only those that come after this one: the last of the former page.
        limit: how many at most; 1,000 by default.
    """

    tenant: str | None
    user: str | None
    app: str | None
    after: Scope | None
    limit: int


class JobOptions(TypedDict, total=False):
    """The options of `MemoryApi.jobs`.

    Attributes:
        scope: whose; None: everybody's.
        tenant: only those of scopes with this tenant.
        user: only those of scopes with this user.
        app: only those of scopes with this app.
        state: only those in this state.
        limit: how many at most; 100 by default.
        id: only the job of this id.
        payloads: whether what they carry, which may be much, is read too; a server keeps it to itself.
    """

    scope: Scope | None
    tenant: str | None
    user: str | None
    app: str | None
    state: JobState | None
    limit: int
    id: str | None
    payloads: bool


class ExportOptions(TypedDict, total=False):
    """The options of `MemoryApi.export`.

    Attributes:
        tenant: only of this tenant; None: of any.
        user: only of this user.
        app: only of this app.
        vectors: with their vectors, which then need not be made anew where they are imported.
    """

    tenant: str | None
    user: str | None
    app: str | None
    vectors: bool
