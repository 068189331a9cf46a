"""Turns kept as they were said, without a model."""

from __future__ import annotations

from collections.abc import Sequence

from ...records import Fact, MemoryType
from .transcript import Transcript


class PassthroughSummary:
    """Every message becomes one memory, word for word; the same words said twice are two memories."""

    name = "passthrough"

    def __init__(self, type: MemoryType = "episodic"):
        self.type: MemoryType = type

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        """One fact per message that says something; compaction summaries are not turns and are left out."""
        said = (message for message in transcript if message.text.strip() and message.compaction is None)
        return [
            Fact(
                text=message.text,
                type=self.type,
                origin=message.role,
                author=message.author or None,
                session_id=transcript.session_id or None,
                event_ids=(message.event_id,) if message.event_id else (),
                happened_at=message.at,
                verbatim=True,
            )
            for message in said
        ]
