"""What a summary provider found, as it may be stored: whole, within bounds, with its sources."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..errors import InvalidInput
from ..extract import pieces
from ..records import Fact
from ..revise import checked_fact

log = logging.getLogger("kagent_memory")


def storable(facts: Sequence[Fact], *, session_id: str, event_ids: Sequence[str], max_bytes: int) -> list[Fact]:
    """The facts with their session and sources; long ones cut between sentences, unfit ones left out and logged.

    A fact that names no source has all of the transcript's.
    """
    kept: list[Fact] = []
    for fact in facts:
        known = replace(
            fact, session_id=fact.session_id or session_id or None, event_ids=fact.event_ids or tuple(event_ids)
        )
        for part in _cut(known, max_bytes):
            try:
                kept.append(checked_fact(part, max_bytes=max_bytes, redact=str))
            except InvalidInput as error:
                log.warning("The summary provider gave a fact that cannot be stored: %s", error)
    return kept


def _cut(fact: Fact, max_bytes: int) -> Iterator[Fact]:
    if len(fact.text.encode(errors="replace")) <= max_bytes:
        yield fact
        return
    for piece in pieces(fact.text, max(1, max_bytes // 4)):  # a token is at most 4 bytes
        yield replace(fact, text=piece)
