"""A store of your own: ours, with an account of who erased what. See docs/how-to/writing-a-store.md."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from kagent_memory import Scope
from kagent_memory.records import Change, Memory, new_id
from kagent_memory.stores.base import Batch
from kagent_memory.stores.libsql import LibSQLStore

SCOPE = Scope("", "ada", "desk")


class AccountingStore(LibSQLStore):
    """Says how many memories were erased, and of which app; never what they said."""

    async def forget(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] = (),
        session_id: str | None = None,
        everything: bool = False,
        now: datetime,
    ) -> tuple[str, ...]:
        erased = await super().forget(scope, ids=ids, session_id=session_id, everything=everything, now=now)
        print(f"{now:%Y-%m-%d} erased {len(erased)} of {scope.app}")
        return erased


async def main() -> None:
    now = datetime.now(UTC)
    async with await AccountingStore.open("libsql:///:memory:") as store:
        memory = Memory(id=new_id(), content="The spare key is with Grace.", created_at=now, updated_at=now)
        await store.apply(SCOPE, Batch(changes=[Change(kind="add", memory=memory)]), now=now)
        await store.forget(SCOPE, ids=[memory.id], now=now)


if __name__ == "__main__":
    asyncio.run(main())
