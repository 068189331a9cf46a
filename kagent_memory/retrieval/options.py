"""What a search may be asked for, declared once: the verb, its forwarders and the retriever all take these options."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

from ..records import Filter, Vector


class RecallOptions(TypedDict, total=False):
    """The options of `MemoryApi.recall`.

    Attributes:
        limit: hits at most; None: the setting.
        min_score: floor on the full query's cosine for memories that only their vectors found, before the limit; no
            effect in keyword mode. None: the setting.
        filter: which memories count.
        embedding: the query's vector, brought by the caller.
        embedding_space: the name of any embedding space that the store has, to search with such a vector; see `add`.
        explain: fills `Hit.why` and `Recall.left_out`; counts nothing.
        deliver: counts the hits as delivered; the default.
        gate: lets the gate answer empty for what needs no memory; `degraded` says "gated" then.
        tool: tells the gate that the query is meant for a tool, so that it is not searched.
        is_fact: tells the gate what a classifier of yours found: True: the query asks for general knowledge and is held
            back unless it holds a personal word; False: it does not; None: the gate's patterns decide.
        history: the last user turns, oldest first, to complete a vague query from; the last three count.
        budget_tokens: the most the hits' contents may hold, in tokens (of 4 ASCII characters, or 1 other).
        timeout_seconds: how long the caller waits: models that help the search get a part of it, so that it goes on
            without them in time; None: they get what the settings give them.
        as_of: answers as it would have been answered at this time, from the history of the memories; what was forgotten
            or pruned since stays gone. Counts nothing. Reads at most 50,000 memories.
        session_id: the session that asks: its short-term memories are searched beside the others. It narrows nothing;
            `Filter(session_id=…)` does.
    """

    limit: int | None
    min_score: float | None
    filter: Filter
    embedding: Vector | None
    embedding_space: str | None
    explain: bool
    deliver: bool
    gate: bool
    tool: bool
    is_fact: bool | None
    history: Sequence[str]
    budget_tokens: int | None
    timeout_seconds: float | None
    as_of: datetime | None
    session_id: str | None
