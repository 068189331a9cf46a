"""The near end of the queue: a transcript comes in, and is durable before the caller goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ..models.llm import Llm
from ..records import Message, Scope, new_id
from ..stores.base import Job, Store
from .extraction.compaction import REUSING
from .payload import batch_key, checked_minutes, prepared, to_payload
from .providers import Providers
from .recalled_filter import without_handed

LARGE_CHARS = 65_536  # masking more than this takes long enough to be felt by others on the loop


class Enqueuer:
    """Queues transcripts; nothing here calls a model."""

    def __init__(
        self, store: Store, providers: Providers, *, redact: Callable[[str], str], clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._providers = providers
        self._redact = redact
        self._clock = clock

    async def queue(
        self,
        scope: Scope,
        messages: Sequence[Message],
        session_id: str,
        *,
        ended: bool = False,
        save: bool = True,
        end_after_minutes: float | None = None,
        compaction: bool = False,
        llm: Llm | str | None = None,
    ) -> str | None:
        """Queues what is new of a transcript, and arms the session's timer; see `Memories.remember`."""
        checked_minutes(end_after_minutes)
        new = await self._new(scope, session_id, await self._prepared(messages, session_id))
        if any(message.recalled for message in new):
            new = await asyncio.to_thread(without_handed, new)
        if end_after_minutes is not None and not compaction:
            compaction = await self._reuses_compaction(scope, session_id)
        chosen = self._providers.choose(compaction=compaction, at_hand=llm)
        now = self._clock()
        jobs: list[Job] = []
        if save and (new or ended):
            jobs.append(self._transcript(scope, session_id, new, chosen, now, ended=ended))
        if end_after_minutes is not None:  # the store adds them to those that wait already
            timer = self._timer(scope, session_id, new, chosen, now)
            jobs.append(replace(timer, run_after=now + timedelta(minutes=end_after_minutes)))
        self._providers.bring(jobs, llm)
        await self._store.enqueue(jobs)
        return jobs[0].id if save and (new or ended) else None

    async def end_session(self, scope: Scope, session_id: str) -> None:
        """Makes the session's armed timer due."""
        waiting = await self._store.waiting(scope, "session_end", session_id)
        if waiting is not None:
            await self._store.enqueue([replace(waiting, run_after=self._clock())])

    async def _reuses_compaction(self, scope: Scope, session_id: str) -> bool:
        """Whether the session's timer was armed to use ADK's summaries: who ends the session need not say so again."""
        waiting = await self._store.waiting(scope, "session_end", session_id)
        return waiting is not None and waiting.provider.startswith(f"{REUSING}+")

    async def _prepared(self, messages: Sequence[Message], session_id: str) -> list[Message]:
        if sum(len(message.text) for message in messages) < LARGE_CHARS:
            return prepared(messages, session_id, self._redact)
        return await asyncio.to_thread(prepared, messages, session_id, self._redact)

    async def _new(self, scope: Scope, session_id: str, messages: Sequence[Message]) -> list[Message]:
        taken = await self._store.taken(scope, session_id, [message.event_id for message in messages])
        return [message for message in messages if message.event_id not in taken]

    def _transcript(
        self,
        scope: Scope,
        session_id: str,
        messages: Sequence[Message],
        chosen: tuple[str, str],
        now: datetime,
        *,
        ended: bool,
    ) -> Job:
        return Job(
            id=new_id(now),
            scope=scope,
            kind="transcript",
            session_id=session_id,
            key=batch_key(messages, session_id, ended=ended),
            payload=to_payload(scope, messages, ended=ended),
            provider=chosen[0],
            model=chosen[1],
            run_after=now,
            created_at=now,
        )

    def _timer(
        self, scope: Scope, session_id: str, messages: Sequence[Message], chosen: tuple[str, str], now: datetime
    ) -> Job:
        transcript = self._transcript(scope, session_id, messages, chosen, now, ended=True)
        return replace(transcript, kind="session_end", key=session_id)
