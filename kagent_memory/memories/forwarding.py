"""The verbs of memories that can only be reached in one place, such as a thread's event loop."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import Unpack, override

from ..records import Change, Memory, Message, Recall, Revision, Scope, Scopes, WhichScopes
from ..retrieval.options import RecallOptions
from .api import Items, MemoryApi
from .findings import Audit
from .options import (
    AddOptions,
    AllImportOptions,
    AuditOptions,
    EditOptions,
    ExportOptions,
    ForgetOptions,
    JobOptions,
    ListOptions,
    RememberOptions,
    ScopeOptions,
)

if TYPE_CHECKING:
    from ..stores.base import Job, Page, Pruned, ScopeStats
    from ..stores.receipts import Receipt
    from ..stores.values import ForgottenTenant
    from .receipts import ReceiptCheck
    from .transfer import Imported

Result = TypeVar("Result")
LINES = 100


class Lines:
    """The lines of an export, taken some at a time where its memories are."""

    def __init__(self, options: ExportOptions) -> None:
        self._options = options
        self._lines: AsyncGenerator[str] | None = None

    async def some(self, memories: MemoryApi) -> Sequence[str]:
        """The next ones; none at the end."""
        if self._lines is None:
            self._lines = memories.export(**self._options)
        found: list[str] = []
        async for line in self._lines:
            found.append(line)
            if len(found) == LINES:
                break
        return found

    async def close(self, _: MemoryApi) -> None:
        """No more are wanted."""
        if self._lines is not None:
            await self._lines.aclose()


class ForwardingMemories(MemoryApi):
    """Passes every verb on to memories that can only be reached in one place."""

    @abstractmethod
    async def _forward(self, use: Callable[[MemoryApi], Awaitable[Result]], *, finish: bool = False) -> Result:
        """What `use` makes of those memories; `finish`: what was begun is not undone when the caller goes away."""

    @override
    async def remember(
        self, scope: Scope, messages: Sequence[Message], session_id: str, **options: Unpack[RememberOptions]
    ) -> str | None:
        return await self._forward(
            lambda memories: memories.remember(scope, messages, session_id, **options), finish=True
        )

    @override
    async def end_session(self, scope: Scope, session_id: str) -> None:
        return await self._forward(lambda memories: memories.end_session(scope, session_id), finish=True)

    @override
    async def add(self, scope: Scope, items: Items, **options: Unpack[AddOptions]) -> list[str]:
        return await self._forward(lambda memories: memories.add(scope, items, **options), finish=True)

    @override
    async def edit(self, scope: Scope, id: str, **options: Unpack[EditOptions]) -> Memory:
        return await self._forward(lambda memories: memories.edit(scope, id, **options), finish=True)

    @override
    async def pin(self, scope: Scope, id: str, pinned: bool = True, *, who: str = "") -> Memory:
        return await self._forward(lambda memories: memories.pin(scope, id, pinned, who=who), finish=True)

    @override
    async def forget(
        self, scope: Scope, ids: Sequence[str] | str = (), **options: Unpack[ForgetOptions]
    ) -> tuple[str, ...]:
        return await self._forward(lambda memories: memories.forget(scope, ids, **options), finish=True)

    @override
    async def undo(self, scope: Scope, id: str, *, who: str = "") -> tuple[Memory, ...]:
        return await self._forward(lambda memories: memories.undo(scope, id, who=who), finish=True)

    @override
    async def confirm(self, scope: Scope, id: str, *, who: str = "") -> Memory:
        return await self._forward(lambda memories: memories.confirm(scope, id, who=who), finish=True)

    @override
    async def reject(self, scope: Scope, id: str, *, who: str = "") -> tuple[str, ...]:
        return await self._forward(lambda memories: memories.reject(scope, id, who=who), finish=True)

    @override
    async def feedback(self, scope: Scope, id: str, *, success: bool) -> None:
        return await self._forward(lambda memories: memories.feedback(scope, id, success=success), finish=True)

    @override
    async def recall(self, scope: WhichScopes, query: str, **options: Unpack[RecallOptions]) -> Recall:
        return await self._forward(lambda memories: memories.recall(scope, query, **options))

    @override
    async def get(self, scope: Scope, id: str, *, superseded: bool = False) -> Memory:
        return await self._forward(lambda memories: memories.get(scope, id, superseded=superseded))

    @override
    async def list(self, scope: Scope, **options: Unpack[ListOptions]) -> Page:
        return await self._forward(lambda memories: memories.list(scope, **options))

    @override
    async def history(self, scope: Scope, id: str) -> Sequence[Revision]:
        return await self._forward(lambda memories: memories.history(scope, id))

    @override
    async def stats(self, scope: Scope) -> ScopeStats:
        return await self._forward(lambda memories: memories.stats(scope))

    @override
    async def scopes(self, **options: Unpack[ScopeOptions]) -> Sequence[Scope]:
        return await self._forward(lambda memories: memories.scopes(**options))

    @override
    async def jobs(self, **options: Unpack[JobOptions]) -> Sequence[Job]:
        return await self._forward(lambda memories: memories.jobs(**options))

    @override
    async def retry_job(self, job_id: str) -> None:
        return await self._forward(lambda memories: memories.retry_job(job_id), finish=True)

    @override
    async def drop_job(self, job_id: str) -> None:
        return await self._forward(lambda memories: memories.drop_job(job_id), finish=True)

    @override
    async def prune(self, *, dry_run: bool = False) -> Pruned:
        return await self._forward(lambda memories: memories.prune(dry_run=dry_run), finish=True)

    @override
    async def forget_tenant(self, tenant: str, *, limit: int | None = None, who: str = "") -> ForgottenTenant:
        return await self._forward(lambda memories: memories.forget_tenant(tenant, limit=limit, who=who), finish=True)

    @override
    async def export(self, **options: Unpack[ExportOptions]) -> AsyncGenerator[str]:
        lines = Lines(options)
        try:
            while some := await self._forward(lines.some):
                for line in some:
                    yield line
        finally:
            await self._forward(lines.close)

    @override
    async def import_(self, place: Path | str, **options: Unpack[AllImportOptions]) -> Imported:
        return await self._forward(lambda memories: memories.import_(place, **options))

    @override
    async def receipts(self, *, tenant: str | None = None, after: int = 0, limit: int = 100) -> Sequence[Receipt]:
        return await self._forward(lambda memories: memories.receipts(tenant=tenant, after=after, limit=limit))

    @override
    async def check_receipts(self, *, tenant: str | None = None) -> ReceiptCheck:
        return await self._forward(lambda memories: memories.check_receipts(tenant=tenant))

    @override
    async def audit(self, scope: Scope | Scopes | None = None, **options: Unpack[AuditOptions]) -> Audit:
        return await self._forward(lambda memories: memories.audit(scope, **options))

    @override
    async def consolidate(self, scope: Scope, *, dry_run: bool = False) -> Sequence[Change]:
        return await self._forward(lambda memories: memories.consolidate(scope, dry_run=dry_run))

    @override
    async def check(self) -> Mapping[str, str]:
        return await self._forward(lambda memories: memories.check())

    @override
    async def drain(self, timeout: float = 30.0) -> bool:
        return await self._forward(lambda memories: memories.drain(timeout))
