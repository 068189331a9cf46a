"""What memory itself had said is not heard again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ..records import Message, Scope
from ..stores.base import MemoryStore


async def without_echoes(
    store: MemoryStore, scope: Scope, messages: Sequence[Message], *, now: datetime
) -> tuple[list[Message], list[str]]:
    """The messages without echoes of memory, and the ids of what was echoed."""
    return list(messages), []
