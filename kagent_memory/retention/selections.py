"""Choose what a call of `forget` erases, in transactions of limited size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..concurrency import batched
from ..records import Filter, Scope
from ..stores import Store
from ..stores.codec import MAX_LIMIT, messages_in
from ..stores.values import Erasure

MAX_AT_ONCE = 1000
"""The most memories that one transaction erases, of many chosen by what they have in common; also
the most receipts that are read at once.
"""


async def erasures(
    store: Store, scope: Scope, condition: Filter, request: Erasure
) -> Sequence[Erasure]:
    """Split what a request erases into transactions.

    Args:
        store: the store of the scope.
        scope: the scope of the memories.
        condition: selects the memories if the request names no ids; an empty filter selects all.
        request: the ids, and what else every transaction needs.
    """
    if request.ids:
        return [request]
    session_id, author = condition.session_id, condition.author
    event_ids = set[str]()
    if author is not None and condition == Filter(session_id=session_id, author=author):
        # what is queued must not be ingested later; read first, so that memories of a job that ends
        # meanwhile are included
        queued = await store.queue.jobs(scope=scope, limit=MAX_LIMIT)
        event_ids = {
            message["event_id"]
            for job in queued
            if session_id in (None, job.session_id)
            for message in messages_in(job.payload)
            if message.get("author") == author
        }
    ids = await store.memories.kept(scope, condition)
    chosen = [replace(request, ids=batch) for batch in batched(ids, MAX_AT_ONCE)]
    # A whole session or scope takes its queued work along, in the transaction of the last part.
    if condition == Filter(session_id=session_id):
        chosen[-1:] = [replace(request, session_id=session_id, everything=session_id is None)]
    elif event_ids:
        chosen.append(replace(request, event_ids=sorted(event_ids)))
    return chosen
