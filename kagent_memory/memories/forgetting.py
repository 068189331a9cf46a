"""The verbs that erase memories for good, and the receipts that prove it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..concurrency import batched
from ..errors import InvalidInput, NotFound
from ..records import EVERYTHING, Count, Filter, Listed, Scope, Text, Time
from ..retention.selections import MAX_AT_ONCE, erasures
from ..stores.receipts import Receipt, chain_id, problem_at_end, problems
from ..stores.values import Erasure, ForgottenTenant
from .opened import Opened
from .types import MaskedFilter, Name, Positive, SessionId, Who
from .verbs import verb


@dataclass(frozen=True, slots=True, eq=False)
class Forgotten(Listed[str]):
    """The ids of the memories that a call of `forget` erased, or would erase; equal to their tuple.

    Attributes:
        ids: the ids of these memories.
        linked: in a dry run, the ids of linked memories that would stay.
    """

    ids: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()

    @property
    def items(self) -> tuple[str, ...]:
        """Return the ids."""
        return self.ids

    def __eq__(self, other: object) -> bool:
        return self.ids == (other.ids if isinstance(other, Forgotten) else other)

    def __hash__(self) -> int:
        return hash(self.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptCheck:
    """The result of checking receipts.

    Attributes:
        chains: the number of tenants with receipts.
        receipts: the number of receipts.
        problems: what is wrong, by chain; empty if all receipts are intact.
        heads: the digest of the last receipt, by chain. Kept elsewhere, it also reveals that a
            whole chain was rewritten.
    """

    chains: int = 0
    receipts: int = 0
    problems: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    heads: Mapping[str, str] = field(default_factory=dict[str, str])


class Forgetting(Opened):
    """The verbs of `Memories` that forget."""

    @verb("POST /memories/forget", durable=True)
    async def forget(
        self,
        scope: Scope,
        ids: Sequence[str] | str | None = None,
        *,
        session_id: SessionId | None = None,
        tag: Text | None = None,
        author: Text | None = None,
        before: Time | None = None,
        after: Time | None = None,
        filter: MaskedFilter = EVERYTHING,
        everything: bool = False,
        dry_run: bool = False,
        who: Who = "",
    ) -> Forgotten:
        """Erase memories for good, with their history and queued work, and return the erased ids.

        Choose them by ids, by conditions, or everything. Conditions must all hold, and also match
        expired and superseded memories. A memory takes along what it superseded or merged, what a
        merge made of it, and history that says the same, so more may go than was named.

        More than 1,000 memories chosen by conditions or as everything are erased in several
        transactions; after an interruption the same call continues.

        Args:
            scope: the scope of the memories.
            ids: the ids of the memories.
            session_id: memories of this session; alone, also its queued work.
            tag: memories with this tag.
            author: memories of this author; alone or with a session, also their queued work.
            before: memories added before this time.
            after: memories added at this time or later.
            filter: memories that match this filter.
            everything: all memories of the scope and its queue.
            dry_run: erase nothing, only return the ids that would go. `linked` names linked
                memories that would stay.
            who: the name for the receipt, which records the act and nothing of the content.

        Raises:
            InvalidInput: none or more than one way is named, the conditions match every memory, or
                the filter has a condition that is named beside it.
            NotFound: an id does not exist; the others are erased all the same.
        """
        ids = [ids] if isinstance(ids, str) else ids
        named: dict[str, Any] = {
            "session_id": session_id,
            "author": author,
            "created_after": after,
            "created_before": before,
        }
        named = {name: value for name, value in named.items() if value is not None}
        if twice := [name for name in named if getattr(filter, name) is not None]:
            raise InvalidInput(f"The filter names {', '.join(twice)} too; name it once.")
        if tag is not None:
            named["tags"] = (*filter.tags, tag)
        has_conditions = filter != EVERYTHING or bool(named)
        if sum((ids is not None, has_conditions, everything)) != 1 or not (ids is None or ids):
            raise InvalidInput(
                "Name exactly one: ids, conditions (session_id, tag, author, before, after, "
                "filter), or everything."
            )
        condition = replace(filter, **named)
        if has_conditions and condition == Filter(superseded=True):
            raise InvalidInput(
                "The filter lets every memory through; say everything=True to erase them all."
            )
        erased: dict[str, None] = {}
        with self.operation("delete_memory", scope):
            request = Erasure(ids=ids or (), dry_run=dry_run, who=who, now=self.clock())
            try:
                for which in await erasures(self.store, scope, condition, request):
                    erased |= dict.fromkeys(await self.store.forget(scope, which))
            finally:  # some may be erased although others failed
                if not dry_run:
                    self.forget_vectors()
        if missing := sorted({*request.ids} - erased.keys()):
            others = " The others were erased." if erased and not dry_run else ""
            raise NotFound(f"No memory {', '.join(missing)} in this scope.{others}")
        return Forgotten(
            tuple(erased),
            await self._linked(scope, [*erased]) if dry_run and not everything else (),
        )

    async def _linked(self, scope: Scope, ids: Sequence[str]) -> tuple[str, ...]:
        """Return the visible memories that are linked with these, without these."""
        memories = self.store.memories
        now = self.clock()
        links = set[str]()
        for batch in batched(ids, MAX_AT_ONCE):
            erased = await memories.get(scope, batch, now=now, superseded=True)
            links.update(*(memory.links for memory in erased.values()))
        return tuple(await memories.get(scope, sorted(links - {*ids}), now=now))

    @verb("POST /memories/{id}/reject", durable=True)
    async def reject(self, scope: Scope, id: str, *, who: Who = "") -> tuple[str, ...]:
        """Erase a quarantined memory like `forget`, and return the erased ids.

        Raises:
            NotFound: no memory with this id is quarantined, or it has expired.
        """
        await self.stored(scope, id, quarantined=True)
        return (await self.forget(scope, id, who=who)).ids

    @verb("POST /tenants/forget", durable=True)
    async def forget_tenant(
        self, tenant: Name, *, limit: Positive | None = None, who: Who = ""
    ) -> ForgottenTenant:
        """Erase everything of a tenant: memories, histories, vectors, counters, queued work,
        tombstones, the names of its users and apps, and its bearer tokens.

        The work is done in transactions of limited size; after an interruption the same call
        continues. Stop the tenant's agents first: memories saved meanwhile may remain.

        Args:
            tenant: the tenant; "", the tenant of those who name none, is refused.
            limit: the approximate number of memories to erase; `done` says if any are left. None:
                all.
            who: the name for the receipts, which remain.

        Raises:
            InvalidInput: the tenant is empty or invalid, or the limit is below 1.
        """
        if not tenant:  # most likely an unset variable
            raise InvalidInput(
                "The tenant must not be empty; memories of no tenant are erased scope by scope "
                "with forget."
            )
        if limit is None:
            erased = ForgottenTenant(done=False)
            while not erased.done:
                erased += await self.forget_tenant(tenant, limit=MAX_AT_ONCE, who=who)
            return erased
        with self.operation("delete_memory"):
            await self.deliveries.flush()
            try:
                return await self.store.forget_tenant(
                    tenant, limit=min(limit, MAX_AT_ONCE), who=who, now=self.clock()
                )
            finally:
                self.forget_vectors()

    @verb("GET /receipts")
    async def receipts(
        self, *, tenant: Name | None = None, after: int = 0, limit: Count = 100
    ) -> Sequence[Receipt]:
        """Return the receipts of a tenant's forgetting, oldest first.

        Args:
            tenant: the tenant; None: the setting's, or through a server the token's or the
                server's.
            after: only receipts with a higher number.
            limit: the most receipts to return.
        """
        return await self.store.receipts.read(
            chain_id(self.settings.tenant if tenant is None else tenant), after=after, limit=limit
        )

    @verb("GET /receipts/check")
    async def check_receipts(self, *, tenant: Name | None = None) -> ReceiptCheck:
        """Check that all receipts are present and unchanged; name those edited, removed, added or
        reordered.

        Args:
            tenant: the tenant; None: all tenants.
        """
        receipts, count = self.store.receipts, 0
        wrong, heads = dict[str, Sequence[str]](), dict[str, str]()
        for id in await receipts.chains() if tenant is None else [chain_id(tenant)]:
            chain = await receipts.chain(id)
            last, texts = None, list[str]()
            while True:
                if page := await receipts.read(
                    id, after=last.number if last else 0, limit=MAX_AT_ONCE
                ):
                    texts += problems(page, last)
                    last = page[-1]
                elif chain == (chain := await receipts.chain(id)):
                    break  # nothing was forgotten meanwhile
            if last:
                count += last.number
                heads[id] = last.digest
            if (chain or last) and (end := problem_at_end(chain, last)):
                texts.append(end)
            if texts:
                wrong[id] = texts
        return ReceiptCheck(
            chains=len({*heads, *wrong}), receipts=count, problems=wrong, heads=heads
        )
