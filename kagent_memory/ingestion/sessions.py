"""Memories of a session: its turns, which are the sources of extracted facts, and short-term
memories, which last for some hours.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ..language.tokenizer import identity
from ..records import Change, Fact, Memory, source_id
from ..retention.lifecycle import to_memory
from ..settings import MemorySettings
from .echoes import Repeats
from .planner import latest

MIN_PROMOTED_IMPORTANCE = 0.7  # from which a fact is long-term at once


def source_changes(
    turns: Sequence[Fact],
    facts: Sequence[Memory],
    same: Mapping[str, str],
    *,
    settings: MemorySettings,
    now: datetime,
) -> list[Change]:
    """Return the changes that add turns, each linked with the facts that share an event with it.

    A turn lives by its TTL and at least as long as its facts. Turns of a quarantined origin are
    left out: nobody could confirm them with their facts.

    Args:
        turns: the turns, checked.
        facts: the rows of the extracted facts.
        same: id of such a row → id of the memory that states the same already.
        settings: TTLs and quarantine.
        now: the time of the addition (aware UTC).
    """
    by_event = defaultdict[str, list[Memory]](list)
    for fact in facts:
        for event_id in fact.event_ids if fact.source_ids else ():
            by_event[event_id].append(fact)
    changes: list[Change] = []
    parts = Counter[str]()
    for turn in turns:
        if turn.origin in settings.quarantine:
            continue
        turn_facts = [fact for event_id in turn.event_ids for fact in by_event[event_id]]
        row = to_memory(turn, settings, now=now, id=_turn_id(turn, parts))
        links = dict.fromkeys(same.get(fact.id, fact.id) for fact in turn_facts)
        expires_at = latest(
            (row.expires_at, *(None if fact.pinned else fact.expires_at for fact in turn_facts))
        )
        row = replace(row, state="source", links=tuple(links), expires_at=expires_at)
        changes.append(Change(kind="add", memory=row, event_ids=turn.event_ids))
    return changes


def kept_beside(rows: Sequence[Memory], repeats: Repeats) -> list[Memory]:
    """Return rows with each turn of an agent that may repeat memories as a kept turn beside
    them.

    What comes from several events, or was pinned or labelled by its provider, stays a memory.
    """
    parts = Counter[str]()
    kept: list[Memory] = []
    for row in rows:
        ids = repeats.get(row.event_ids[0], ()) if len(row.event_ids) == 1 else ()
        is_labelled = row.pinned or row.tags or row.category or row.metadata
        is_spoken = row.verbatim and row.state == "active" and row.origin != "user"
        if ids and is_spoken and not is_labelled:
            id = _turn_id(row, parts)
            row = replace(row, id=id, state="source", links=tuple(ids))
        kept.append(row)
    return kept


def _turn_id(turn: Fact | Memory, parts: Counter[str]) -> str:
    """Return the id of a kept turn, which derives from its event; further parts of a long turn,
    counted in `parts`, get their own.
    """
    event_id = turn.event_ids[-1] if turn.event_ids else ""
    parts[event_id] += 1
    name = event_id if parts[event_id] == 1 else f"{event_id}\n{parts[event_id]}"
    return source_id(turn.session_id, name)


def tiered(
    new: Sequence[Memory], short_term: Sequence[Memory], *, hours: float, now: datetime
) -> Sequence[Memory]:
    """Return facts as short-term memories of their sessions.

    A fact is long-term at once if it is important, pinned, without a session, a summary of its
    session, or repeats a short-term memory of another session literally.

    Args:
        new: the rows that the facts would become.
        short_term: the short-term memories of the scope.
        hours: the life of a short-term memory; 0: all facts are long-term at once.
        now: the time of the addition (aware UTC).
    """
    session_ids = {fact.session_id for fact in new}
    elsewhere = {
        identity(memory.content, verbatim=False)
        for memory in short_term
        if memory.session_id not in session_ids
    }
    return [
        fact
        if not hours
        or fact.state != "active"
        or fact.pinned
        or fact.is_summary
        or fact.session_id is None
        or fact.importance >= MIN_PROMOTED_IMPORTANCE
        or identity(fact.content, verbatim=False) in elsewhere
        else replace(fact, state="short_term", expires_at=now + timedelta(hours=hours))
        for fact in new
    ]
