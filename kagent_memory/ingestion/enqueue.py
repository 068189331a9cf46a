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
        if sum(len(str(message.text)) for message in messages) < LARGE_CHARS:
            ready = prepared(messages, session_id, self._redact)
        else:
            ready = await asyncio.to_thread(prepared, messages, session_id, self._redact)
        ingested = await self._store.taken(scope, session_id, [message.event_id for message in ready])
        new = [message for message in ready if message.event_id not in ingested]
        if any(message.recalled for message in new):
            new = await asyncio.to_thread(without_handed, new)
        if end_after_minutes is not None and not compaction:  # who ends a session need not say so again
            waiting = await self._store.waiting(scope, "session_end", session_id)
            compaction = waiting is not None and waiting.provider.startswith(f"{REUSING}+")
        provider, model = self._providers.choose(compaction=compaction, at_hand=llm)
        now = self._clock()
        jobs: list[Job] = []
        if save and (new or ended):
            jobs.append(
                Job(
                    id=new_id(now),
                    scope=scope,
                    kind="transcript",
                    session_id=session_id,
                    key=batch_key(new, session_id, ended=ended),
                    payload=to_payload(scope, new, ended=ended),
                    provider=provider,
                    model=model,
                    run_after=now,
                    created_at=now,
                )
            )
        if end_after_minutes is not None:  # the store adds these messages to those that wait already
            jobs.append(
                Job(
                    id=new_id(now),
                    scope=scope,
                    kind="session_end",
                    session_id=session_id,
                    key=session_id,
                    payload=to_payload(scope, new, ended=True),
                    provider=provider,
                    model=model,
                    run_after=now + timedelta(minutes=end_after_minutes),
                    created_at=now,
                )
            )
        self._providers.bring(jobs, llm)
        await self._store.enqueue(jobs)
        return jobs[0].id if save and (new or ended) else None

    async def end_session(self, scope: Scope, session_id: str) -> None:
        """Makes the session's armed timer due."""
        waiting = await self._store.waiting(scope, "session_end", session_id)
        if waiting is not None:
            await self._store.enqueue([replace(waiting, run_after=self._clock())])
