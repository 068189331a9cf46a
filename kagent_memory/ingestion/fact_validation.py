"""What a summary provider found, as it may be stored: whole, within bounds, with its sources."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ..errors import InvalidInput
from ..records import Fact
from .editing import checked_fact
from .extraction import pieces

logger = logging.getLogger(__name__)


def storable(
    facts: Sequence[Fact],
    *,
    session_id: str,
    sources: Mapping[str, datetime | None],
    said_at: datetime,
    max_bytes: int,
) -> list[Fact]:
    """The facts with their session and sources; long ones cut between sentences, unfit ones left out and logged.

    Args:
        facts: what a provider found.
        session_id: where it was said.
        sources: the events of the transcript and when each was; a fact that names none has all of them.
        said_at: when a fact was said of whose sources none tells a time.
        max_bytes: of one fact.
    """
    kept: list[Fact] = []
    everything, ended = tuple(sources), _last(sources, sources) or said_at
    for fact in facts:
        known = replace(
            fact,
            session_id=fact.session_id or session_id or None,
            said_at=fact.said_at or _last(fact.event_ids, sources) or ended,
        )
        fits = len(known.text.encode(errors="replace")) <= max_bytes
        texts = [known.text] if fits else pieces(known.text, max(1, max_bytes // 4))  # a token is at most 4 bytes
        for number, text in enumerate(texts, 1):
            # each part has a slot of its own: no part is a later value of another
            attribute = f"{known.attribute} ({number})" if known.attribute and number > 1 else known.attribute
            part = replace(known, text=text, attribute=attribute)
            try:
                checked = checked_fact(part, max_bytes=max_bytes, redact=str)
            except InvalidInput as error:
                logger.warning("The summary provider gave a fact that cannot be stored: %s", error)
            else:
                # the transcript's events were checked when it was queued
                kept.append(checked if checked.event_ids else replace(checked, event_ids=everything))
    return kept


def _last(event_ids: Iterable[str], sources: Mapping[str, datetime | None]) -> datetime | None:
    return max((at for id in event_ids if (at := sources.get(id)) is not None), default=None)
